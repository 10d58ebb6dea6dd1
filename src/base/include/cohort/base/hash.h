#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace cohort {

/// Mixes a sequence of values into 64 bits: the fingerprint of a run, the name of a random stream.
/// The same on every machine; not for adversaries.
///
/// Determinism: depends on the bytes added and where the calls divide them, on nothing else.
class Hasher {
 public:
  Hasher& add(std::uint64_t value);
  Hasher& add(std::span<const std::byte> bytes);
  Hasher& add(std::string_view text) { return add(std::as_bytes(std::span(text))); }

  std::uint64_t digest() const;

 private:
  std::uint64_t state_ = 0x9E3779B97F4A7C15u;
};

}  // namespace cohort
