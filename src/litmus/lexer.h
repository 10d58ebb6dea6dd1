#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cohort/base/result.h"
#include "cohort/litmus/ast.h"

namespace cohort::litmus {

struct Token {
  enum class Kind { kName, kNumber, kString, kSymbol, kEnd };
  Kind kind = Kind::kEnd;
  std::string text = {};  ///< Name, symbol, or the string without its quotes.
  std::int64_t value = 0;
  Position at = {};
};

/// `text` at `at`, the source line and a caret, as every error about a litmus file is written.
Unexpected fail_at(std::string_view filename, std::string_view source, Position at,
                   std::string_view text);

/// The tokens of a text, the last of kind kEnd.
///
/// Errors: kInvalidArgument with file:line:col, the source line and a caret.
Result<std::vector<Token>> tokenise(std::string_view source, std::string_view filename);

}  // namespace cohort::litmus
