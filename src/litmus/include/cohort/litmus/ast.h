#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cohort/verdict/verdict.h"

namespace cohort::litmus {

/// A place in a text, both counted from 1. Line 0: the prelude's, or made by the compiler.
struct Position {
  int line = 0;
  int column = 0;
};

enum class Operator : std::uint8_t {
  kOr,
  kAnd,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kRemainder,
  kMin,
  kMax,
  kNot,     // unary
  kNegate,  // unary
};

struct Expr {
  enum class Kind : std::uint8_t {
    kNumber,  ///< value
    kName,    ///< name, and in operands nothing or one index
    kUnary,   ///< op, one operand
    kBinary,  ///< op, two operands
    kPassed,  ///< passed(name)
  };
  Kind kind = Kind::kNumber;
  Operator op = Operator::kAdd;
  Position at = {};
  std::int32_t value = 0;
  std::string name = {};
  std::vector<Expr> operands = {};
};

/// A shared thing as a statement names it: `name`, `name[E]` or `name[E..E]`.
struct Place {
  std::string name = {};
  Position at = {};
  std::vector<Expr> index = {};  ///< 0, 1 or 2 expressions.
};

enum class Path : std::uint8_t { kUncached, kCached, kDma };

/// Orders of accesses, in the weak model; bits.
struct Order {
  bool acquire = false;
  bool release = false;
};

struct Stmt {
  enum class Kind : std::uint8_t {
    kAssign,      ///< name = exprs[0]
    kLoad,        ///< name = load places[0]
    kStore,       ///< store places[0] = exprs[0]
    kAdd,         ///< name (may be empty) = add(places[0], exprs[0])
    kExchange,    ///< likewise
    kCas,         ///< likewise, exprs: expected, new
    kClean,       ///< places; none: all
    kInvalidate,  ///< places; none: all
    kDrain,
    kFence,
    kWait,    ///< exprs[0]; if bounded also exprs[1], a number of polls, and blocks[0]
    kIf,      ///< exprs[0], blocks: then, else (may be missing)
    kEither,  ///< blocks
    kLoop,    ///< exprs: nothing (for ever) or the count; blocks[0]
    kFor,     ///< name, exprs: from, to; blocks[0]
    kBreak,
    kContinue,
    kAssert,      ///< exprs[0], word, text
    kCheckpoint,  ///< name
    kExit,
    kCrash,
    kSkip,
    kCall,  ///< name, exprs: arguments
  };
  Kind kind = Kind::kSkip;
  Path path = Path::kUncached;
  Order order = {};
  Verdict word = Verdict::kAssertFail;
  Position at = {};
  std::string name = {};
  std::string text = {};
  std::vector<Place> places = {};
  std::vector<Expr> exprs = {};
  std::vector<std::vector<Stmt>> blocks = {};
};

/// Which memory model, with its options.
struct Memory {
  enum class Kind : std::uint8_t { kSequential, kNoncoherent, kWeak };
  Kind kind = Kind::kSequential;
  int line_bytes = 64;
  bool whole_line = true;
  bool lose_invalidated = false;
  int queue = 4;
};

struct Decl {
  enum class Kind : std::uint8_t {
    kMemory,
    kParam,
    kWord,
    kBytes,
    kGhost,
    kProc,
    kGrid,
    kCores,
  };
  Kind kind = Kind::kWord;
  Position at = {};
  std::string name = {};

  Memory memory = {};
  std::vector<Expr> range = {};  ///< kParam: value, or from and to. kCores: the number.

  std::vector<Expr> count = {};    ///< Words, bytes, ghosts, grids: nothing or one.
  std::vector<Expr> initial = {};  ///< Nothing: not initialised.
  int bits = 31;
  bool is_signed = true;
  std::string line = {};  ///< Empty: a line of its own.
  std::vector<Expr> line_index = {};
  std::vector<Expr> offset = {};

  bool cohort = false;
  bool foreign = false;
  bool finally = false;
  std::vector<std::string> after = {};
  std::vector<Position> after_at = {};

  std::vector<std::string> parameters = {};
  std::vector<bool> is_out = {};
  std::vector<Stmt> body = {};
};

struct Expect {
  Position at = {};
  std::vector<Verdict> words = {};
  std::vector<Expr> when = {};  ///< Nothing: always.
};

/// One complete set of declarations: the base, or a variant with the base's declarations filled in.
struct Variant {
  std::string name = {};
  Position at = {};
  std::vector<std::shared_ptr<const Decl>> decls = {};
  std::vector<Expect> expects = {};
};

/// A parsed file.
struct File {
  std::string name = {};
  std::string text = {};
  std::vector<Variant> variants = {};  ///< "base" first.
};

}  // namespace cohort::litmus
