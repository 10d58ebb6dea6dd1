// Two threads that hand one cache line to and fro: the floor of a barrier between two cores.
#include <atomic>
#include <thread>

#include "samples.h"

namespace {

std::vector<double> ping_pong() {
  constexpr int kRounds = 200'000;
  alignas(64) static std::atomic<int> word;
  return samples::time(11, kRounds, [] {
    word = 0;
    std::thread other([] {
      for (int i = 0; i < kRounds; ++i) {
        while (word.load(std::memory_order_acquire) != 2 * i + 1) {
        }
        word.store(2 * i + 2, std::memory_order_release);
      }
    });
    for (int i = 0; i < kRounds; ++i) {
      word.store(2 * i + 1, std::memory_order_release);
      while (word.load(std::memory_order_acquire) != 2 * i + 2) {
      }
    }
    other.join();
  });
}

}  // namespace

int main(int argc, char** argv) { return samples::main(argc, argv, {{"barrier/2", {ping_pong}}}); }
