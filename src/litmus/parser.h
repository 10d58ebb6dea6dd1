#pragma once

#include <string>
#include <string_view>

#include "cohort/base/result.h"
#include "cohort/litmus/ast.h"

namespace cohort::litmus {

/// The text of the procedures that every file can call.
std::string_view prelude();

}  // namespace cohort::litmus
