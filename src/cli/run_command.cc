#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cohort/base/strings.h"
#include "cohort/cli/graph_registry.h"
#include "cohort/native/executor.h"

#include "command.h"
#include "graph_change.h"
#include "graph_flags.h"
#include "saved_run.h"
#include "terminal.h"

namespace cohort::cli {
namespace {

using native::Executor;
using native::PreparedGraph;
using native::RunResult;
using native::RunStatus;

constexpr const char* kUnfused = "unfused";

// Flags of `run GRAPH`, as they are parsed.
struct RunFlags {
  const GraphEntry* entry = nullptr;
  GraphFlags graph;
  std::uint64_t seed = 1;
  int workers = 0;
  int repeat = 1;
  bool sweep = false;
  std::string save;
  std::string load;
};

std::string seconds(double nanos) {
  if (nanos < 1e4) return fmt::format("{:.2f} us", nanos / 1e3);
  if (nanos < 1e6) return fmt::format("{:.1f} us", nanos / 1e3);
  if (nanos < 1e9) return fmt::format("{:.2f} ms", nanos / 1e6);
  return fmt::format("{:.2f} s", nanos / 1e9);
}

struct Times {
  double median = 0;
  double low = 0;   // First quartile.
  double high = 0;  // Third.
};

Times times_of(std::vector<double> nanos) {
  std::sort(nanos.begin(), nanos.end());
  const auto at = [&](double q) {
    return nanos[static_cast<std::size_t>(q * static_cast<double>(nanos.size() - 1) + 0.5)];
  };
  return {at(0.5), at(0.25), at(0.75)};
}

// One graph, built, prepared and run.
struct Subject {
  BuiltGraph built;
  std::optional<PreparedGraph> prepared;
  std::vector<double> nanos;
};

class Runner {
 public:
  Runner(const RunFlags& flags, const SafeTensors* loaded)
      : flags_(flags), loaded_(loaded), executor_({.workers = flags.workers}) {}

  ExitStatus run(BuildRequest request, bool is_brief) {
    request.set_seed(flags_.seed);
    request.set_loaded(loaded_);
    if (!is_brief) progress_.show(flags_.entry->name() + ": preparing");
    Result<Subject> subject = prepare(request);
    if (!subject) return refuse(subject.error());
    std::optional<Subject> unfused;
    const auto& variants = flags_.entry->variants();
    if (request.variant() != kUnfused && std::ranges::find(variants, kUnfused) != variants.end()) {
      BuildRequest other = request;
      other.set_variant(kUnfused);
      Result<Subject> built = prepare(other);
      if (!built) return refuse(built.error());
      unfused.emplace(*std::move(built));
    }
    // Interleaved, so that both see the same machine.
    for (int i = 0; i < flags_.repeat; ++i) {
      for (Subject* s : {&*subject, unfused ? &*unfused : nullptr}) {
        if (s == nullptr) continue;
        if (is_interrupted()) return ExitStatus::kInterrupted;
        if (!is_brief) {
          progress_.show(
              fmt::format("{}: run {} of {}", flags_.entry->name(), i + 1, flags_.repeat));
        }
        const RunResult result = executor_.run(*s->prepared);
        if (result.status != RunStatus::kDone) {
          progress_.hide();
          fmt::print("{}", to_text(result.report));
          if (result.status == RunStatus::kHung) return ExitStatus::kGaveUp;
          return ExitStatus::kFinding;
        }
        s->nanos.push_back(static_cast<double>(result.elapsed.value));
      }
    }
    if (!is_brief) progress_.show(flags_.entry->name() + ": comparing with the reference");
    std::vector<observe::OutputCheck> checks;
    if (subject->built.check) checks = subject->built.check();
    if (is_interrupted()) return ExitStatus::kInterrupted;
    progress_.hide();
    const bool pass = is_brief ? report_line(request, *subject, unfused, checks)
                               : report(request, *subject, unfused, checks);
    if (!flags_.save.empty()) {
      if (is_interrupted()) return ExitStatus::kInterrupted;
      const Status saved = save_run(subject->built, flags_.save);
      if (!saved) return refuse(saved.error());
      fmt::print("Saved to {}\n", flags_.save);
    }
    return pass ? ExitStatus::kPass : ExitStatus::kFinding;
  }

  ExitStatus sweep() {
    ExitStatus worst = ExitStatus::kPass;
    std::size_t failed = 0;
    std::size_t done = 0;
    const std::vector<BuildRequest> requests = sweep_of(*flags_.entry, flags_.graph);
    for (const BuildRequest& request : requests) {
      progress_.show(fmt::format("{}: {} of {}", flags_.entry->name(), done++, requests.size()));
      const ExitStatus status = run(request, true);
      if (status == ExitStatus::kInterrupted || status == ExitStatus::kUsage) return status;
      if (status != ExitStatus::kPass) ++failed;
      worst = std::max(worst, status);
    }
    fmt::print("{} of {} pass\n", requests.size() - failed, requests.size());
    return worst;
  }

 private:
  ExitStatus refuse(const Error& error) {
    progress_.hide();
    return usage_error(error.message);
  }

  Result<Subject> prepare(const BuildRequest& request) {
    Subject s;
    COHORT_TRY(s.built, flags_.entry->build(request));
    s.built.graph->poison_tensors();
    if (loaded_ != nullptr) {
      COHORT_TRY_STATUS(load_inputs(s.built, *loaded_));
    } else if (s.built.draw) {
      s.built.draw(request.seed());
    }
    if (s.built.validate) COHORT_TRY_STATUS(s.built.validate());
    COHORT_TRY(s.prepared, executor_.prepare(*s.built.graph));
    return s;
  }

  // The outputs of both, compared bit by bit; the first that differs, or empty.
  static std::string difference(const Subject& a, const Subject& b, std::size_t& bytes) {
    bytes = 0;
    for (const std::string& name : a.built.outputs) {
      const Tensor* x = a.built.graph->find_tensor(name);
      const Tensor* y = b.built.graph->find_tensor(name);
      COHORT_CHECK(x != nullptr && y != nullptr, "variants differ in their output " + name);
      const auto comparison = observe::compare_bits(x->memory(), y->memory(), x->dtype);
      if (!comparison.pass) return name + ": " + to_text(comparison, x->shape);
      bytes += static_cast<std::size_t>(x->bytes());
    }
    return "";
  }

  bool report_line(const BuildRequest& request, const Subject& s,
                   const std::optional<Subject>& unfused,
                   const std::vector<observe::OutputCheck>& checks) {
    std::string why;
    for (const observe::OutputCheck& c : checks) {
      if (!c.comparison.pass) why = c.tensor + ": " + to_text(c.comparison, c.shape);
    }
    std::size_t bytes = 0;
    if (unfused && why.empty()) why = difference(s, *unfused, bytes);
    fmt::print("{}  {}\n", why.empty() ? good("pass") : bad("FAIL"), request.to_text());
    if (!why.empty()) fmt::print("      {}\n", wrapped(why, 80, 6));
    return why.empty();
  }

  bool report(const BuildRequest& request, const Subject& s, const std::optional<Subject>& unfused,
              const std::vector<observe::OutputCheck>& checks) {
    fmt::print("{}\n", wrapped(flags_.entry->name() + " " + request.to_text(), 80, 2));
    if (unfused) print_change(change_of(*unfused->built.graph, *s.built.graph), *s.built.graph);
    bool pass = true;
    if (s.built.check) pass = print_checks(checks);
    if (unfused) {
      std::size_t bytes = 0;
      const std::string differs = difference(s, *unfused, bytes);
      if (differs.empty()) {
        fmt::print("\nFused = unfused: {} ({} outputs, {} bytes, bit for bit)\n", good("yes"),
                   s.built.outputs.size(), bytes);
      } else {
        fmt::print("\nFused = unfused: {}\n  {}\n", bad("NO"), wrapped(differs, 80, 2));
        pass = false;
      }
    }
    print_times(request.variant().empty() ? "this graph" : request.variant(), s);
    if (unfused) print_times(kUnfused, *unfused);
    return pass;
  }

  static void print_change(const GraphChange& change, const Graph& graph) {
    fmt::print("\nLaunches: {} -> {}", change.launches_before, change.launches_after);
    if (change.new_tasks.size() == 1 && !change.gone_tasks.empty()) {
      const auto& tasks = graph.tasks();
      const auto fused = std::ranges::find_if(
          tasks, [&](const Task& t) { return t.name == change.new_tasks.front(); });
      const std::size_t barriers = fused->bound.meetings.size();
      fmt::print("; {} ({} launches)\n  became {}, one launch of {} lanes with {} {} barrier{}",
                 fmt::join(change.gone_tasks, ", "), change.gone_tasks.size(),
                 change.new_tasks.front(), fused->bound.lanes, barriers,
                 cohort::name(fused->bound.barrier), barriers == 1 ? "" : "s");
    }
    fmt::print("\nEdges:    {} -> {}\n", change.edges_before, change.edges_after);
    for (const std::string& edge : change.gone_edges) fmt::print("  gone  {}\n", edge);
    for (const std::string& edge : change.new_edges) fmt::print("  new   {}\n", edge);
  }

  static bool print_checks(const std::vector<observe::OutputCheck>& checks) {
    bool pass = true;
    std::size_t width = 8;
    for (const auto& c : checks) width = std::max(width, c.tensor.size());
    fmt::print("\n{:<{}}  {:>8} {:>8}  worst element: found, expected\n", "Output", width,
               "elements", "outside");
    for (const observe::OutputCheck& c : checks) {
      const observe::Comparison& r = c.comparison;
      pass = pass && r.pass;
      std::string worst = "-";
      if (r.worst >= 0 && r.worst_difference != 0) {
        worst = fmt::format("{}: {:.7g}, {:.7g}", observe::coordinates(r.worst, c.shape), r.actual,
                            r.expected);
      } else if (r.compared > 0) {
        worst = "equal";
      }
      fmt::print("{:<{}}  {:>8} {:>8}  {}{}\n", c.tensor, width, r.compared, r.bad, worst,
                 r.pass ? "" : "  " + bad("FAIL: " + c.rule));
    }
    fmt::print("Against the reference: {}\n", pass ? good("pass") : bad("FAIL"));
    return pass;
  }

  void print_times(const std::string& name, const Subject& s) const {
    const Times t = times_of(s.nanos);
    fmt::print("Time, {:<8} {:>9}", name + ":", seconds(t.median));
    if (s.nanos.size() > 1) {
      fmt::print("  median of {}, quartiles {} to {}", s.nanos.size(), seconds(t.low),
                 seconds(t.high));
    }
    fmt::print(" ({} worker{})\n", executor_.workers(), executor_.workers() == 1 ? "" : "s");
  }

  const RunFlags& flags_;
  const SafeTensors* loaded_;
  Executor executor_;
  ProgressLine progress_;
};

ExitStatus run_graph(RunFlags& flags) {
  std::optional<SafeTensors> loaded;
  if (!flags.load.empty()) {
    Result<SafeTensors> file = SafeTensors::open(flags.load);
    if (!file) return usage_error(file.error().message);
    loaded.emplace(*std::move(file));
  }
  if (!flags.save.empty()) {
    const Status possible = can_save(flags.save);
    if (!possible) return usage_error(possible.error().message);
  }
  Runner runner(flags, loaded ? &*loaded : nullptr);
  if (flags.sweep) return runner.sweep();
  return runner.run(request_of(*flags.entry, flags.graph), false);
}

void add_graph(CLI::App& run, const GraphEntry& entry, Action& action) {
  auto flags = std::make_shared<RunFlags>();
  flags->entry = &entry;
  CLI::App* command = run.add_subcommand(entry.name(), entry.help());
  add_graph_flags(*command, entry, flags->graph);
  command->add_option("--seed", flags->seed, "Of the drawn inputs.")
      ->option_text("N")
      ->check(whole_number(0, INT64_MAX))
      ->default_str("1");
  command->add_option("--workers", flags->workers, "Threads; 0: one per CPU.")
      ->option_text("N")
      ->check(whole_number(0, 1024))
      ->default_str("0");
  command->add_option("--repeat", flags->repeat, "Runs to take the median time of.")
      ->option_text("N")
      ->check(whole_number(1, 1'000'000))
      ->default_str("1");
  CLI::Option* save =
      command
          ->add_option("--save", flags->save,
                       "Write inputs, intermediates and outputs to a safetensors file.")
          ->option_text("FILE");
  CLI::Option* load =
      command
          ->add_option("--load", flags->load,
                       "Take inputs from a safetensors file instead of drawing them.")
          ->option_text("FILE");
  command
      ->add_flag("--sweep", flags->sweep,
                 "Run every combination of the variants and swept parameters that aren't given, a "
                 "line each.")
      ->excludes(save)
      ->excludes(load);
  command->callback([flags, &action] { action = [flags] { return run_graph(*flags); }; });
}

}  // namespace

void add_run_command(CLI::App& app, Action& action) {
  CLI::App* run = app.add_subcommand(
      "run", "Run a graph on this CPU and compare what comes out with its reference.");
  run->require_subcommand(1);
  for (const GraphEntry* entry : registered_graphs()) add_graph(*run, *entry, action);
}

}  // namespace cohort::cli
