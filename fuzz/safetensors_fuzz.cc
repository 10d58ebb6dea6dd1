// Any bytes: a clear error, or tensors that survive being written and read again.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <unistd.h>

#include "cohort/tensor/safetensors.h"

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
  for (const auto& [name, tensor] : first->tensors()) {
    const auto& again = second->tensors().at(name);
    COHORT_CHECK(again.dtype == tensor.dtype && again.shape == tensor.shape, "a type changed");
    COHORT_CHECK(std::ranges::equal(again.bytes, tensor.bytes), "bytes changed");
  }
  return 0;
}
