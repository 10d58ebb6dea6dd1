#include "parser.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "cohort/base/strings.h"
#include "cohort/litmus/litmus.h"

#include "lexer.h"

namespace cohort::litmus {
namespace {

constexpr int kDeepest = 64;
constexpr std::size_t kLongestText = std::size_t{1} << 20;

const std::vector<std::string>& declaration_words() {
  static const std::vector<std::string> words = {"memory", "param",  "word",   "bytes",   "ghost",
                                                 "proc",   "grid",   "lane",   "foreign", "finally",
                                                 "cores",  "expect", "variant"};
  return words;
}

const std::vector<std::string>& statement_words() {
  static const std::vector<std::string> words = {
      "load",  "store",    "add",    "exchange",   "cas",    "clean", "invalidate", "drain",
      "fence", "wait",     "if",     "else",       "either", "or",    "loop",       "for",
      "break", "continue", "assert", "checkpoint", "exit",   "crash", "skip"};
  return words;
}

// Words that mean something in an expression or after a keyword and can't be names.
const std::vector<std::string>& other_words() {
  static const std::vector<std::string> words = {
      "cached", "uncached", "dma",  "acquire", "release", "acq_rel", "until",
      "passed", "min",      "max",  "lane",    "width",   "out",     "in",
      "on",     "at",       "when", "after",   "cohort",  "lanes"};
  return words;
}

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

struct Infix {
  std::string_view text;
  Operator op;
  int level;
};
constexpr std::array<Infix, 13> kInfix = {{{"||", Operator::kOr, 1},
                                           {"&&", Operator::kAnd, 2},
                                           {"==", Operator::kEqual, 3},
                                           {"!=", Operator::kNotEqual, 3},
                                           {"<", Operator::kLess, 4},
                                           {"<=", Operator::kLessEqual, 4},
                                           {">", Operator::kGreater, 4},
                                           {">=", Operator::kGreaterEqual, 4},
                                           {"+", Operator::kAdd, 5},
                                           {"-", Operator::kSubtract, 5},
                                           {"*", Operator::kMultiply, 6},
                                           {"/", Operator::kDivide, 6},
                                           {"%", Operator::kRemainder, 6}}};

class Parser {
 public:
  Parser(std::string_view source, std::string_view filename, std::vector<Token> tokens)
      : source_(source), filename_(filename), tokens_(std::move(tokens)) {}

  // Declarations up to the end of the text or, in a variant, its brace.
  Status scope(Variant& into, std::vector<Variant>* variants) {
    while (!is_end() && !(variants == nullptr && is_symbol("}"))) {
      if (take_symbol(";")) continue;
      if (is_name("expect")) {
        COHORT_TRY(Expect one, expect());
        into.expects.push_back(std::move(one));
      } else if (is_name("variant") && variants != nullptr) {
        COHORT_TRY(Variant one, variant());
        for (const Variant& other : *variants) {
          if (other.name == one.name) {
            return error(one.at, "a second variant '" + one.name + "'");
          }
        }
        variants->push_back(std::move(one));
      } else {
        COHORT_TRY(Decl one, declaration());
        for (const auto& other : into.decls) {
          if (other->name == one.name) return error(one.at, "a second '" + one.name + "'");
        }
        into.decls.push_back(std::make_shared<const Decl>(std::move(one)));
      }
    }
    return {};
  }

  Result<Memory> memory() {
    Memory memory;
    const Token word = next();
    if (word.text == "sc") return memory;
    if (word.text == "weak") {
      memory.kind = Memory::Kind::kWeak;
      if (take_symbol("(")) {
        COHORT_TRY(const std::string name, dashed("'release-acquire'"));
        if (name != "release-acquire") {
          return error(last_, "expected 'release-acquire', found '" + name + "'");
        }
        COHORT_TRY_STATUS(expect_symbol(")"));
      }
      return memory;
    }
    if (word.text != "noncoherent") {
      return error(
          word.at,
          "expected a memory model, 'sc', 'noncoherent' or 'weak', found " + shown(word) +
              did_you_mean(word.text, std::vector<std::string>{"sc", "noncoherent", "weak"}));
    }
    memory.kind = Memory::Kind::kNoncoherent;
    if (!take_symbol("(")) return memory;
    do {
      COHORT_TRY_STATUS(memory_option(memory));
    } while (take_symbol(","));
    COHORT_TRY_STATUS(expect_symbol(")"));
    return memory;
  }

  Status at_end() {
    if (!is_end()) return error(peek().at, "expected the end, found " + shown(peek()));
    return {};
  }

 private:
  // -- Tokens ----------------------------------------------------------------------------------

  const Token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(i_ + ahead, tokens_.size() - 1)];
  }
  const Token& next() {
    const Token& token = peek();
    last_ = token.at;
    if (i_ + 1 < tokens_.size()) ++i_;
    return token;
  }
  bool is_end() const { return peek().kind == Token::Kind::kEnd; }
  bool is_symbol(std::string_view text) const {
    return peek().kind == Token::Kind::kSymbol && peek().text == text;
  }
  bool is_name(std::string_view text) const {
    return peek().kind == Token::Kind::kName && peek().text == text;
  }
  bool take_symbol(std::string_view text) {
    if (!is_symbol(text)) return false;
    next();
    return true;
  }
  bool take_name(std::string_view text) {
    if (!is_name(text)) return false;
    next();
    return true;
  }

  static std::string shown(const Token& token) {
    switch (token.kind) {
      case Token::Kind::kEnd:
        return "the end of the text";
      case Token::Kind::kString:
        return "a string";
      default:
        return "'" + token.text + "'";
    }
  }

  Unexpected error(Position at, const std::string& text) const {
    return fail_at(filename_, source_, at, text);
  }

  Status expect_symbol(std::string_view text) {
    if (take_symbol(text)) return {};
    return error(peek().at, "expected '" + std::string(text) + "', found " + shown(peek()));
  }
  Status expect_name(std::string_view text) {
    if (take_name(text)) return {};
    return error(peek().at, "expected '" + std::string(text) + "', found " + shown(peek()));
  }

  // A name that the file gives to something.
  Result<std::string> fresh_name(std::string_view what) {
    if (peek().kind != Token::Kind::kName) {
      return error(peek().at, "expected " + std::string(what) + ", found " + shown(peek()));
    }
    const std::string& name = peek().text;
    if (contains(declaration_words(), name) || contains(statement_words(), name) ||
        contains(other_words(), name)) {
      return error(peek().at,
                   "'" + name + "' is a word of the language and can't be " + std::string(what));
    }
    return next().text;
  }

  Result<std::string> dashed(std::string_view what) {
    if (peek().kind != Token::Kind::kName) {
      return error(peek().at, "expected " + std::string(what) + ", found " + shown(peek()));
    }
    const Position at = peek().at;
    std::string name = next().text;
    while (is_symbol("-") && peek(1).kind == Token::Kind::kName) {
      next();
      name += "-" + next().text;
    }
    last_ = at;
    return name;
  }

  Result<Verdict> verdict_word() {
    COHORT_TRY(const std::string name, dashed("a verdict word"));
    if (const auto verdict = verdict_of(name)) return *verdict;
    std::vector<std::string> words;
    for (int v = 0; v < kVerdicts; ++v) words.emplace_back(word(static_cast<Verdict>(v)));
    return error(last_, "'" + name + "' is not a verdict word" + did_you_mean(name, words));
  }

  // -- Expressions -----------------------------------------------------------------------------

  Result<Expr> expression(int level = 1) {
    if (depth_ >= kDeepest) {
      return error(peek().at, "nested deeper than " + std::to_string(kDeepest) + " levels");
    }
    ++depth_;
    auto result = binary(level);
    --depth_;
    return result;
  }

  Result<Expr> binary(int level) {
    COHORT_TRY(Expr left, unary());
    int length = 0;
    while (peek().kind == Token::Kind::kSymbol) {
      const auto infix = std::ranges::find(kInfix, peek().text, &Infix::text);
      if (infix == kInfix.end() || infix->level < level) break;
      // A chain of operators nests to the left: as deep a tree as parentheses make.
      if (++length > kDeepest) {
        return error(peek().at,
                     "more than " + std::to_string(kDeepest) + " operators in one expression");
      }
      const Position at = next().at;
      COHORT_TRY(Expr right, expression(infix->level + 1));
      Expr both{.kind = Expr::Kind::kBinary, .op = infix->op, .at = at};
      both.operands.push_back(std::move(left));
      both.operands.push_back(std::move(right));
      left = std::move(both);
    }
    return left;
  }

  Result<Expr> unary() {
    if (!is_symbol("!") && !is_symbol("-")) return primary();
    if (depth_ >= kDeepest) {
      return error(peek().at, "nested deeper than " + std::to_string(kDeepest) + " levels");
    }
    Expr expr{.kind = Expr::Kind::kUnary, .at = peek().at};
    expr.op = next().text == "!" ? Operator::kNot : Operator::kNegate;
    ++depth_;
    auto operand = unary();
    --depth_;
    if (!operand) return fail(operand.error());
    expr.operands.push_back(*std::move(operand));
    return expr;
  }

  Result<Expr> primary() {
    Expr expr{.at = peek().at};
    if (peek().kind == Token::Kind::kNumber) {
      expr.value = static_cast<std::int32_t>(next().value);
      return expr;
    }
    if (take_symbol("(")) {
      COHORT_TRY(Expr inner, expression());
      COHORT_TRY_STATUS(expect_symbol(")"));
      return inner;
    }
    if (take_name("passed")) {
      expr.kind = Expr::Kind::kPassed;
      COHORT_TRY_STATUS(expect_symbol("("));
      COHORT_TRY(expr.name, fresh_name("the name of a checkpoint"));
      COHORT_TRY_STATUS(expect_symbol(")"));
      return expr;
    }
    if (is_name("min") || is_name("max")) {
      expr.kind = Expr::Kind::kBinary;
      expr.op = next().text == "min" ? Operator::kMin : Operator::kMax;
      COHORT_TRY_STATUS(expect_symbol("("));
      COHORT_TRY(Expr left, expression());
      COHORT_TRY_STATUS(expect_symbol(","));
      COHORT_TRY(Expr right, expression());
      COHORT_TRY_STATUS(expect_symbol(")"));
      expr.operands.push_back(std::move(left));
      expr.operands.push_back(std::move(right));
      return expr;
    }
    expr.kind = Expr::Kind::kName;
    if (is_name("lane") || is_name("width")) {
      expr.name = next().text;
      return expr;
    }
    COHORT_TRY(expr.name, fresh_name("an expression"));
    if (take_symbol("[")) {
      COHORT_TRY(Expr index, expression());
      COHORT_TRY_STATUS(expect_symbol("]"));
      expr.operands.push_back(std::move(index));
    }
    return expr;
  }

  // -- Statements ------------------------------------------------------------------------------

  Result<std::vector<Stmt>> block() {
    COHORT_TRY_STATUS(expect_symbol("{"));
    if (depth_ >= kDeepest) {
      return error(last_, "nested deeper than " + std::to_string(kDeepest) + " levels");
    }
    ++depth_;
    std::vector<Stmt> body;
    while (!is_symbol("}")) {
      if (take_symbol(";")) continue;
      auto one = statement();
      if (!one) return fail(one.error());
      body.push_back(*std::move(one));
    }
    next();
    --depth_;
    return body;
  }

  Status add_block(Stmt& stmt) {
    COHORT_TRY(std::vector<Stmt> body, block());
    stmt.blocks.push_back(std::move(body));
    return {};
  }
  Status add_expr(Stmt& stmt) {
    COHORT_TRY(Expr expr, expression());
    stmt.exprs.push_back(std::move(expr));
    return {};
  }
  Status add_place(Stmt& stmt, bool range) {
    Place place{.at = peek().at};
    COHORT_TRY(place.name, fresh_name("the name of a shared word"));
    if (take_symbol("[")) {
      COHORT_TRY(Expr index, expression());
      place.index.push_back(std::move(index));
      if (range && take_symbol("..")) {
        COHORT_TRY(Expr last, expression());
        place.index.push_back(std::move(last));
      }
      COHORT_TRY_STATUS(expect_symbol("]"));
    }
    stmt.places.push_back(std::move(place));
    return {};
  }

  void order_word(Stmt& stmt) {
    if (take_name("acq_rel")) stmt.order = {.acquire = true, .release = true};
    if (take_name("acquire")) stmt.order.acquire = true;
    if (take_name("release")) stmt.order.release = true;
  }
  void path_word(Stmt& stmt) {
    if (take_name("cached")) {
      stmt.path = Path::kCached;
    } else if (take_name("dma")) {
      stmt.path = Path::kDma;
    } else {
      take_name("uncached");
    }
    order_word(stmt);
  }

  Result<Stmt> statement() {
    if (peek().kind != Token::Kind::kName) {
      return error(peek().at, "expected a statement or '}', found " + shown(peek()));
    }
    Stmt stmt{.at = peek().at};
    const std::string& first = peek().text;
    if (contains(statement_words(), first)) {
      COHORT_TRY_STATUS(keyword_statement(stmt));
      return stmt;
    }
    if (peek(1).kind == Token::Kind::kSymbol && peek(1).text == "(") {
      stmt.kind = Stmt::Kind::kCall;
      COHORT_TRY(stmt.name, fresh_name("the name of a procedure"));
      next();
      if (take_symbol(")")) return stmt;
      do {
        COHORT_TRY_STATUS(add_expr(stmt));
      } while (take_symbol(","));
      COHORT_TRY_STATUS(expect_symbol(")"));
      return stmt;
    }
    if (peek(1).kind != Token::Kind::kSymbol || peek(1).text != "=") {
      return error(stmt.at, "expected a statement, found '" + first + "'" +
                                did_you_mean(first, statement_words()));
    }
    COHORT_TRY(stmt.name, fresh_name("the name of a register"));
    next();
    COHORT_TRY_STATUS(assigned(stmt));
    return stmt;
  }

  // What follows `r =`, or an atomic without a result.
  Status assigned(Stmt& stmt) {
    if (take_name("load")) {
      stmt.kind = Stmt::Kind::kLoad;
      path_word(stmt);
      return add_place(stmt, false);
    }
    const bool cas = is_name("cas");
    if (cas || is_name("add") || is_name("exchange")) {
      stmt.kind = cas              ? Stmt::Kind::kCas
                  : is_name("add") ? Stmt::Kind::kAdd
                                   : Stmt::Kind::kExchange;
      next();
      COHORT_TRY_STATUS(expect_symbol("("));
      COHORT_TRY_STATUS(add_place(stmt, false));
      for (int i = 0; i < (cas ? 2 : 1); ++i) {
        COHORT_TRY_STATUS(expect_symbol(","));
        COHORT_TRY_STATUS(add_expr(stmt));
      }
      COHORT_TRY_STATUS(expect_symbol(")"));
      order_word(stmt);
      return {};
    }
    stmt.kind = Stmt::Kind::kAssign;
    return add_expr(stmt);
  }

  Status keyword_statement(Stmt& stmt) {
    const std::string word = peek().text;
    if (word == "load") {
      return error(stmt.at, "a load needs a register: 'r = load ...'");
    }
    if (word == "else" || word == "or") {
      return error(stmt.at, "'" + word + "' without its '" + (word == "or" ? "either" : "if") +
                                "' before it");
    }
    if (word == "add" || word == "cas" || word == "exchange") return assigned(stmt);
    next();
    if (word == "store") {
      stmt.kind = Stmt::Kind::kStore;
      path_word(stmt);
      COHORT_TRY_STATUS(add_place(stmt, false));
      COHORT_TRY_STATUS(expect_symbol("="));
      return add_expr(stmt);
    }
    if (word == "clean" || word == "invalidate") {
      stmt.kind = word == "clean" ? Stmt::Kind::kClean : Stmt::Kind::kInvalidate;
      if (take_name("all")) return {};
      do {
        COHORT_TRY_STATUS(add_place(stmt, true));
      } while (take_symbol(","));
      return {};
    }
    if (word == "wait") return wait(stmt);
    if (word == "if") return if_statement(stmt);
    if (word == "either") {
      stmt.kind = Stmt::Kind::kEither;
      do {
        COHORT_TRY_STATUS(add_block(stmt));
      } while (take_name("or"));
      return {};
    }
    if (word == "loop") {
      stmt.kind = Stmt::Kind::kLoop;
      if (!is_symbol("{")) COHORT_TRY_STATUS(add_expr(stmt));
      return add_block(stmt);
    }
    if (word == "for") {
      stmt.kind = Stmt::Kind::kFor;
      COHORT_TRY(stmt.name, fresh_name("the name of a loop"));
      COHORT_TRY_STATUS(expect_name("in"));
      COHORT_TRY_STATUS(add_expr(stmt));
      COHORT_TRY_STATUS(expect_symbol(".."));
      COHORT_TRY_STATUS(add_expr(stmt));
      return add_block(stmt);
    }
    if (word == "assert") return assertion(stmt);
    if (word == "checkpoint") {
      stmt.kind = Stmt::Kind::kCheckpoint;
      COHORT_TRY(stmt.name, fresh_name("the name of a checkpoint"));
      return {};
    }
    constexpr std::pair<std::string_view, Stmt::Kind> kPlain[] = {
        {"drain", Stmt::Kind::kDrain}, {"fence", Stmt::Kind::kFence},
        {"break", Stmt::Kind::kBreak}, {"continue", Stmt::Kind::kContinue},
        {"exit", Stmt::Kind::kExit},   {"crash", Stmt::Kind::kCrash},
        {"skip", Stmt::Kind::kSkip}};
    for (const auto& [text, kind] : kPlain) {
      if (word == text) stmt.kind = kind;
    }
    return {};
  }

  Status wait(Stmt& stmt) {
    stmt.kind = Stmt::Kind::kWait;
    bool bounded = false;
    Expr polls;
    if (take_name("at")) {
      COHORT_TRY_STATUS(expect_name("most"));
      if (peek().kind != Token::Kind::kNumber || peek().value == 0) {
        return error(peek().at, "expected a number of polls above 0, found " + shown(peek()));
      }
      polls.at = peek().at;
      polls.value = static_cast<std::int32_t>(std::min<std::int64_t>(next().value, 1 << 30));
      COHORT_TRY_STATUS(expect_name("polls"));
      bounded = true;
    }
    path_word(stmt);
    COHORT_TRY_STATUS(expect_name("until"));
    COHORT_TRY_STATUS(add_expr(stmt));
    if (!bounded) return {};
    stmt.exprs.push_back(std::move(polls));
    COHORT_TRY_STATUS(expect_name("else"));
    return add_block(stmt);
  }

  Status if_statement(Stmt& stmt) {
    stmt.kind = Stmt::Kind::kIf;
    COHORT_TRY_STATUS(add_expr(stmt));
    COHORT_TRY_STATUS(add_block(stmt));
    if (!take_name("else")) return {};
    if (!is_name("if")) return add_block(stmt);
    if (depth_ >= kDeepest) {
      return error(peek().at, "nested deeper than " + std::to_string(kDeepest) + " levels");
    }
    ++depth_;
    auto chained = statement();
    --depth_;
    if (!chained) return fail(chained.error());
    stmt.blocks.emplace_back().push_back(*std::move(chained));
    return {};
  }

  Status assertion(Stmt& stmt) {
    stmt.kind = Stmt::Kind::kAssert;
    COHORT_TRY_STATUS(add_expr(stmt));
    if (take_name("else")) {
      COHORT_TRY(stmt.word, verdict_word());
      if (stmt.word == Verdict::kPass || stmt.word == Verdict::kUnknown) {
        return error(last_, "'" + std::string(cohort::word(stmt.word)) + "' is not a fault");
      }
    }
    if (peek().kind == Token::Kind::kString) stmt.text = next().text;
    return {};
  }

  // -- Declarations ----------------------------------------------------------------------------

  Result<Expect> expect() {
    Expect expect{.at = next().at};
    do {
      COHORT_TRY(const Verdict verdict, verdict_word());
      expect.words.push_back(verdict);
    } while (take_symbol(","));
    if (take_name("when")) {
      COHORT_TRY(Expr when, expression());
      expect.when.push_back(std::move(when));
    }
    return expect;
  }

  Result<Variant> variant() {
    next();
    Variant variant{.at = peek().at};
    COHORT_TRY(variant.name, fresh_name("the name of a variant"));
    if (variant.name == "base") return error(variant.at, "the file itself is the variant 'base'");
    COHORT_TRY_STATUS(expect_symbol("{"));
    COHORT_TRY_STATUS(scope(variant, nullptr));
    COHORT_TRY_STATUS(expect_symbol("}"));
    return variant;
  }

  Result<Decl> declaration() {
    Decl decl{.at = peek().at};
    if (peek().kind != Token::Kind::kName || !contains(declaration_words(), peek().text)) {
      return error(decl.at, "expected a declaration, found " + shown(peek()) +
                                did_you_mean(peek().text, declaration_words()));
    }
    const std::string word = next().text;
    if (word == "variant") return error(decl.at, "a variant inside a variant");
    if (word == "memory") {
      decl.kind = Decl::Kind::kMemory;
      decl.name = "memory";
      COHORT_TRY(decl.memory, memory());
      return decl;
    }
    if (word == "cores") {
      decl.kind = Decl::Kind::kCores;
      decl.name = "cores";
      COHORT_TRY(Expr count, expression());
      decl.range.push_back(std::move(count));
      return decl;
    }
    decl.at = peek().at;
    if (word == "finally") {
      decl.name = "finally";
    } else {
      COHORT_TRY(decl.name, fresh_name("the name of a " + word));
    }
    Status rest;
    if (word == "param") {
      rest = param(decl);
    } else if (word == "proc") {
      rest = proc(decl);
    } else if (word == "word" || word == "bytes" || word == "ghost") {
      rest = cells(decl, word);
    } else {
      rest = grid(decl, word);
    }
    if (!rest) return fail(rest.error());
    return decl;
  }

  Status param(Decl& decl) {
    decl.kind = Decl::Kind::kParam;
    const bool ranged = take_name("in");
    if (!ranged) COHORT_TRY_STATUS(expect_symbol("="));
    COHORT_TRY(Expr from, expression());
    decl.range.push_back(std::move(from));
    if (!ranged) return {};
    COHORT_TRY_STATUS(expect_symbol(".."));
    COHORT_TRY(Expr to, expression());
    decl.range.push_back(std::move(to));
    return {};
  }

  Status proc(Decl& decl) {
    decl.kind = Decl::Kind::kProc;
    COHORT_TRY_STATUS(expect_symbol("("));
    if (!take_symbol(")")) {
      do {
        decl.is_out.push_back(take_name("out"));
        COHORT_TRY(std::string name, fresh_name("the name of a parameter"));
        if (contains(decl.parameters, name)) {
          return error(last_, "a second parameter '" + name + "'");
        }
        decl.parameters.push_back(std::move(name));
      } while (take_symbol(","));
      COHORT_TRY_STATUS(expect_symbol(")"));
    }
    COHORT_TRY(decl.body, block());
    return {};
  }

  Status optional_count(Decl& decl) {
    if (!take_symbol("[")) return {};
    COHORT_TRY(Expr count, expression());
    decl.count.push_back(std::move(count));
    return expect_symbol("]");
  }

  Status cells(Decl& decl, const std::string& word) {
    decl.kind = word == "word"    ? Decl::Kind::kWord
                : word == "bytes" ? Decl::Kind::kBytes
                                  : Decl::Kind::kGhost;
    COHORT_TRY_STATUS(optional_count(decl));
    if (decl.kind == Decl::Kind::kBytes && decl.count.empty()) {
      return error(peek().at, "expected '[' and the number of bytes, found " + shown(peek()));
    }
    if (decl.kind == Decl::Kind::kWord && take_symbol(":")) COHORT_TRY_STATUS(width(decl));
    COHORT_TRY_STATUS(expect_symbol("="));
    if (!take_symbol("?")) {
      COHORT_TRY(Expr initial, expression());
      decl.initial.push_back(std::move(initial));
    } else if (decl.kind == Decl::Kind::kGhost) {
      return error(last_, "a ghost word needs an initial value");
    }
    if (decl.kind == Decl::Kind::kGhost || !take_name("on")) return {};
    COHORT_TRY_STATUS(expect_name("line"));
    COHORT_TRY(decl.line, fresh_name("the name of a line"));
    if (take_symbol("[")) {
      COHORT_TRY(Expr index, expression());
      decl.line_index.push_back(std::move(index));
      COHORT_TRY_STATUS(expect_symbol("]"));
    }
    if (!take_name("at")) return {};
    COHORT_TRY(Expr offset, expression());
    decl.offset.push_back(std::move(offset));
    return {};
  }

  Status width(Decl& decl) {
    const Token type = next();
    int bits = 0;
    bool digits = type.text.size() >= 2 && type.text.size() <= 3;
    for (std::size_t i = 1; i < type.text.size() && digits; ++i) {
      digits = type.text[i] >= '0' && type.text[i] <= '9';
      if (digits) bits = bits * 10 + (type.text[i] - '0');
    }
    const bool u = digits && type.text[0] == 'u' && bits >= 1 && bits <= 30;
    const bool s = digits && type.text[0] == 'i' && bits >= 2 && bits <= 31;
    if (type.kind != Token::Kind::kName || !(u || s)) {
      return error(type.at, "expected a width, u1 to u30 or i2 to i31, found " + shown(type));
    }
    decl.bits = bits;
    decl.is_signed = s;
    return {};
  }

  Status grid(Decl& decl, const std::string& word) {
    decl.kind = Decl::Kind::kGrid;
    decl.foreign = word == "foreign";
    decl.finally = word == "finally";
    if (word == "grid" || (decl.foreign && is_name("lanes"))) {
      COHORT_TRY_STATUS(expect_name("lanes"));
      COHORT_TRY(Expr count, expression());
      decl.count.push_back(std::move(count));
    }
    if (word == "grid") decl.cohort = take_name("cohort");
    if (!decl.finally && take_name("after")) {
      do {
        decl.after_at.push_back(peek().at);
        COHORT_TRY(std::string name, fresh_name("the name of a task"));
        decl.after.push_back(std::move(name));
      } while (take_symbol(","));
    }
    COHORT_TRY(decl.body, block());
    return {};
  }

  Status memory_option(Memory& memory) {
    const Token name = next();
    COHORT_TRY_STATUS(expect_symbol("="));
    const Token value = peek();
    const bool number = value.kind == Token::Kind::kNumber;
    if (name.text == "line") {
      if (!number || value.value < 4 || value.value > 4096 ||
          (value.value & (value.value - 1)) != 0) {
        return error(value.at, "expected a power of two from 4 to 4096, found " + shown(value));
      }
      memory.line_bytes = static_cast<int>(next().value);
      return {};
    }
    if (name.text == "queue") {
      if (!number || value.value < 1 || value.value > 8) {
        return error(value.at, "expected a number from 1 to 8, found " + shown(value));
      }
      memory.queue = static_cast<int>(next().value);
      return {};
    }
    const std::vector<std::string> options = {"line", "writeback", "invalidate", "queue"};
    if (name.text != "writeback" && name.text != "invalidate") {
      return error(name.at, "expected an option of 'noncoherent', found " + shown(name) +
                                did_you_mean(name.text, options));
    }
    COHORT_TRY(const std::string word, dashed("a word"));
    if (name.text == "writeback") {
      if (word != "whole-line" && word != "bytes") {
        return error(last_, "expected 'whole-line' or 'bytes', found '" + word + "'");
      }
      memory.whole_line = word == "whole-line";
    } else {
      if (word != "late" && word != "lost") {
        return error(last_, "expected 'late' or 'lost', found '" + word + "'");
      }
      memory.lose_invalidated = word == "lost";
    }
    return {};
  }

  std::string_view source_;
  std::string_view filename_;
  std::vector<Token> tokens_;
  std::size_t i_ = 0;
  int depth_ = 0;
  Position last_ = {};
};

// The variant with the declarations of `base` that it doesn't replace; base's order is kept.
Variant filled(const Variant& base, Variant variant) {
  std::vector<std::shared_ptr<const Decl>> decls;
  for (const auto& decl : base.decls) {
    const auto mine =
        std::ranges::find_if(variant.decls, [&](const auto& d) { return d->name == decl->name; });
    if (mine == variant.decls.end()) {
      decls.push_back(decl);
    } else {
      decls.push_back(*mine);
      variant.decls.erase(mine);
    }
  }
  std::ranges::move(variant.decls, std::back_inserter(decls));
  variant.decls = std::move(decls);
  return variant;
}

Result<Variant> parsed_prelude() {
  COHORT_TRY(std::vector<Token> tokens, tokenise(prelude(), "prelude"));
  for (Token& token : tokens) token.at.line = 0;
  Variant variant;
  Parser parser(prelude(), "prelude", std::move(tokens));
  COHORT_TRY_STATUS(parser.scope(variant, nullptr));
  return variant;
}

}  // namespace

Result<Memory> parse_memory(std::string_view text, std::string_view filename) {
  COHORT_TRY(std::vector<Token> tokens, tokenise(text, filename));
  Parser parser(text, filename, std::move(tokens));
  COHORT_TRY(const Memory memory, parser.memory());
  COHORT_TRY_STATUS(parser.at_end());
  return memory;
}

Result<File> parse(std::string_view text, std::string_view filename) {
  if (text.size() > kLongestText) {
    return fail(ErrorCode::kLimit, printable(filename) + ": " + std::to_string(text.size()) +
                                       " bytes, at most " + std::to_string(kLongestText) +
                                       " are read");
  }
  COHORT_TRY(const Variant library, parsed_prelude());
  COHORT_TRY(std::vector<Token> tokens, tokenise(text, filename));
  File file{.name = std::string(filename), .text = std::string(text)};
  Parser parser(text, filename, std::move(tokens));
  Variant base{.name = "base", .at = {1, 1}};
  std::vector<Variant> variants;
  COHORT_TRY_STATUS(parser.scope(base, &variants));
  base = filled(library, std::move(base));
  file.variants.push_back(base);
  for (Variant& variant : variants) file.variants.push_back(filled(base, std::move(variant)));
  return file;
}

}  // namespace cohort::litmus
