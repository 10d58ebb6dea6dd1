// What the reader and the writer of safetensors files share.
#pragma once

#include <bit>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "cohort/base/result.h"
#include "cohort/base/strings.h"

namespace cohort {

static_assert(std::endian::native == std::endian::little, "tensors are stored little-endian");

inline constexpr std::string_view kMetadata = "__metadata__";
inline constexpr std::size_t kLengthBytes = 8;

inline std::string in_quotes(const std::string& text) { return '"' + printable(text) + '"'; }

// What the operating system says went wrong, just now.
inline Unexpected io_error(const std::string& what, const std::string& path) {
  return fail(ErrorCode::kIo,
              "can't " + what + " " + in_quotes(path) + ": " + std::strerror(errno));
}

class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close_now(); }
  int get() const { return descriptor_; }
  bool close_now() {
    const int descriptor = std::exchange(descriptor_, -1);
    return descriptor < 0 || ::close(descriptor) == 0;
  }

 private:
  int descriptor_;
};

}  // namespace cohort
