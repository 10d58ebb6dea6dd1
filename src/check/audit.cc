#include "cohort/check/audit.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "order.h"

namespace cohort::check {
namespace {

// Where a barrier keeps what it polls, in an A2/A3 vector core's local memory; tiles end below.
constexpr std::int64_t kScratch = 176 * 1024;

std::string task_text(const Task& task) {
  return fmt::format("task #{} \"{}\"", task.id.value, task.name);
}

Verdict verdict_of(RefusalKind kind) {
  switch (kind) {
    case RefusalKind::kInoutReuse:
      return Verdict::kInoutReuse;
    case RefusalKind::kLayout:
      return Verdict::kLayout;
    case RefusalKind::kFusion:
      return Verdict::kFalseSharing;
    case RefusalKind::kAbi:
    case RefusalKind::kAlias:
    case RefusalKind::kForeign:
    case RefusalKind::kLimit:
    case RefusalKind::kShape:
      break;
  }
  return Verdict::kAbi;
}

class Audit {
 public:
  Audit(const Graph& graph, const GraphRecord& record, const std::vector<std::string>& inputs,
        const std::vector<DeclaredProducers>& declared)
      : graph_(graph), record_(record), inputs_(inputs), declared_(declared), order_(graph) {
    report_.subject = graph.name();
  }

  Report run() && {
    rule("lanes that wait for each other are resident together", &Audit::sync_start);
    rule("every grid counts in a workspace of its own, from zero", &Audit::workspaces);
    rule("operands are used as they are declared", &Audit::directions);
    rule("tiles fit into local memory, and blocks keep their contract", &Audit::blocks);
    rule("operands are bound to their own tensors", &Audit::operand_names);
    rule("every byte that is read was written, or is an input", &Audit::initialised);
    rule("every tensor is an operand of a task", &Audit::unused_tensors);
    if (!declared_.empty()) rule("the graph has the edges it declares", &Audit::producers);
    return std::move(report_);
  }

 private:
  void rule(const char* name, void (Audit::*check)()) {
    examined_ = 0;
    const std::size_t findings = report_.findings.size();
    (this->*check)();
    const bool is_silent = report_.findings.size() == findings;
    report_.properties.push_back(
        {.name = name,
         .verdict = is_silent ? Verdict::kPass : report_.findings[findings].verdict,
         .examined = fmt::format("{} {}", examined_, what_)});
  }

  Finding& add(Verdict verdict, const char* id, const Task* task, std::string cause) {
    Finding f{.verdict = verdict, .rule = id, .cause = std::move(cause)};
    f.location = fmt::format("graph {}", graph_.name());
    if (task != nullptr) f.location += ", " + task_text(*task);
    report_.findings.push_back(std::move(f));
    return report_.findings.back();
  }

  void sync_start() {
    what_ = "grids with barriers";
    for (const Task& task : graph_.tasks()) {
      if (task.bound.meetings.empty()) continue;
      ++examined_;
      if (task.launch.sync_start) continue;
      const std::int64_t lanes = task.bound.lanes;
      Finding& f =
          add(Verdict::kResidency, "audit/sync-start", &task,
              fmt::format("{} lanes of {} wait for each other at barriers, and nothing makes "
                          "them resident together: sync_start isn't set",
                          lanes, task_text(task)));
      if (task.launch.allow_early_resolve) {
        f.evidence.push_back(
            {"allow_early_resolve", "is set, and gives no residency: it is a hint"});
      }
      f.timeline = {
          fmt::format("another task holds one of the {} cores that the lanes need", lanes),
          fmt::format("lanes 0 to {} start, arrive at barrier 0 and wait on their cores",
                      lanes - 2),
          fmt::format("lane {} has no core; if the other task is a grid that waits as well, it "
                      "never gets one",
                      lanes - 1)};
      f.advice = "launch it with sync_start";
    }
  }

  void workspaces() {
    what_ = "workspaces";
    std::map<std::uint32_t, const Task*> users;  // By tensor: the last grid that counts in it.
    for (const Task& task : graph_.tasks()) {
      const Tensor* workspace = task.bound.workspace.tensor;
      if (task.bound.barrier == Barrier::kNone || workspace == nullptr) continue;
      ++examined_;
      if (workspace->initial != 0.0) {
        add(Verdict::kWorkspaceInit, "audit/workspace-zero", &task,
            fmt::format(
                "tensor \"{}\", the workspace of {}, starts at {} in every run: barriers count "
                "from 0",
                workspace->name, task_text(task),
                workspace->initial ? fmt::format("{}", *workspace->initial)
                                   : std::string("whatever it held before")))
            .advice = "make the tensor with .initial = 0";
      }
      const auto operand = std::ranges::find_if(
          task.operands, [&](const OperandUse& use) { return use.region.tensor == workspace->id; });
      if (operand != task.operands.end() && operand->direction != Direction::kInOut) {
        add(Verdict::kDirection, "audit/workspace-inout", &task,
            fmt::format("operand {}, the workspace, is declared {}: every lane reads and writes it",
                        operand->name, name(operand->direction)))
            .advice = "declare it InOut";
      }
      const auto [it, is_first] = users.emplace(workspace->id.value, &task);
      if (is_first) continue;
      const bool are_ordered = order_.has_path(it->second->id, task.id);
      add(are_ordered ? Verdict::kWorkspaceInit : Verdict::kPrematureRelease,
          "audit/workspace-private", &task,
          are_ordered
              ? fmt::format("{} counts in tensor \"{}\" after {} has: it doesn't start from 0",
                            task_text(task), workspace->name, task_text(*it->second))
              : fmt::format("{} and {} may run at the same time and count in one workspace, tensor "
                            "\"{}\": an arrival of one releases lanes of the other",
                            task_text(*it->second), task_text(task), workspace->name))
          .advice = "give each grid a workspace of its own";
      it->second = &task;
    }
  }

  void directions() {
    what_ = "operands";
    for (const TaskRecord& record : record_.tasks) {
      const Task& task = graph_.task(record.task);
      if (task.is_dummy()) continue;
      for (std::size_t i = 0; i < task.operands.size(); ++i) {
        ++examined_;
        if (task.operands[i].direction != Direction::kIn) continue;
        ByteSet written;
        for (const auto& phase : record.phases) {
          for (const BlockFootprint& block : phase) {
            for (const AccessRecord& a : block.accesses) {
              const bool is_this = a.access.tensor->id == task.operands[i].region.tensor;
              if (is_this && writes_memory(a.kind)) written.add(a.access.region);
            }
          }
        }
        ByteSet operand;
        operand.add(task.operands[i].region);
        const ByteSet bytes = written.intersection(operand);
        if (bytes.empty()) continue;
        Finding& f = add(
            Verdict::kDirection, "audit/directions", &task,
            fmt::format("operand {}, {}, is declared In and is written", i, task.operands[i].name));
        f.evidence.push_back({"bytes", to_string(bytes)});
        f.advice = "declare it Out or InOut";
      }
    }
  }

  void blocks() {
    what_ = "blocks";
    for (const TaskRecord& record : record_.tasks) {
      const Task& task = graph_.task(record.task);
      for (const auto& phase : record.phases) {
        for (const BlockFootprint& block : phase) {
          ++examined_;
          for (const Violation& v : block.violations) {
            add(Verdict::kAbi, "audit/tile-contract", &task, v.text);
          }
          if (record.grid && block.local_high_water > kScratch) {
            Finding& f =
                add(Verdict::kLocalOverlap, "audit/local-memory", &task,
                    fmt::format("tiles of block {} end at byte {} of local memory, inside the "
                                "barrier's scratch",
                                block.block, block.local_high_water));
            f.evidence = {
                {"tiles", fmt::format("[0, {})", block.local_high_water)},
                {"scratch", fmt::format("[{}, {})", kScratch, kScratch + 32 * task.bound.lanes)}};
            f.advice = "use smaller tiles";
          }
        }
      }
    }
  }

  // Tensors are often named after the operand they are made for; two that stand in each other's
  // place were swapped in the launch.
  void operand_names() {
    what_ = "operands";
    for (const Task& task : graph_.tasks()) {
      if (task.is_dummy()) continue;
      for (std::size_t i = 0; i < task.operands.size(); ++i) {
        ++examined_;
        for (std::size_t j = i + 1; j < task.operands.size(); ++j) {
          const std::string& a = graph_.tensor_of(task.operands[i].region.tensor).name;
          const std::string& b = graph_.tensor_of(task.operands[j].region.tensor).name;
          if (a != task.operands[j].name || b != task.operands[i].name || a == b) continue;
          add(Verdict::kAbi, "audit/operand-names", &task,
              fmt::format("operand {}, {}, is bound to tensor \"{}\" and operand {}, {}, to tensor "
                          "\"{}\"",
                          i, task.operands[i].name, a, j, task.operands[j].name, b))
              .advice = "pass the arguments in the kernel's order";
        }
      }
    }
  }

  void initialised() {
    what_ = "reads";
    std::map<std::uint32_t, ByteSet> written;  // By tensor.
    for (const TaskRecord& record : record_.tasks) {
      const Task& task = graph_.task(record.task);
      for (const TensorBytes& bytes : record.bytes.entries()) {
        const Tensor& tensor = *bytes.tensor;
        const bool is_given = tensor.initial || tensor.external ||
                              std::ranges::find(inputs_, tensor.name) != inputs_.end();
        if (bytes.reads.empty() || is_given) continue;
        ++examined_;
        // A grid may read what it has written itself: the order inside is another check's.
        ByteSet known = written[tensor.id.value];
        if (record.grid) known.add(bytes.writes);
        ByteSet missing = bytes.reads.without(known);
        if (task.is_dummy() || missing.empty()) continue;
        if (!record.grid) missing = missing.without(written_before_read(record, tensor));
        if (missing.empty()) continue;
        Finding& f = add(Verdict::kUninitialisedRead, "audit/initialised", &task,
                         fmt::format("{} reads bytes of tensor \"{}\" that no task wrote",
                                     task_text(task), tensor.name));
        f.evidence.push_back({"bytes", to_string(missing)});
        f.advice = "give the tensor an initial value, or write it first";
      }
      for (const TensorBytes& bytes : record.bytes.entries()) {
        written[bytes.tensor->id.value].add(bytes.writes);
      }
    }
  }

  // What the blocks of a plain task write before they read it themselves.
  static ByteSet written_before_read(const TaskRecord& record, const Tensor& tensor) {
    ByteSet all;
    for (const auto& phase : record.phases) {
      for (const BlockFootprint& block : phase) {
        ByteSet written;
        for (const AccessRecord& a : block.accesses) {
          if (a.access.tensor->id != tensor.id) continue;
          ByteSet bytes;
          bytes.add(a.access.region);
          if (reads_memory(a.kind)) all.add(bytes.intersection(written));
          if (writes_memory(a.kind)) written.add(bytes);
        }
      }
    }
    return all;
  }

  void unused_tensors() {
    what_ = "tensors";
    std::set<std::uint32_t> used;
    for (const Task& task : graph_.tasks()) {
      for (const OperandUse& use : task.operands) used.insert(use.region.tensor.value);
    }
    for (const Tensor& tensor : graph_.tensors()) {
      ++examined_;
      const bool is_input = std::ranges::find(inputs_, tensor.name) != inputs_.end();
      if (is_input || used.contains(tensor.id.value)) continue;
      add(Verdict::kUnusedTensor, "audit/unused-tensor", nullptr,
          fmt::format("tensor \"{}\" {} is an operand of no task", tensor.name,
                      to_string(tensor.shape)))
          .advice = "remove it, or pass it to the task it was made for";
    }
  }

  void producers() {
    what_ = "declared tasks";
    for (const DeclaredProducers& declared : declared_) {
      const auto task = std::ranges::find(graph_.tasks(), declared.task, &Task::name);
      if (task == graph_.tasks().end()) continue;
      ++examined_;
      std::map<std::string, const Edge*> found;
      for (const Edge& edge : graph_.edges()) {
        if (edge.to == task->id) found.emplace(graph_.task(edge.from).name, &edge);
      }
      for (const std::string& producer : declared.producers) {
        if (found.contains(producer)) continue;
        add(Verdict::kEdgeMissing, "audit/producers", &*task,
            fmt::format("{} has no edge from \"{}\", which it declares", task_text(*task),
                        producer))
            .advice = "name that task among its explicit dependencies";
      }
      if (!declared.exact) continue;
      for (const auto& [producer, edge] : found) {
        if (std::ranges::find(declared.producers, producer) != declared.producers.end()) continue;
        Finding& f = add(Verdict::kEdgeSurplus, "audit/producers", &*task,
                         fmt::format("{} has an edge from \"{}\", which it doesn't declare",
                                     task_text(*task), producer));
        f.evidence = {{"edge", edge->hazard == Hazard::kExplicit
                                   ? std::string("explicit")
                                   : fmt::format("{} on tensor {}", name(edge->hazard),
                                                 graph_.tensor_of(edge->tensor).name)},
                      {"declared", fmt::format("{}", fmt::join(declared.producers, ", "))}};
        f.advice = "make the tensor manual_dep, or drop the dependency";
      }
    }
  }

  const Graph& graph_;
  const GraphRecord& record_;
  const std::vector<std::string>& inputs_;
  const std::vector<DeclaredProducers>& declared_;
  Order order_;
  Report report_;
  std::int64_t examined_ = 0;
  const char* what_ = "";
};

}  // namespace

Report audit_submissions(const Graph& graph) {
  Report report{.subject = graph.name()};
  for (const Refusal& refusal : graph.refusals()) {
    report.findings.push_back(
        {.verdict = verdict_of(refusal.kind),
         .rule = "audit/submission",
         .cause = refusal.message,
         .location = fmt::format("graph {}, task #{}", graph.name(), refusal.task.value)});
  }
  report.properties.push_back(
      {.name = "every submission can be run",
       .verdict = report.findings.empty() ? Verdict::kPass : report.findings.front().verdict,
       .examined = fmt::format("{} tasks", graph.tasks().size())});
  return report;
}

Report audit(const Graph& graph, const GraphRecord& record, const std::vector<std::string>& inputs,
             const std::vector<DeclaredProducers>& declared) {
  return Audit(graph, record, inputs, declared).run();
}

}  // namespace cohort::check
