// The programs as their users see them: what they print, where, and what they exit with.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cohort/tensor/safetensors.h"

namespace cohort {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Output {
  int status = -1;  // What it exited with.
  std::string out = {};
  std::string err = {};
};

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Program : public testing::Test {
 protected:
  Program() : folder_(testing::TempDir() + "cli_program_test." + std::to_string(::getpid())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~Program() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  // Becomes a program with words as arguments.
  [[noreturn]] static void become(const std::string& program, const std::string& words) {
    std::vector<std::string> arguments = {program};
    std::istringstream in(words);
    for (std::string word; in >> word;) arguments.push_back(word);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    ::execv(program.c_str(), argv.data());
    ::_exit(127);
  }

  // Starts a program; its output goes to files.
  pid_t start(const std::string& program, const std::string& words, std::string out = "") const {
    const pid_t child = ::fork();
    if (child != 0) return child;
    const auto redirect = [](int descriptor, const std::string& file) {
      ::dup2(::open(file.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600), descriptor);
    };
    redirect(STDOUT_FILENO, out.empty() ? path("out") : out);
    redirect(STDERR_FILENO, path("err"));
    become(program, words);
  }

  // Starts a program on a terminal of its own, whose other end is `terminal`.
  static pid_t start_on_terminal(const std::string& program, const std::string& words,
                                 int& terminal) {
    const pid_t child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
    if (child == 0) become(program, words);
    return child;
  }

  // What a terminal shows until `end` is on it, or until its program has ended.
  static std::string shown(int terminal, const std::string& end) {
    std::string text;
    pollfd ready = {terminal, POLLIN, 0};
    while (text.find(end) == std::string::npos && ::poll(&ready, 1, 60'000) == 1) {
      char buffer[4096];
      const ssize_t n = ::read(terminal, buffer, sizeof buffer);
      if (n <= 0) break;
      text.append(buffer, static_cast<std::size_t>(n));
    }
    return text;
  }

  Output finish(pid_t child) const {
    int status = 0;
    ::waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents(path("out")),
            contents(path("err"))};
  }

  Output run(const std::string& words, const std::string& program = COHORT_PROGRAM) const {
    return finish(start(program, words));
  }

  // A wrong request: exit code 2, this on stderr, nothing on stdout.
  void expect_usage_error(const std::string& words, const std::string& message) const {
    const Output o = run(words);
    EXPECT_EQ(o.status, 2) << words;
    EXPECT_EQ(o.out, "") << words;
    EXPECT_THAT(o.err, HasSubstr(message)) << words;
  }

  std::string folder_;
};

TEST_F(Program, HelpFitsIntoEightyColumns) {
  for (const char* words :
       {"--help", "list --help", "list", "run --help", "run pre-norm --help", "run hc-chain --help",
        "verify --help", "verify pre-norm --help", "litmus --help", "bench --help"}) {
    const Output o = run(words);
    EXPECT_EQ(o.status, 0) << words;
    EXPECT_EQ(o.err, "") << words;
    std::istringstream lines(o.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  }
  EXPECT_THAT(run("run pre-norm --help").out,
              HasSubstr("Usage: cohort run pre-norm [OPTION...]\n"));
  EXPECT_EQ(run("--version").out.substr(0, 7), "cohort ");
}

TEST_F(Program, ListShowsTheGraphsOfThisProgram) {
  EXPECT_THAT(run("list").out, testing::AllOf(HasSubstr("hc-chain\n"), HasSubstr("pre-norm\n"),
                                              Not(HasSubstr("squares"))));
  EXPECT_EQ(run("list", QUICKSTART_PROGRAM).out,
            "squares\n  Squares by columns, then sums by rows.\n  variants: unfused, counter\n"
            "  parameters: --rows\n");
}

TEST_F(Program, SaysWhatIsWrongWithARequest) {
  expect_usage_error("", "cohort: A subcommand is required\nRun 'cohort --help'.\n");
  expect_usage_error("rnu", "cohort: 'rnu' isn't expected here, did you mean 'run'?");
  expect_usage_error("run pre-nrm",
                     "cohort: 'pre-nrm' isn't expected here, did you mean 'pre-norm'?");
  expect_usage_error("run pre-norm --varaint slot",
                     "cohort: '--varaint' isn't expected here, did you mean '--variant'?\n"
                     "Run 'cohort run pre-norm --help'.\n");
  expect_usage_error("run pre-norm --preset tyo", "demo, toy, did you mean 'toy'?");
  expect_usage_error("bench --rounds 0", "--rounds: '0', expected a whole number from 1 to 1000");
  expect_usage_error("run pre-norm --variant slo",
                     "--variant: 'slo', expected one of unfused, slot, counter, hard, did you mean "
                     "'slot'?");
  expect_usage_error("run pre-norm --lanes 0",
                     "--lanes: '0', expected a whole number from 1 to 64");
  expect_usage_error("run pre-norm --lanes", "--lanes has no value, expected --lanes N\n");
  expect_usage_error("run pre-norm --lanes 1 --lanes=2",
                     "--lanes is given 2 times, expected once\n");
  expect_usage_error("run pre-norm --sweep=\033[31m", "--sweep = \\x1B[31m\n");
  expect_usage_error("run pre-norm --lanes 1e3", "--lanes: '1e3', expected a whole number");
  expect_usage_error("run pre-norm --num-tokens 99999999999999999999",
                     "--num-tokens: '99999999999999999999', expected a whole number from "
                     "-2147483648 to 2147483647");
  expect_usage_error("run pre-norm --workers 100000", "--workers: '100000', expected");
  expect_usage_error("run pre-norm --seed -1", "--seed: '-1', expected");
  expect_usage_error("run pre-norm --repeat", "--repeat");
  expect_usage_error("run pre-norm --sweep --save " + path("x"), "--save excludes --sweep");
  expect_usage_error("run pre-norm --load " + path("none"),
                     "cohort: can't read \"" + path("none") + "\": No such file or directory\n");
}

TEST_F(Program, RunComparesWithTheReferenceAndTheUnfusedGraph) {
  const Output o = run("run pre-norm --preset toy --variant slot --num-tokens 7 --workers 3");
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("pre-norm --variant slot"));
  EXPECT_THAT(o.out,
              HasSubstr("split_pre_post, mix_x, ffn_norm (3 launches)\n"
                        "  became fused_pre_norm, one launch of 8 lanes with 2 slot barriers"));
  EXPECT_THAT(o.out, HasSubstr("  new   dispatch_standin -> comb_sinkhorn\n"));
  EXPECT_THAT(o.out, HasSubstr("Against the reference: pass\n"));
  EXPECT_THAT(o.out, HasSubstr("Fused = unfused: yes (17 outputs, "));
  EXPECT_THAT(o.out, Not(HasSubstr("\033")));
  EXPECT_EQ(o.err, "");
}

TEST_F(Program, RunsEveryDeclaredCombination) {
  const Output o = run("run squares --sweep", QUICKSTART_PROGRAM);
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(o.out,
            "pass  --variant unfused --rows 1\npass  --variant counter --rows 1\n"
            "pass  --variant unfused --rows 3\npass  --variant counter --rows 3\n"
            "pass  --variant unfused --rows 8\npass  --variant counter --rows 8\n6 of 6 pass\n");
}

TEST_F(Program, DoesNotSweepWhatIsGiven) {
  const std::string line = "pass  --variant counter --rows 5\n1 of 1 pass\n";
  for (const char* command : {"run", "verify"}) {
    const std::string words = command + std::string(" squares --sweep --rows 5");
    EXPECT_EQ(run(words + " --variant counter", QUICKSTART_PROGRAM).out, line);
    EXPECT_EQ(run(words, QUICKSTART_PROGRAM).out,
              "pass  --variant unfused --rows 5\npass  --variant counter --rows 5\n2 of 2 pass\n");
  }
}

TEST_F(Program, SavesARunThatCanBeLoaded) {
  const std::string toy = "run pre-norm --preset toy --seed 5 --variant counter ";
  ASSERT_EQ(run(toy + "--save " + path("a")).status, 0);
  ASSERT_EQ(run(toy + "--load " + path("a") + " --save " + path("b")).status, 0);
  EXPECT_TRUE(contents(path("a")) == contents(path("b")));
  const Result<SafeTensors> saved = SafeTensors::open(path("a"));
  ASSERT_TRUE(saved) << saved.error().message;
  for (const char* name :
       {"x_hc",      "hc_ffn_fn",       "hc_ffn_scale", "hc_ffn_base",  "norm_w",
        "gate_w",    "gate_bias",       "tid2eid",      "input_ids",    "inv_rms",
        "mixes_raw", "pre_val_store",   "post",         "comb",         "x_mixed",
        "xg_buf",    "ffn_inv_rms_buf", "xn_scale_buf", "x_norm_scale", "x_norm_i8",
        "indices",   "weights",         "ffn_out",      "x_next"}) {
    EXPECT_TRUE(saved->find(name)) << name;
  }
  const std::map<std::string, std::string> metadata = {
      {"num_tokens", "8"},      {"layer_id", "10"},
      {"num_hash_layers", "3"}, {"routed_scaling_factor", "1.500000"},
      {"preset", "toy"},        {"mode", "decode"},
      {"variant", "counter"},   {"seed", "5"}};
  EXPECT_EQ(saved->metadata(), metadata);
}

TEST_F(Program, NamesEveryInputThatAFileGetsWrong) {
  ASSERT_EQ(run("run hc-chain --preset toy --save " + path("a")).status, 0);
  const Output o =
      run("run pre-norm --preset toy --mode prefill --load " + path("a") + " --save " + path("b"));
  EXPECT_EQ(o.status, 2);
  EXPECT_THAT(o.err,
              HasSubstr("tensor \"x_hc\" is F32 [8, 4, 1024], expected F32 [128, 4, 1024]\n"));
  EXPECT_THAT(o.err, HasSubstr("\"" + path("a") + "\" has no tensor \"gate_w\""));
  EXPECT_THAT(o.err, HasSubstr("has no tensor \"input_ids\""));
  EXPECT_THAT(run("run hc-chain --preset toy --stream bf16 --load " + path("a")).err,
              HasSubstr("tensor \"x_hc\" is F32 [8, 4, 1024], expected BF16 [8, 4, 1024]"));
  EXPECT_FALSE(std::filesystem::exists(path("b")));

  std::ofstream(path("c")) << "not a safetensors file";
  expect_usage_error("run hc-chain --preset toy --load " + path("c"), "not a safetensors file");
}

TEST_F(Program, SaysThatItCannotSaveBeforeItRuns) {
  const std::string save = "run hc-chain --preset toy --save ";
  expect_usage_error(save + path("none/a"),
                     "can't write \"" + path("none/a") + "\": No such file or directory\n");
  EXPECT_FALSE(std::filesystem::exists(path("none")));
  std::ofstream(path("file")) << "kept";
  expect_usage_error(save + path("file/a"), "\": Not a directory\n");
  EXPECT_EQ(contents(path("file")), "kept");
  expect_usage_error(save + folder_, "\": it isn't a regular file\n");
}

TEST_F(Program, VerifyProvesAGraphAndFindsWhatIsPutIn) {
  const std::string toy = "verify pre-norm --preset toy --variant slot ";
  const Output right = run(toy);
  EXPECT_EQ(right.status, 0) << right.out;
  EXPECT_THAT(right.out, HasSubstr("every two tasks that share a byte one of them writes are"));
  EXPECT_EQ(run(toy + "--memory dma").status, 0);

  const Output one = run(toy + "--inject M06c");
  EXPECT_EQ(one.status, 0) << one.out;
  EXPECT_THAT(one.out, HasSubstr("may read old bytes of tensor \"x_mixed\""));
  EXPECT_THAT(one.out,
              HasSubstr("M06c: barrier 1 is taken for a publish, expected stale-read: found"));
  const Output all = run(toy + "--inject all");
  EXPECT_EQ(all.status, 0) << all.out;
  EXPECT_THAT(all.out, HasSubstr("27 caught, 3 silent as they must be, 0 missed\n"));
  expect_usage_error(toy + "--inject M99", "--inject: 'M99' can't be put into this graph");
  expect_usage_error(toy + "--format yaml", "--format: 'yaml', expected one of text, json, sarif");

  EXPECT_THAT(run(toy + "--format json").out, HasSubstr("\"verdict\": \"pass\""));
  EXPECT_THAT(run(toy + "--inject M04 --format sarif").out, HasSubstr("\"ruleId\": \"residency\""));
  EXPECT_EQ(run("verify squares --sweep", QUICKSTART_PROGRAM).out,
            "pass  --variant unfused --rows 1\npass  --variant counter --rows 1\n"
            "pass  --variant unfused --rows 3\npass  --variant counter --rows 3\n"
            "pass  --variant unfused --rows 8\npass  --variant counter --rows 8\n6 of 6 pass\n");
  const Output quickstart =
      run("verify squares --variant counter --inject all", QUICKSTART_PROGRAM);
  EXPECT_THAT(quickstart.out, HasSubstr("20 caught, 0 silent as they must be, 0 missed\n"));
}

TEST_F(Program, LitmusExploresFilesAndFolders) {
  std::ofstream(path("flag.litmus"))
      << "word d = 0 word f = 0\n"
         "lane w { store f = 1 store d = 7 }\n"
         "lane r { wait until f == 1 x = load d assert x == 7 else stale-read }\n"
         "expect stale-read\n"
         "variant right { lane w { store d = 7 store f = 1 } expect pass }\n"
         "variant wrong { lane w { store f = 1 store d = 7 } expect pass }\n";
  const std::string file = path("flag.litmus");
  const Output folder = run("litmus " + folder_);
  EXPECT_EQ(folder.status, 1);
  EXPECT_THAT(folder.out, HasSubstr("  base: stale-read (as expected; exhaustive: "));
  EXPECT_THAT(folder.out,
              HasSubstr("  wrong: stale-read, expected pass (NOT AS EXPECTED; exhaustive: "));
  EXPECT_THAT(folder.out, HasSubstr("2 of 3 cases as expected\n"));
  EXPECT_EQ(run("litmus --variant right " + file).status, 0);

  const std::string mark = "--replay ";
  const std::size_t token = folder.out.find(mark) + mark.size();
  const Output replay = run("litmus " + file + " --replay " +
                            folder.out.substr(token, folder.out.find('\n', token) - token));
  EXPECT_EQ(replay.status, 0) << replay.err;
  EXPECT_EQ(replay.out,
            "   1  w: store f (line 6)\n   2  r: wait (line 3)\n   3  r: x = load d (line 3)\n"
            "   4  r: assert (line 3): stale-read\n");
  EXPECT_EQ(run("litmus --bound 2 --variant right " + file).status, 3);
  EXPECT_THAT(run("litmus --format json " + file).out,
              HasSubstr("\"rule\": \"litmus/stale-read\""));
  EXPECT_THAT(run("litmus --to-promela " + file).out, HasSubstr("proctype lane0()"));

  std::ofstream(path("bad.litmus")) << "word a = 0\nlane x { stor a = 1 }\n";
  expect_usage_error("litmus " + path("bad.litmus"), path("bad.litmus") + ":2:");
  expect_usage_error("litmus " + path("none.litmus"), "can't read '" + path("none.litmus") + "'");
  expect_usage_error("litmus " + file + " --replay nonsense", "isn't a token");
  expect_usage_error("litmus " + file + " --memory strong", "--memory:1:1:");
  expect_usage_error("litmus " + file + " --set a", "--set: 'a', expected NAME=NUMBER");
}

TEST_F(Program, BenchComparesWhatIsThereAndSaysWhatIsNot) {
  // Two programs stand for ours and a peer: they print what `cohort bench` reads.
  const auto install = [&](const std::string& name, const std::string& samples) {
    std::ofstream(path(name))
        << "#!/bin/sh\necho '{\"name\": \"x\", \"unit\": \"ns\", \"samples\": " << samples
        << "}'\n";
    std::filesystem::permissions(path(name), std::filesystem::perms::owner_all);
  };
  expect_usage_error("bench --programs " + folder_, "bench_ours isn't there");
  install("bench_ours", "[30, 10, 20]");
  install("bench_tbb", "[40, 40, 40]");
  expect_usage_error("bench --filter nonsense --programs " + folder_,
                     "no row's name has 'nonsense' in it");
  const Output o = run("bench --rounds 2 --filter tasks/chain --programs " + folder_);
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("tasks/chain/1 / tbb                                 20.0     40.0  "
                               "0.50x  met\n  ours 10.0 to 30.0, peer 40.0 to 40.0; goal 1.0x\n"));
  EXPECT_THAT(o.out, HasSubstr("libomp: not installed\n"));
  const Output json = run("bench --json --rounds 1 --filter tasks/chain --programs " + folder_);
  EXPECT_THAT(json.out, HasSubstr("\"ratio\": 0.5,"));
  EXPECT_THAT(json.out, HasSubstr("\"met\": null,"));
  install("bench_tbb", "[]");
  expect_usage_error("bench --filter tasks/chain --programs " + folder_, "printed no samples");
}

TEST_F(Program, ColoursATerminalOnly) {
  const auto on_terminal = [&] {
    int terminal = -1;
    const pid_t child =
        start_on_terminal(QUICKSTART_PROGRAM, "run squares --variant counter", terminal);
    const std::string text = shown(terminal, "never on it");
    EXPECT_EQ(finish(child).status, 0);
    ::close(terminal);
    return text;
  };
  ::unsetenv("NO_COLOR");
  EXPECT_THAT(on_terminal(), HasSubstr("Against the reference: \033[32mpass\033[0m\r\n"));
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_THAT(on_terminal(), HasSubstr("Against the reference: pass\r\n"));
  ::unsetenv("NO_COLOR");
}

TEST_F(Program, ShowsProgressOnATerminalUntilCtrlC) {
  int terminal = -1;
  const pid_t child = start_on_terminal(
      COHORT_PROGRAM, "run hc-chain --preset toy --repeat 1000000 --save " + path("a"), terminal);
  EXPECT_THAT(shown(terminal, "hc-chain: run "), testing::StartsWith("\r\033[Khc-chain: run "));
  ASSERT_EQ(::write(terminal, "\x03", 1), 1);
  const std::string rest = shown(terminal, "never on it");
  EXPECT_THAT(rest, HasSubstr("Stopping after this step; Ctrl-C again ends at once."));
  EXPECT_THAT(rest, Not(HasSubstr("Output")));
  EXPECT_EQ(finish(child).status, 130);
  EXPECT_FALSE(std::filesystem::exists(path("a")));
  ::close(terminal);
}

TEST_F(Program, SaysThatItsOutputCannotBeWritten) {
  // Less than a buffer, and several.
  for (const char* words : {"list", "run hc-chain --preset toy --mode decode --sweep"}) {
    const Output o = finish(start(COHORT_PROGRAM, words, "/dev/full"));
    EXPECT_EQ(o.status, 2) << words;
    EXPECT_EQ(o.err, "cohort: can't write the output\n") << words;
  }
}

TEST_F(Program, EndsOnCtrlC) {
  const pid_t child =
      start(COHORT_PROGRAM, "run hc-chain --preset toy --repeat 1000000 --save " + path("a"));
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  ::kill(child, SIGINT);
  const Output o = finish(child);
  EXPECT_EQ(o.status, 130);
  EXPECT_EQ(o.out + o.err, "");  // No progress line in a file.
  EXPECT_FALSE(std::filesystem::exists(path("a")));
}

}  // namespace
}  // namespace cohort
