#pragma once

#include <string>
#include <string_view>

#include "cohort/base/result.h"
#include "cohort/litmus/ast.h"

namespace cohort::litmus {

/// The text of the procedures that every file can call.
std::string_view prelude();

/// A memory model as it is written in a file, without the word `memory`.
///
/// Errors: kInvalidArgument with file:line:col, the source line and a caret.
Result<Memory> parse_memory(std::string_view text, std::string_view filename);

}  // namespace cohort::litmus
