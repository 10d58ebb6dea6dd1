#include "cohort/base/work.h"

#include <array>

namespace cohort {

std::string_view name(Operation operation) {
  constexpr std::array<std::string_view, kOperations> kNames = {
      "add",    "mul",  "fma",    "div",  "sqrt", "exp",         "log",
      "select", "cast", "reduce", "sort", "copy", "matmul_int8", "matmul_float32"};
  return kNames[static_cast<std::size_t>(operation)];
}

}  // namespace cohort
