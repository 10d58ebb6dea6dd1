#include "cohort/base/hash.h"

#include <cstring>

namespace cohort {
namespace {

constexpr std::uint64_t mix(std::uint64_t x) {  // The finaliser of SplitMix64.
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace

Hasher& Hasher::add(std::uint64_t value) {
  state_ = mix(state_ + 0x9E3779B97F4A7C15u + value) ^ (state_ << 1);
  return *this;
}

Hasher& Hasher::add(std::span<const std::byte> bytes) {
  add(std::uint64_t{bytes.size()});
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    add(word);
  }
  if (i < bytes.size()) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, bytes.size() - i);
    add(word);
  }
  return *this;
}

std::uint64_t Hasher::digest() const { return mix(state_); }

}  // namespace cohort
