// Any words: a printable error, a text, or a command whose other spelling is read the same.
#include <string>
#include <vector>

#include "cohort/cli/graph_registry.h"
#include "cohort/cli/main.h"

namespace {

using cohort::cli::CommandLine;

// Never built: a command line is only read here.
COHORT_GRAPH("fused-chain",
             [](const cohort::cli::BuildRequest&) {
               return cohort::Result<cohort::cli::BuiltGraph>(
                   cohort::fail(cohort::ErrorCode::kInvalidArgument, "not to be built"));
             })
    .help("A graph with parameters of both kinds.")
    .variants({"unfused", "slot", "counter"})
    .parameter("num-tokens", "Any number.",
               cohort::cli::IntegerParameter{8, INT64_MIN, INT64_MAX, {0, 8}})
    .parameter("lanes", "A small one.", cohort::cli::IntegerParameter{8, 1, 64, {}})
    .parameter("mode", "A word.", cohort::cli::ChoiceParameter{{"decode", "prefill"}, true});

CommandLine parse(const std::vector<std::string>& words) {
  std::vector<const char*> argv = {"cohort"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  const int argc = static_cast<int>(argv.size());
  argv.push_back(nullptr);
  return cohort::cli::parse_command_line(argc, argv.data());
}

bool is_one_printable_line(const std::string& text) {
  for (const char c : text) {
    if (c < 0x20 || c > 0x7E) return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A line is a word; the byte 0 can't be in one.
  std::vector<std::string> words(1);
  for (std::size_t i = 0; i < size; ++i) {
    if (data[i] == '\n') {
      words.emplace_back();
    } else if (data[i] != 0) {
      words.back() += static_cast<char>(data[i]);
    }
  }
  if (words.back().empty()) words.pop_back();

  const CommandLine line = parse(words);
  const int outcomes =
      (line.action ? 1 : 0) + (line.output.empty() ? 0 : 1) + (line.error.empty() ? 0 : 1);
  COHORT_CHECK(outcomes == 1, "a command line is neither an action, a text nor an error, or two");
  COHORT_CHECK(is_one_printable_line(line.error), "an error has bytes a terminal acts on");
  COHORT_CHECK(line.error.empty() == line.hint.empty(), "a hint stands with an error");
  if (!line.action) return 0;
  const CommandLine again = parse(line.words);
  COHORT_CHECK(again.action, "another spelling is refused: " + again.error);
  COHORT_CHECK(again.words == line.words, "another spelling is read differently");
  return 0;
}
