#include "lexer.h"

#include <algorithm>

#include "cohort/base/strings.h"

namespace cohort::litmus {
namespace {

constexpr std::int64_t kLargest = (std::int64_t{1} << 30) - 1;
constexpr std::size_t kShownColumns = 120;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

class Lexer {
 public:
  Lexer(std::string_view source, std::string_view filename)
      : source_(source), filename_(filename) {}

  Result<std::vector<Token>> run() {
    while (skip_space(), i_ < source_.size()) {
      const char c = source_[i_];
      Token token{.at = here()};
      if (is_letter(c)) {
        const std::size_t start = i_;
        while (i_ < source_.size() && (is_letter(source_[i_]) || is_digit(source_[i_]))) ++i_;
        token.kind = Token::Kind::kName;
        token.text = source_.substr(start, i_ - start);
      } else if (is_digit(c)) {
        COHORT_TRY_STATUS(number(token));
      } else if (c == '"') {
        COHORT_TRY_STATUS(string(token));
      } else {
        COHORT_TRY_STATUS(symbol(token));
      }
      tokens_.push_back(std::move(token));
    }
    tokens_.push_back({.at = here()});
    return std::move(tokens_);
  }

 private:
  Position here() const { return {line_, static_cast<int>(i_ - line_start_) + 1}; }

  void skip_space() {
    bool comment = false;
    for (; i_ < source_.size(); ++i_) {
      const char c = source_[i_];
      if (c == '\n') {
        ++line_;
        line_start_ = i_ + 1;
        comment = false;
      } else if (c == '#') {
        comment = true;
      } else if (!comment && c != ' ' && c != '\t' && c != '\r') {
        return;
      }
    }
  }

  Status number(Token& token) {
    const std::size_t start = i_;
    int base = 10;
    if (source_.substr(i_, 2) == "0x") {
      base = 16;
      i_ += 2;
    }
    const std::size_t digits = i_;
    std::int64_t value = 0;
    while (i_ < source_.size() && (is_letter(source_[i_]) || is_digit(source_[i_]))) {
      const int digit = digit_value(source_[i_]);
      if (digit >= base) {
        return fail_at(filename_, source_, here(),
                       "'" + printable(source_.substr(i_, 1)) + "' is not a digit of a number");
      }
      value = std::min(value * base + digit, kLargest + 1);
      ++i_;
    }
    if (i_ == digits) return fail_at(filename_, source_, token.at, "a number without digits");
    if (value > kLargest) {
      return fail_at(filename_, source_, token.at,
                     "the number " + std::string(source_.substr(start, i_ - start)) +
                         " is above the largest, 1073741823");
    }
    token.kind = Token::Kind::kNumber;
    token.value = value;
    token.text = source_.substr(start, i_ - start);
    return {};
  }

  Status string(Token& token) {
    const std::size_t start = ++i_;
    while (i_ < source_.size() && source_[i_] != '"' && source_[i_] != '\n') ++i_;
    if (i_ == source_.size() || source_[i_] == '\n') {
      return fail_at(filename_, source_, token.at, "a string without its closing quote");
    }
    token.kind = Token::Kind::kString;
    token.text = source_.substr(start, i_ - start);
    ++i_;
    return {};
  }

  Status symbol(Token& token) {
    constexpr std::string_view kTwo[] = {"..", "==", "!=", "<=", ">=", "&&", "||"};
    constexpr std::string_view kOne = "{}()[]=,;:<>+-*/%!?";
    const std::string_view two = source_.substr(i_, 2);
    if (std::ranges::find(kTwo, two) != std::end(kTwo)) {
      token.text = two;
    } else if (kOne.find(source_[i_]) != std::string_view::npos) {
      token.text = source_.substr(i_, 1);
    } else {
      return fail_at(filename_, source_, token.at,
                     "unexpected '" + printable(source_.substr(i_, 1)) + "'");
    }
    token.kind = Token::Kind::kSymbol;
    i_ += token.text.size();
    return {};
  }

  std::string_view source_;
  std::string_view filename_;
  std::size_t i_ = 0;
  std::size_t line_start_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

Unexpected fail_at(std::string_view filename, std::string_view source, Position at,
                   std::string_view text) {
  std::string message = printable(filename) + ":" + std::to_string(at.line) + ":" +
                        std::to_string(at.column) + ": " + std::string(text);
  std::size_t start = 0;
  for (int line = 1; line < at.line; ++line) start = source.find('\n', start) + 1;
  std::string_view line = source.substr(start, source.find('\n', start) - start);
  const auto column = static_cast<std::size_t>(at.column - 1);
  if (at.line > 0 && line.size() <= kShownColumns) {
    // Tabs become one space, so that the caret stands under its character.
    std::string shown(line);
    std::ranges::replace(shown, '\t', ' ');
    if (!shown.empty() && shown.back() == '\r') shown.pop_back();
    std::string caret(printable(shown.substr(0, std::min(column, shown.size()))).size(), ' ');
    message += "\n  " + printable(shown) + "\n  " + caret + "^";
  }
  return fail(ErrorCode::kInvalidArgument, message);
}

Result<std::vector<Token>> tokenise(std::string_view source, std::string_view filename) {
  return Lexer(source, filename).run();
}

}  // namespace cohort::litmus
