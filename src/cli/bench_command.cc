#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "graph_flags.h"
#include "terminal.h"

namespace cohort::cli {
namespace {

constexpr const char* kOurs = "ours";

// One comparison: a benchmark of ours against one of a peer's program, or of ours again, or against
// a number.
struct Row {
  std::string name;
  std::string ours;
  std::string program;               // Whose benchmark it is compared with; empty: `limit`.
  std::string peer;                  // Its name there.
  std::optional<double> goal = {};   // Of the ratio ours / peer.
  std::optional<double> limit = {};  // Of ours, in its own unit.
};

std::vector<Row> all_rows() {
  std::vector<Row> rows;
  const auto against = [&](std::string name, std::string ours, std::string program,
                           std::string peer, std::optional<double> goal = {}) {
    rows.push_back(
        {std::move(name), std::move(ours), std::move(program), std::move(peer), goal, {}});
  };
  const auto limited = [&](std::string name, std::string ours, double limit) {
    rows.push_back({std::move(name), std::move(ours), "", "", {}, limit});
  };
  against("barrier, 2 lanes, 2 workers / ping-pong", "barrier/counter/2x2", "ping_pong",
          "barrier/2", 0.6);
  against("barrier, 2 lanes, 2 workers / libomp", "barrier/counter/2x2", "libomp", "barrier/2");
  against("barrier, 2 lanes, 2 workers / libgomp", "barrier/counter/2x2", "libgomp", "barrier/2");
  for (const char* kind : {"hard", "slot", "counter"}) {
    const double goal = std::string(kind) == "hard" ? 4 : 10;
    const std::string two = fmt::format("barrier/{}/2x2", kind);
    against(fmt::format("{} barrier, 8 lanes, 2 workers / 2 lanes", kind),
            fmt::format("barrier/{}/8x2", kind), kOurs, two, goal);
    against(fmt::format("{} barrier, 8 lanes, 1 worker / 2 lanes", kind),
            fmt::format("barrier/{}/8x1", kind), kOurs, two, 1.5);
    limited(fmt::format("{} barrier, 8 lanes, 8 workers", kind),
            fmt::format("barrier/{}/8x8", kind), 20'000);
  }
  const std::pair<const char*, double> kTasks[] = {
      {"tasks/chain/1", 33}, {"tasks/layers/1", 97}, {"tasks/layers/2", 314}};
  for (const auto& [name, limit] : kTasks) {
    limited(name, name, limit);
    for (const char* program : {"tbb", "libomp", "libgomp"}) {
      against(fmt::format("{} / {}", name, program), name, program, name,
              std::string(program) == "libgomp" ? std::nullopt : std::optional(1.0));
    }
  }
  limited("graph preparation, per edge", "graph/prepare", 1000);
  limited("another num_tokens", "graph/num_tokens", 50'000);
  against("rms + linear, T=8 / oneDNN linear", "linear/8", "onednn", "linear/8", 0.75);
  against("rms + linear, T=8 / OpenBLAS linear", "linear/8", "openblas", "linear/8");
  against("rms + linear, T=128 / oneDNN linear", "linear/128", "onednn", "linear/128");
  against("gate + top-k, T=8 / oneDNN gate", "gate/8", "onednn", "gate/8", 1.3);
  against("gate + top-k, T=128 / oneDNN gate", "gate/128", "onednn", "gate/128", 1.1);
  against("gate + top-k, T=8 / OpenBLAS gate", "gate/8", "openblas", "gate/8");
  against("gate + top-k, T=128 / OpenBLAS gate", "gate/128", "openblas", "gate/128");
  for (const int tokens : {8, 128}) {
    for (const int workers : {1, 2}) {
      for (const char* kind : {"slot", "counter"}) {
        against(fmt::format("pre-norm, {} / unfused, T={}, {} worker{}", kind, tokens, workers,
                            workers == 1 ? "" : "s"),
                fmt::format("pre-norm/{}/{}/{}", kind, tokens, workers), kOurs,
                fmt::format("pre-norm/unfused/{}/{}", tokens, workers), 1.05);
      }
    }
  }
  return rows;
}

struct Measured {
  std::vector<double> samples;
  std::string unit;

  double at(double quantile) {
    std::sort(samples.begin(), samples.end());
    return samples[static_cast<std::size_t>(
        std::lround(quantile * static_cast<double>(samples.size() - 1)))];
  }
};

// Runs the programs and keeps what they measured, by program and benchmark.
class Programs {
 public:
  explicit Programs(std::filesystem::path folder) : folder_(std::move(folder)) {}

  bool has(const std::string& program) const {
    return ::access(path_of(program).c_str(), X_OK) == 0;
  }

  // Adds the samples of one more run. Errors: what went wrong with the program.
  Status run(const std::string& program, const std::string& benchmark) {
    int ends[2];
    if (::pipe(ends) != 0) return fail(ErrorCode::kIo, "can't make a pipe");
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::close(ends[0]);
      ::close(ends[1]);
      // Peers get as many threads as the rows say: two.
      ::setenv("OMP_NUM_THREADS", "2", 1);
      ::setenv("OPENBLAS_NUM_THREADS", "2", 1);
      const std::string path = path_of(program);
      ::execl(path.c_str(), path.c_str(), benchmark.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    std::string text;
    char buffer[4096];
    for (ssize_t n = 0; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
      text.append(buffer, static_cast<std::size_t>(n));
    }
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (status != 0) {
      return fail(ErrorCode::kIo, fmt::format("{} {} failed", path_of(program), benchmark));
    }
    const auto line = nlohmann::json::parse(text, nullptr, false);
    if (!line.is_object() || !line.contains("samples") || line["samples"].empty()) {
      return fail(ErrorCode::kIo,
                  fmt::format("{} {} printed no samples", path_of(program), benchmark));
    }
    Measured& m = measured_[{program, benchmark}];
    m.unit = line["unit"].get<std::string>();
    for (const auto& sample : line["samples"]) m.samples.push_back(sample.get<double>());
    return {};
  }

  Measured* find(const std::string& program, const std::string& benchmark) {
    const auto it = measured_.find({program, benchmark});
    return it == measured_.end() ? nullptr : &it->second;
  }

 private:
  std::string path_of(const std::string& program) const {
    return (folder_ / ("bench_" + program)).string();
  }

  std::filesystem::path folder_;
  std::map<std::pair<std::string, std::string>, Measured> measured_;
};

struct BenchFlags {
  std::string programs;
  std::string filter;
  int rounds = 3;
  bool json = false;
};

// Beside this program in a build tree, or where it is installed.
std::filesystem::path default_folder() {
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  const auto built = self / "../../bench";
  return std::filesystem::exists(built / "bench_ours") ? built : self / "../libexec/cohort";
}

// Null where there is no peer or no goal.
nlohmann::ordered_json json_of(const Row& row, Measured& ours, Measured* peer) {
  using nlohmann::json;
  const double median = ours.at(0.5);
  const json ratio = peer != nullptr ? json(median / peer->at(0.5)) : json();
  const std::optional<double>& goal = row.program.empty() ? row.limit : row.goal;
  const json reached = row.program.empty() ? json(median) : ratio;
  nlohmann::ordered_json result;
  result["name"] = row.name;
  result["ours"] = median;
  result["peer"] = peer != nullptr ? json(peer->at(0.5)) : json();
  result["ratio"] = ratio;
  result["goal"] = goal ? json(*goal) : json();
  result["met"] = goal && !reached.is_null() ? json(reached.get<double>() <= *goal) : json();
  result["unit"] = ours.unit;
  result["spread"] = {{"ours", {ours.at(0.25), ours.at(0.75)}}};
  if (peer != nullptr) result["spread"]["peer"] = {peer->at(0.25), peer->at(0.75)};
  return result;
}

std::string number(double value) {
  if (value >= 1e6) return fmt::format("{:.3f}M", value / 1e6);
  if (value >= 1e4) return fmt::format("{:.1f}k", value / 1e3);
  return fmt::format("{:.1f}", value);
}

void print_row(const nlohmann::ordered_json& json) {
  const auto text = [&](const char* key, const char* suffix) {
    return json[key].is_null() ? std::string("-")
                               : fmt::format("{:.2f}{}", json[key].get<double>(), suffix);
  };
  const bool has_peer = !json["peer"].is_null();
  std::string verdict = "-";
  if (!json["met"].is_null()) verdict = json["met"].get<bool>() ? good("met") : bad("NOT MET");
  fmt::print("{:<47}{:>9}{:>9}{:>7}  {}\n", json["name"].get<std::string>(),
             number(json["ours"].get<double>()),
             has_peer ? number(json["peer"].get<double>()) : "-", text("ratio", "x"), verdict);
  const auto& spread = json["spread"];
  std::string line = fmt::format("  ours {} to {}", number(spread["ours"][0].get<double>()),
                                 number(spread["ours"][1].get<double>()));
  if (has_peer) {
    line += fmt::format(", peer {} to {}", number(spread["peer"][0].get<double>()),
                        number(spread["peer"][1].get<double>()));
  }
  if (!json["goal"].is_null()) {
    line += fmt::format("; goal {}{}", number(json["goal"].get<double>()), has_peer ? "x" : " ns");
  }
  fmt::print("{}\n", line);
}

ExitStatus bench(const BenchFlags& flags) {
  Programs programs(flags.programs.empty() ? default_folder()
                                           : std::filesystem::path(flags.programs));
  if (!programs.has(kOurs)) {
    return usage_error(
        "bench_ours isn't there; build it (cmake --build --preset release) or say "
        "where it is with --programs");
  }
  std::vector<Row> rows;
  for (Row& row : all_rows()) {
    if (row.name.find(flags.filter) != std::string::npos) rows.push_back(std::move(row));
  }
  if (rows.empty()) return usage_error("no row's name has '" + flags.filter + "' in it");

  // In turn, so that all see the same machine; each benchmark once a round.
  std::vector<std::pair<std::string, std::string>> order;
  const auto add = [&](const std::string& program, const std::string& benchmark) {
    const std::pair entry(program, benchmark);
    if (!program.empty() && programs.has(program) &&
        std::find(order.begin(), order.end(), entry) == order.end()) {
      order.push_back(entry);
    }
  };
  for (const Row& row : rows) {
    add(kOurs, row.ours);
    add(row.program, row.peer);
  }
  {
    ProgressLine progress;
    std::size_t done = 0;
    for (int round = 0; round < flags.rounds; ++round) {
      for (const auto& [program, benchmark] : order) {
        if (is_interrupted()) return ExitStatus::kInterrupted;
        progress.show(fmt::format("bench: {} of {}", done++,
                                  order.size() * static_cast<std::size_t>(flags.rounds)));
        const Status status = programs.run(program, benchmark);
        if (is_interrupted()) return ExitStatus::kInterrupted;
        progress.hide();
        if (!status) return usage_error(status.error().message);
      }
    }
  }

  nlohmann::ordered_json json = {{"rows", nlohmann::json::array()}};
  std::set<std::string> missing;
  for (const Row& row : rows) {
    const bool is_missing = !row.program.empty() && !programs.has(row.program);
    if (is_missing) missing.insert(row.program);
    Measured* peer =
        row.program.empty() || is_missing ? nullptr : programs.find(row.program, row.peer);
    json["rows"].push_back(json_of(row, *programs.find(kOurs, row.ours), peer));
  }
  if (flags.json) {
    fmt::print("{}\n", json.dump(2));
    return ExitStatus::kPass;
  }
  fmt::print("{:<47}{:>9}{:>9}{:>7}  goal\n", "medians in ns", "ours", "peer", "ratio");
  for (const auto& row : json["rows"]) print_row(row);
  for (const std::string& program : missing) fmt::print("{}: not installed\n", program);
  return ExitStatus::kPass;
}

}  // namespace

void add_bench_command(CLI::App& app, Action& action) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App* command = app.add_subcommand(
      "bench", "Measure Cohort against its peers, in turn, and print each goal with both medians.");
  command->add_option("--filter", flags->filter, "Only rows with this in their name.")
      ->option_text("TEXT");
  command->add_option("--rounds", flags->rounds, "How often each program is run.")
      ->option_text("N")
      ->check(whole_number(1, 1000))
      ->default_str("3");
  command->add_option("--programs", flags->programs, "Folder of the benchmark programs.")
      ->option_text("DIR");
  command->add_flag("--json", flags->json, "Print JSON for machines.");
  command->callback([flags, &action] { action = [flags] { return bench(*flags); }; });
}

}  // namespace cohort::cli
