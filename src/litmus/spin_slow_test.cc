// Verdicts against Spin's, on random programs and on what the corpus can be exported of. Skipped
// where Spin isn't installed.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "cohort/litmus/promela.h"

#include "random_programs.h"

namespace cohort::litmus {
namespace {

class Spin : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v spin cc >/dev/null 2>&1") != 0)
      GTEST_SKIP() << "spin or cc isn't here";
    folder_ = testing::TempDir() + "/cohort_spin." + std::to_string(::getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  // "assert-fail", "deadlock" or "pass"; empty if Spin couldn't say.
  std::string verdict_of(const std::string& promela) const {
    std::ofstream(folder_ + "/model.pml") << promela;
    const std::string go = "cd " + folder_ + " && ";
    if (std::system(
            (go + "spin -a model.pml >spin.log 2>&1 && cc -w -O1 -DSAFETY -DNOREDUCE -o pan pan.c "
                  ">cc.log 2>&1")
                .c_str()) != 0) {
      return "";
    }
    const auto finds = [&](const std::string& flags) {
      if (std::system((go + "./pan -m200000 " + flags + " >pan.log 2>&1").c_str()) != 0) return -1;
      std::ifstream in(folder_ + "/pan.log");
      std::ostringstream text;
      text << in.rdbuf();
      if (text.str().find("max search depth too small") != std::string::npos) return -1;
      return text.str().find("errors: 0") == std::string::npos ? 1 : 0;
    };
    const int fails = finds("-E");  // Assertions alone.
    if (fails != 0) return fails > 0 ? "assert-fail" : "";
    const int hangs = finds("");
    if (hangs != 0) return hangs > 0 ? "deadlock" : "";
    return "pass";
  }

  // Ours in Spin's words: an assertion, whatever word it has, or else a lane that doesn't end.
  static std::string in_spins_words(const Exploration& e) {
    std::string verdict = "pass";
    for (const Verdict v : e.verdicts()) {
      if (v == Verdict::kDeadlock) {
        if (verdict == "pass") verdict = "deadlock";
      } else if (v != Verdict::kPass) {
        verdict = v == Verdict::kLivelock ? "livelock" : "assert-fail";
      }
    }
    return verdict;
  }

  // Whether a lane jumps back.
  static bool has_loop(const std::string& promela) {
    std::istringstream lines(promela);
    for (std::string line; std::getline(lines, line);) {
      int from = 0;
      const std::size_t jump = line.find("goto L");
      if (jump == std::string::npos || std::sscanf(line.c_str(), "L%d:", &from) != 1) continue;
      if (std::atoi(line.c_str() + jump + 6) <= from) return true;
    }
    return false;
  }

  std::string folder_;
};

TEST_F(Spin, AgreesOnRandomPrograms) {
  std::map<std::string, int> verdicts;
  int compared = 0;
  for (std::uint64_t seed = 0; compared < 200; ++seed) {
    const std::string text = random_program(seed, "sc", false, false);
    const Result<File> file = parse(text, "random.litmus");
    ASSERT_TRUE(file) << file.error().message;
    const Result<std::string> promela = to_promela(*file, "base", {});
    ASSERT_TRUE(promela) << promela.error().message;
    const std::string spins = verdict_of(*promela);
    ASSERT_NE(spins, "") << *promela;
    const auto results = run(*file);
    ASSERT_TRUE(results);
    ASSERT_EQ(in_spins_words((*results)[0].exploration), spins) << "seed " << seed << "\n" << text;
    ++verdicts[spins];
    ++compared;
  }
  for (const char* verdict : {"pass", "deadlock", "assert-fail"})
    EXPECT_GE(verdicts[verdict], 20) << verdict;
}

TEST_F(Spin, AgreesOnTheCorpusUnderSequentialConsistency) {
  int compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator(CORPUS)) {
    if (entry.path().extension() != ".litmus") continue;
    std::ifstream in(entry.path());
    std::ostringstream text;
    text << in.rdbuf();
    const Result<File> file = parse(text.str(), entry.path().string());
    ASSERT_TRUE(file) << file.error().message;
    for (const Variant& variant : file->variants) {
      bool is_sequential = true;
      for (const auto& decl : variant.decls) {
        if (decl->kind == Decl::Kind::kMemory)
          is_sequential = decl->memory.kind == Memory::Kind::kSequential;
      }
      if (!is_sequential || variant.expects.empty()) continue;
      RunOptions options{.variant = variant.name};
      if (entry.path().stem() == "slot_barrier_of_eight") options.parameters["members"] = 2;
      const auto results = run(*file, options);
      ASSERT_TRUE(results);
      if (results->size() != 1) continue;
      const std::string ours = in_spins_words((*results)[0].exploration);
      const Result<std::string> promela = to_promela(*file, variant.name, options.parameters);
      // Spin's safety check has no livelock, and takes a lane that polls in a loop for one that
      // acts.
      if (!promela || ours == "livelock" || (ours == "deadlock" && has_loop(*promela))) continue;
      const std::string spins = verdict_of(*promela);
      ASSERT_NE(spins, "") << *promela;
      EXPECT_EQ(ours, spins) << entry.path() << ", " << variant.name;
      ++compared;
    }
  }
  EXPECT_GE(compared, 30);
}

}  // namespace
}  // namespace cohort::litmus
