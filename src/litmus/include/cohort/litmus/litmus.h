#pragma once

#include <string_view>

#include "cohort/base/result.h"
#include "cohort/litmus/ast.h"

namespace cohort::litmus {

/// Reads the text of a litmus file. Names are resolved when a case of it is compiled.
///
/// Errors: kInvalidArgument with file:line:col, the source line and a caret; kLimit above 1 MiB.
Result<File> parse(std::string_view text, std::string_view filename);

}  // namespace cohort::litmus
