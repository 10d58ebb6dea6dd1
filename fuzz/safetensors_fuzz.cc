// Any bytes: a clear error, or tensors that survive being written and read again.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <unistd.h>

#include "cohort/tensor/safetensors.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

// Mostly changes the header alone and says how long it has become: else hardly any change is seen
// by anything but the check of that length.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned int seed) {
  constexpr std::size_t kLength = 8;
  std::uint64_t length = 0;
  if (size >= kLength) std::memcpy(&length, data, kLength);
  if (seed % 4 == 0 || size < kLength || length > size - kLength) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  const std::vector<std::uint8_t> after(data + kLength + length, data + size);
  const std::size_t room = max_size - kLength - after.size();
  if (room == 0) return LLVMFuzzerMutate(data, size, max_size);
  length = LLVMFuzzerMutate(data + kLength, length, room);
  std::memcpy(data, &length, kLength);
  std::copy(after.begin(), after.end(), data + kLength + length);
  return kLength + length + after.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using cohort::SafeTensors;
  const auto first = SafeTensors::parse({reinterpret_cast<const std::byte*>(data), size}, "input");
  if (!first) {
    COHORT_CHECK(!first.error().message.empty(), "an error without a message");
    return 0;
  }
  static const std::string path = "/tmp/cohort_safetensors_fuzz." + std::to_string(::getpid());
  static const int cleanup = std::atexit([] { ::unlink(path.c_str()); });
  COHORT_CHECK(cleanup == 0, "can't register the cleanup");
  const auto written = cohort::write_safetensors(path, first->tensors(), first->metadata());
  COHORT_CHECK(written, written.error().message);
  const auto second = SafeTensors::open(path);
  COHORT_CHECK(second, second.error().message);
  COHORT_CHECK(second->metadata() == first->metadata(), "metadata changed");
  COHORT_CHECK(second->tensors().size() == first->tensors().size(), "tensors were lost");
  std::string other;
  while (first->tensors().contains(other)) other += 'x';
  COHORT_CHECK(!second->find(other), "a tensor that isn't there was found");
  for (const auto& [name, tensor] : first->tensors()) {
    const auto again = second->find(name);
    COHORT_CHECK(again, again.error().message);
    COHORT_CHECK(again->dtype == tensor.dtype && again->shape == tensor.shape, "a type changed");
    COHORT_CHECK(std::ranges::equal(again->bytes, tensor.bytes), "bytes changed");
  }
  return 0;
}
