#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/base/result.h"
#include "cohort/litmus/ast.h"
#include "cohort/verdict/report.h"

namespace cohort::litmus {

/// Reads the text of a litmus file. Names are resolved when a case of it is compiled.
///
/// Errors: kInvalidArgument with file:line:col, the source line and a caret; kLimit above 1 MiB.
Result<File> parse(std::string_view text, std::string_view filename);

struct ExploreOptions {
  std::size_t most_states = 5'000'000;
  std::size_t most_bytes = std::size_t{4} << 30;  ///< Of stored states, their parts and edges.
  /// False takes every step of every lane in every order: for checking the reduction.
  bool reduce = true;
  /// Keeps 64 bits of each state's hash instead of the state: a state may be taken for another and
  /// be left out. Says how likely that is, finds no livelock, and is never exhaustive.
  bool hash_compact = false;
  /// Above 0: takes so many schedules at random instead of all; needs no memory.
  std::uint64_t random_schedules = 0;
  std::uint64_t seed = 1;  ///< Of the random schedules.
};

/// One thing wrong in some schedule, and a shortest schedule that shows it.
struct Fault {
  Verdict verdict = Verdict::kUnknown;
  std::vector<std::string> schedule = {};   ///< "writer: store cached data (line 12)".
  std::vector<std::uint32_t> choices = {};  ///< Which of the possible steps was taken, each time.
  int switches = 0;                         ///< How often another lane goes on.
};

/// What an exploration found.
struct Exploration {
  std::vector<Fault> faults = {};  ///< By verdict; at most one of each.
  std::size_t states = 0;
  std::size_t transitions = 0;
  std::size_t bytes = 0;  ///< Of stored states and their parts.
  /// Every state within the bounds of the file was visited. Otherwise a limit came first, or the
  /// search was never meant to be.
  bool is_exhaustive = false;
  std::uint64_t schedules = 0;  ///< Taken at random.
  double omission_probability =
      -1;  ///< Of any state, if hashes stood for states and all were visited.

  /// "exhaustive: 12 states, 13 steps", "gave up after 100 states", "hash-compacted, ..." or "1000
  /// random schedules": never the same words for different things.
  std::string coverage() const;

  /// The verdicts of the faults; `pass` alone if there is none and the search was exhaustive;
  /// `unknown` if there is none and it wasn't.
  std::vector<Verdict> verdicts() const;
};

/// A case that was explored: a variant with values for its parameters.
struct CaseResult {
  std::string variant = {};
  std::map<std::string, std::int32_t> parameters = {};
  std::vector<Verdict> expected = {};  ///< Empty: no expectation.
  Exploration exploration = {};

  /// Whether what was found is what was expected: every verdict is one of them.
  bool is_as_expected() const;
  /// "two_slots_on_a_line, members = 3".
  std::string to_text() const;
};

struct RunOptions {
  ExploreOptions explore = {};
  std::map<std::string, std::int32_t> parameters = {};  ///< In place of the file's.
  std::optional<Memory> memory = {};                    ///< In place of the file's.
  std::string variant = {};                             ///< This one only.
  int jobs = 1;                                         ///< Cases explored at a time.
};

/// Explores every case of a file: each variant that has an expectation (all, if none has) under
/// every combination of its parameters.
///
/// Errors: kInvalidArgument with file:line:col, source line and caret.
/// Determinism: the result depends on file and options alone.
Result<std::vector<CaseResult>> run(const File& file, const RunOptions& options = {});

/// Takes a schedule again from its choices, and says what happens, step by step.
/// Errors: kInvalidArgument if the case has no such schedule.
Result<std::vector<std::string>> replay(const File& file, const std::string& variant,
                                        const std::map<std::string, std::int32_t>& parameters,
                                        const std::vector<std::uint32_t>& choices,
                                        const RunOptions& options = {});

/// Reads a memory model as a file writes it, without the word `memory`.
/// Errors: kInvalidArgument with a caret.
Result<Memory> parse_memory(std::string_view text, std::string_view filename);

}  // namespace cohort::litmus
