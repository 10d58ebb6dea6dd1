#include "cohort/tensor/dtype.h"

#include <array>

namespace cohort {
namespace {

struct Entry {
  std::string_view name;
  std::int64_t bytes;
};

constexpr std::array<Entry, kDTypes> kEntries = {{
    {"F64", 8},
    {"F32", 4},
    {"F16", 2},
    {"BF16", 2},
    {"F8_E4M3", 1},
    {"F8_E5M2", 1},
    {"I64", 8},
    {"I32", 4},
    {"I16", 2},
    {"I8", 1},
    {"U8", 1},
    {"BOOL", 1},
}};

}  // namespace

std::int64_t size_of(DType dtype) { return kEntries[static_cast<std::size_t>(dtype)].bytes; }

std::string_view name(DType dtype) { return kEntries[static_cast<std::size_t>(dtype)].name; }

std::optional<DType> dtype_named(std::string_view name) {
  for (std::size_t i = 0; i < kEntries.size(); ++i) {
    if (kEntries[i].name == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace cohort
