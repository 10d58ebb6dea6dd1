#include "explore.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "random_programs.h"

namespace cohort::litmus {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

File parsed(const std::string& text) {
  Result<File> file = parse(text, "test.litmus");
  EXPECT_TRUE(file) << file.error().message << "\n" << text;
  return *std::move(file);
}

std::vector<CaseResult> results_of(const std::string& text, const RunOptions& options = {}) {
  Result<std::vector<CaseResult>> results = run(parsed(text), options);
  EXPECT_TRUE(results) << results.error().message;
  return *std::move(results);
}

std::string verdicts_of(const Exploration& exploration) {
  std::string all;
  for (const Verdict v : exploration.verdicts())
    all += (all.empty() ? "" : " ") + std::string(word(v));
  return all;
}

std::string only_verdict(const std::string& text, const RunOptions& options = {}) {
  const auto results = results_of(text, options);
  return results.size() == 1 ? verdicts_of(results[0].exploration) : "not one case";
}

// ---- Single rules of the language and the machine ----

TEST(Explore, EveryVerdictHasASmallestProgram) {
  EXPECT_EQ(only_verdict("word a = 0 lane x { store a = 1 }"), "pass");
  EXPECT_EQ(only_verdict("word a = 0 lane x { wait until a == 1 }"), "deadlock");
  EXPECT_EQ(only_verdict("word a = 0 lane x { loop { add(a, 1) store a = 0 } }"), "livelock");
  EXPECT_EQ(only_verdict("word a = 0 lane x { r = load a assert r == 1 }"), "assert-fail");
  EXPECT_EQ(only_verdict("word a = 0 lane x { assert a == 1 else stale-read }"), "stale-read");
  EXPECT_EQ(only_verdict("word a[2] = 0 lane x { i = 2 store a[i] = 1 }"), "out-of-bounds");
  EXPECT_EQ(only_verdict("word a = ? lane x { r = load a }"), "uninitialised-read");
  EXPECT_EQ(only_verdict("word a = 0 lane x { r = load a s = 1 / r }"), "assert-fail");
  EXPECT_EQ(only_verdict("cores 1 word a = 0 lane x { wait until a == 1 } lane y { store a = 1 }"),
            "residency");
  EXPECT_EQ(only_verdict("memory noncoherent word a = 0 on line l word b = 0 on line l "
                         "lane x { store cached a = 1 } lane y { store b = 1 }"),
            "lost-update");
}

TEST(Explore, GivingUpIsNeitherPassNorExhaustive) {
  const auto results =
      results_of("word a = 0 grid g lanes 4 { for i in 1..5 { add(a, 1) } } expect pass",
                 {.explore = {.most_states = 100}});
  EXPECT_EQ(verdicts_of(results[0].exploration), "unknown");
  EXPECT_FALSE(results[0].exploration.is_exhaustive);
  EXPECT_FALSE(results[0].is_as_expected());
}

TEST(Explore, FaultsComeWithAShortestScheduleThatCanBeReplayed) {
  const std::string text =
      "word flag = 0 word data = 0\n"
      "lane writer { store flag = 1 store data = 7 }\n"
      "lane reader { wait until flag == 1 r = load data assert r == 7 }\n";
  const File file = parsed(text);
  const auto results = run(file);
  ASSERT_TRUE(results);
  ASSERT_EQ((*results)[0].exploration.faults.size(), 1u);
  const Fault& fault = (*results)[0].exploration.faults[0];
  EXPECT_THAT(fault.schedule, ElementsAre("writer: store flag (line 2)", "reader: wait (line 3)",
                                          "reader: r = load data (line 3)",
                                          "reader: assert (line 3): assert-fail"));
  EXPECT_EQ(fault.switches, 1);
  const auto again = replay(file, "base", {}, fault.choices);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, fault.schedule);
  EXPECT_EQ(replay(file, "base", {}, {9}).error().message,
            "the token isn't of this file's variant 'base' as it is now");
}

TEST(Explore, CoversTheSameInOtherWaysAndSaysSo) {
  const std::string text =
      "memory noncoherent word a = 0 on line l word b = 0 on line l "
      "lane x { store cached a = 1 } lane y { store b = 1 } lane z { wait until a == 1 }";
  const Exploration whole = results_of(text)[0].exploration;
  const Exploration compact = results_of(text, {.explore = {.hash_compact = true}})[0].exploration;
  EXPECT_EQ(verdicts_of(compact), verdicts_of(whole));
  EXPECT_EQ(compact.states, whole.states);
  EXPECT_FALSE(compact.is_exhaustive);
  EXPECT_THAT(compact.coverage(), HasSubstr("hash-compacted: " + std::to_string(whole.states) +
                                            " states, omission probability < "));
  const RunOptions at_random{.explore = {.random_schedules = 500, .seed = 3}};
  const Exploration random = results_of(text, at_random)[0].exploration;
  EXPECT_EQ(verdicts_of(random), verdicts_of(whole));
  EXPECT_EQ(random.coverage(), "500 random schedules");
  for (const Exploration* e : {&compact, &random}) {
    for (const Fault& fault : e->faults) {
      const auto again = replay(parsed(text), "base", {}, fault.choices);
      ASSERT_TRUE(again) << again.error().message;
      EXPECT_EQ(*again, fault.schedule);
    }
  }
  const Exploration same = results_of(text, at_random)[0].exploration;
  EXPECT_EQ(same.faults.size(), random.faults.size());
  EXPECT_EQ(same.faults[0].choices, random.faults[0].choices);
}

TEST(Explore, WeakMemoryReordersWhatNothingOrders) {
  const std::string message_passing =
      "word d = 0 word f = 0\n"
      "lane w { store d = 1 store %RELEASE% f = 1 }\n"
      "lane r { wait %ACQUIRE% until f == 1 x = load d assert x == 1 }\n";
  const auto with = [&](std::string memory, const std::string& release,
                        const std::string& acquire) {
    std::string text = "memory " + std::move(memory) + "\n" + message_passing;
    text.replace(text.find("%RELEASE%"), 9, release);
    text.replace(text.find("%ACQUIRE%"), 9, acquire);
    return only_verdict(text);
  };
  EXPECT_EQ(with("sc", "", ""), "pass");
  EXPECT_EQ(with("weak(release-acquire)", "", ""), "assert-fail");
  EXPECT_EQ(with("weak(release-acquire)", "release", ""), "assert-fail");
  EXPECT_EQ(with("weak(release-acquire)", "release", "acquire"), "pass");
}

TEST(Explore, ReportsNamesThatNobodyDeclared) {
  const auto error = [](const std::string& text) {
    const auto result = run(parsed(text));
    return result ? "no error" : result.error().message;
  };
  EXPECT_THAT(error("word data = 0 lane x { store dta = 1 }"),
              HasSubstr("test.litmus:1:30: no shared word is called 'dta', did you mean 'data'?"));
  EXPECT_THAT(error("proc f(p) { skip } lane x { g(1) }"), HasSubstr("no procedure is called 'g'"));
  EXPECT_THAT(error("proc f(p) { skip } lane x { f() }"),
              HasSubstr("'f' takes 1 arguments, found 0"));
  EXPECT_THAT(error("lane x after z { skip }"), HasSubstr("no task is called 'z'"));
  EXPECT_THAT(error("proc f() { f() } lane x { f() }"), HasSubstr("call each other without end"));
  EXPECT_THAT(error("lane x { loop 1000000000 { skip } }"), HasSubstr("instructions"));
  EXPECT_THAT(error("grid g lanes 100000 { skip }"), HasSubstr("at most 256 in all"));
  EXPECT_THAT(error("param n in 5..1 lane x { skip }"), HasSubstr("the range of 'n' is empty"));
  EXPECT_THAT(error("word a[3] = 0 lane x { r = load a }"), HasSubstr("'a' has 3 cells; name one"));
  EXPECT_THAT(error("lane x { break }"), HasSubstr("outside a loop"));
}

// ---- The reduced search against the plain one ----

class Agreement : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Agreement, ReducedAndPlainSearchFindTheSame) {
  const auto& [name, memory] = GetParam();
  const bool has_caches = std::string(name) == "noncoherent";
  const bool is_weak = std::string(name) == "weak";
  std::map<std::string, int> verdicts;
  int decided = 0;
  for (std::uint64_t seed = 0; decided < 1000; ++seed) {
    const std::string text = random_program(seed, memory, has_caches, is_weak);
    RunOptions options;
    options.explore.most_states = 50'000;
    const Exploration reduced = results_of(text, options)[0].exploration;
    options.explore.reduce = false;
    const Exploration plain = results_of(text, options)[0].exploration;
    if (!reduced.is_exhaustive && !plain.is_exhaustive) continue;
    ASSERT_EQ(verdicts_of(reduced), verdicts_of(plain)) << "seed " << seed << "\n" << text;
    EXPECT_LE(reduced.states, plain.states);
    ++decided;
    for (const Verdict v : plain.verdicts()) ++verdicts[std::string(word(v))];
  }
  for (const char* verdict : {"pass", "deadlock", "assert-fail"})
    EXPECT_GE(verdicts[verdict], 100) << verdict;
  if (has_caches) {
    EXPECT_GE(verdicts["lost-update"], 100);
  }
}
INSTANTIATE_TEST_SUITE_P(Models, Agreement,
                         testing::Values(std::pair{"sc", "sc"},
                                         std::pair{"noncoherent", "noncoherent"},
                                         std::pair{"weak", "weak(release-acquire)"}),
                         [](const auto& model) { return std::string(model.param.first); });

// ---- The corpus, and what must be noticed ----

struct CorpusCase {
  std::string name;
  CaseResult result;
  Program program;
};

// Every case of the corpus but the barrier of eight, which is explored with three.
std::vector<CorpusCase> corpus() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(CORPUS)) {
    if (entry.path().extension() == ".litmus") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<CorpusCase> cases;
  for (const std::string& path : paths) {
    std::ifstream in(path);
    std::ostringstream text;
    text << in.rdbuf();
    const Result<File> file = parse(text.str(), path);
    EXPECT_TRUE(file) << file.error().message;
    std::map<std::string, std::int32_t> overrides;
    if (path.find("slot_barrier_of_eight") != std::string::npos) overrides["members"] = 3;
    for (const Variant& variant : file->variants) {
      if (variant.expects.empty()) continue;
      const auto all = cases_of(*file, variant, overrides);
      EXPECT_TRUE(all) << all.error().message;
      for (const Case& c : *all) {
        Result<Program> program = compile(*file, variant, c.parameters);
        EXPECT_TRUE(program) << program.error().message;
        CaseResult result{.variant = variant.name, .expected = c.expected};
        if (all->size() > 1) result.parameters = c.parameters;
        cases.push_back({std::filesystem::path(path).stem().string() + ": " + result.to_text(),
                         std::move(result), *std::move(program)});
      }
    }
  }
  return cases;
}

// The first case that doesn't come out as expected, or nothing.
std::string first_difference(const std::vector<CorpusCase>& cases, Weakening weakening) {
  for (const CorpusCase& c : cases) {
    CaseResult result = c.result;
    result.exploration = explore(c.program, {}, weakening);
    if (!result.is_as_expected()) return c.name + ": " + verdicts_of(result.exploration);
  }
  return "";
}

TEST(Corpus, EveryCaseComesOutAsExpectedWithItsNumberOfStates) {
  std::string found;
  for (const CorpusCase& c : corpus()) {
    CaseResult result = c.result;
    result.exploration = explore(c.program, {});
    EXPECT_TRUE(result.is_as_expected()) << c.name << ": " << verdicts_of(result.exploration);
    EXPECT_TRUE(result.exploration.is_exhaustive) << c.name;
    found += c.name + ": " + verdicts_of(result.exploration) + ", " +
             std::to_string(result.exploration.states) + " states\n";
  }
  // To accept a change of the search on purpose: COHORT_UPDATE_GOLDEN=1.
  const std::string golden = std::string(CORPUS) + "/states.txt";
  if (std::getenv("COHORT_UPDATE_GOLDEN") != nullptr) std::ofstream(golden) << found;
  std::ifstream in(golden);
  std::ostringstream expected;
  expected << in.rdbuf();
  EXPECT_EQ(found, expected.str());
}

class Mutation : public testing::TestWithParam<int> {};

// What the corpus doesn't notice has a program of its own, with its verdict.
const std::map<Weakening, std::pair<const char*, const char*>> kOwnPrograms = {
    {Weakening::kNoLateWriteBack,
     {"memory noncoherent word a = 0 "
      "lane x { store cached a = 1 invalidate a } lane y { wait until a == 1 }",
      "pass"}},
    {Weakening::kStoresArriveInOrder,
     {"memory noncoherent word d = 0 word f = 0 lane w { store dma d = 1 store dma f = 1 } "
      "lane r { wait until f == 1 x = load d assert x == 1 }",
      "assert-fail"}},
    {Weakening::kNoCycleProviso,
     {"word p = 0 word q = 0 lane x { loop { store p = 1 } } lane y { r = load q assert r == 1 }",
      "assert-fail"}}};

TEST_P(Mutation, IsNoticed) {
  const auto weakening = static_cast<Weakening>(GetParam());
  if (const auto own = kOwnPrograms.find(weakening); own != kOwnPrograms.end()) {
    const auto& [text, verdict] = own->second;
    const File file = parsed(text);
    const Program program = *compile(file, file.variants[0], {});
    EXPECT_EQ(verdicts_of(explore(program, {})), verdict);
    EXPECT_NE(verdicts_of(explore(program, {}, weakening)), verdict);
    return;
  }
  static const std::vector<CorpusCase> cases = corpus();
  EXPECT_NE(first_difference(cases, weakening), "");
}
INSTANTIATE_TEST_SUITE_P(Weakenings, Mutation, testing::Range(1, kWeakenings));

}  // namespace
}  // namespace cohort::litmus
