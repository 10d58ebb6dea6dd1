#include "cohort/graph/operand.h"

namespace cohort {

std::string_view name(Direction direction) {
  switch (direction) {
    case Direction::kIn:
      return "In";
    case Direction::kOut:
      return "Out";
    case Direction::kInOut:
      return "InOut";
    case Direction::kWindow:
      return "Window";
    case Direction::kScalar:
      return "scalar";
  }
  return "";
}

}  // namespace cohort
