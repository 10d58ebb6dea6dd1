#include "cohort/inject/mistakes.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>

#include <fmt/format.h>

namespace cohort::inject {
namespace {

using Kind = LaneEvent::Kind;

// An edit of one task.
Graph edited(const Graph& graph, TaskId task, const std::function<void(TaskDraft&)>& edit) {
  return graph.rewritten({.task = [&](TaskDraft& draft) {
    if (draft.id == task) edit(draft);
  }});
}

// An ArgsType like `type` with another direction for one operand. Lives as long as the program:
// tasks refer to their types.
const ArgsType& with_direction(const ArgsType& type, std::size_t operand, Direction direction) {
  static std::deque<std::vector<OperandInfo>> tables;
  static std::deque<ArgsType> types;
  std::vector<OperandInfo>& table = tables.emplace_back(type.table.begin(), type.table.end());
  table[operand].direction = direction;
  ArgsType& changed = types.emplace_back(type);
  changed.table = table;
  return changed;
}

class Catalogue {
 public:
  explicit Catalogue(const Graph& graph) : graph_(graph) {
    for (const Task& task : graph.tasks()) {
      if (!task.bound.meetings.empty() && task.bound.barrier != Barrier::kHard) {
        fused_ = &task;
        break;
      }
    }
  }

  std::vector<Mistake> all() && {
    if (fused_ != nullptr) {
      launches();
      sequences();
      workspaces();
      operands();
    }
    orders();
    clamped();
    std::stable_sort(all_.begin(), all_.end(),
                     [](const Mistake& a, const Mistake& b) { return a.id < b.id; });
    return std::move(all_);
  }

 private:
  const Tensor& workspace() const { return *fused_->bound.workspace.tensor; }
  std::size_t workspace_operand() const {
    return static_cast<std::size_t>(fused_->kernel->args_type->tensors() - 1);
  }

  void add(Mistake mistake) { all_.push_back(std::move(mistake)); }

  // A change of the fused task's launch or kernel.
  void launch(std::string id, std::string what, Verdict expected, std::vector<std::string> names,
              std::function<void(TaskDraft&)> edit, std::vector<Verdict> consequences = {}) {
    add({.id = std::move(id),
         .what = std::move(what),
         .expected = expected,
         .names = std::move(names),
         .consequences = std::move(consequences),
         .graph = [task = fused_->id, edit = std::move(edit)](const Graph& g) {
           return edited(g, task, edit);
         }});
  }

  // A change of what the lanes of the fused grid did.
  void sequence(std::string id, std::string what, Verdict expected, std::vector<std::string> names,
                std::function<void(GridRecord&)> edit, std::vector<Verdict> consequences = {}) {
    add({.id = std::move(id),
         .what = std::move(what),
         .expected = expected,
         .names = std::move(names),
         .consequences = std::move(consequences),
         .record = [task = fused_->id, edit = std::move(edit)](GraphRecord& record) {
           edit(*record.tasks[task.value].grid);
         }});
  }

  void launches() {
    const std::int64_t lanes = fused_->bound.lanes;
    if (fused_->bound.barrier == Barrier::kSlot) {
      launch("M01", "participants are the sum of the phases, not the largest", Verdict::kLayout,
             {"13 participants", "word 64"}, [](TaskDraft& t) { t.launch.lanes = 13; });
    }
    launch("M02", "a barrier over all 48 cores, launched on the grid's own lanes",
           Verdict::kDeadlock, {fmt::format("{} arrivals can never come", 48 - lanes)},
           [lanes](TaskDraft& t) {
             t.kernel->barrier = Barrier::kHard;
             t.kernel->vector_cores = 48;
             t.launch.lanes = lanes;
           });
    launch("M04", "sync_start is missing", Verdict::kResidency, {"sync_start isn't set"},
           [](TaskDraft& t) {
             t.launch.sync_start = false;
             t.launch.allow_early_resolve = false;
           });
    launch("M26", "allow_early_resolve in place of sync_start", Verdict::kResidency,
           {"gives no residency"}, [](TaskDraft& t) {
             t.launch.sync_start = false;
             t.launch.allow_early_resolve = true;
           });
    launch("M32", "a hard barrier that counts cores of two kinds, in a grid of one",
           Verdict::kDeadlock, {"24 arrivals can never come"}, [](TaskDraft& t) {
             t.kernel->barrier = Barrier::kHard;
             t.kernel->vector_cores = 72;
             t.launch.lanes = 48;
           });
  }

  // The first clean before, or invalidate after, a barrier in each lane that has one.
  static void remove_maintenance(GridRecord& grid, Kind kind, std::size_t barrier) {
    for (auto& lane : grid.lanes) {
      const auto meeting = std::find_if(lane.begin(), lane.end(), [&](const LaneEvent& e) {
        return e.kind == Kind::kArrive && e.barrier == barrier;
      });
      if (meeting == lane.end()) continue;
      const auto at = static_cast<std::size_t>(meeting - lane.begin());
      std::size_t from = at;
      std::size_t to = at;
      if (kind == Kind::kClean) {
        while (from > 0 && lane[from - 1].kind != Kind::kLeave) --from;
      } else {
        while (to < lane.size() && (to == at || lane[to].kind != Kind::kArrive)) ++to;
      }
      std::vector<LaneEvent> kept;
      for (std::size_t i = 0; i < lane.size(); ++i) {
        if (i < from || i >= to || lane[i].kind != kind) kept.push_back(lane[i]);
      }
      lane = std::move(kept);
    }
  }

  struct HandOn {
    const Tensor* tensor = nullptr;
    std::size_t writer = 0;  // Lane.
  };
  // What the lanes publish at a barrier, and a lane that does.
  std::optional<HandOn> published(const FusionPlan& plan, std::size_t barrier) const {
    for (std::size_t l = 0; l < plan.barriers[barrier].size(); ++l) {
      for (const LineRange& range : plan.barriers[barrier][l].publish) {
        if (!range.lines.empty()) return HandOn{range.tensor, l};
      }
    }
    return std::nullopt;
  }
  static bool has_acquire(const FusionPlan& plan, std::size_t barrier) {
    return std::ranges::any_of(plan.barriers[barrier], [](const LaneMaintenance& lane) {
      return lane.acquire_lines() > 0;
    });
  }

  void sequences() {
    const Result<FusionPlan> plan = plan_fusion(fused_->bound);
    COHORT_CHECK(plan.has_value(), "a fused task that can't be planned was submitted");
    const auto lanes = static_cast<std::size_t>(fused_->bound.lanes);
    const std::size_t last = lanes - 1;

    if (lanes > 1) {
      sequence("M03", "lanes take the core's number for their index", Verdict::kIdentity,
               {"slot 0 counts the arrivals of lane 0, 1"},
               [slots = fused_->bound.barrier == Barrier::kSlot](GridRecord& grid) {
                 for (LaneEvent& e : grid.lanes[1]) {
                   if (e.kind == Kind::kArrive && slots) e.word -= 8;
                 }
               });
      if (fused_->bound.barrier != Barrier::kSlot) all_.pop_back();
      sequence("M05", "a lane without work returns before the barriers", Verdict::kDeadlock,
               {fmt::format("lane {} never arrives", last)},
               [last](GridRecord& grid) { grid.lanes[last].clear(); },
               {Verdict::kUninitialisedRead, Verdict::kStaleRead});
      sequence("M14", "a lane gives up waiting", Verdict::kIncompleteBarrier,
               {fmt::format("lane {} gives up waiting at barrier 0", last)},
               [last](GridRecord& grid) {
                 for (LaneEvent& e : grid.lanes[last])
                   e.gave_up |= e.kind == Kind::kLeave && e.barrier == 0;
               });
    }
    if (fused_->bound.barrier == Barrier::kSlot && lanes == 8) {
      sequence("M20", "slots 16 words apart in the kernel, 8 in the launch", Verdict::kLayout,
               {"lane 4 counts its arrival in word 64"},
               [](GridRecord& grid) {
                 for (std::size_t l = 0; l < grid.lanes.size(); ++l) {
                   for (LaneEvent& e : grid.lanes[l]) {
                     if (e.kind == Kind::kArrive) e.word = 16 * static_cast<std::int64_t>(l);
                   }
                 }
               },
               {Verdict::kIdentity});
    }
    if (lanes > 1 && fused_->bound.meetings.size() > 1) {
      sequence("M30", "a loop that holds a barrier is run a different number of times",
               Verdict::kDivergence,
               {fmt::format("lane {} comes to barrier 1 without barrier 0", last)},
               [last](GridRecord& grid) {
                 std::erase_if(grid.lanes[last], [](const LaneEvent& e) {
                   return (e.kind == Kind::kArrive || e.kind == Kind::kLeave) && e.barrier == 0;
                 });
               },
               {Verdict::kDeadlock, Verdict::kStaleRead, Verdict::kRace});
    }
    char letter = 'a';
    for (std::size_t k = 0; k < fused_->bound.meetings.size(); ++k) {
      const auto hand_on = published(*plan, k);
      if (hand_on) {
        sequence(fmt::format("M06{}", letter), fmt::format("barrier {} is taken for a publish", k),
                 Verdict::kStaleRead,
                 {hand_on->tensor->name, fmt::format("lane {}", hand_on->writer), "publish"},
                 [k](GridRecord& grid) { remove_maintenance(grid, Kind::kClean, k); });
      }
      ++letter;
      if (hand_on && has_acquire(*plan, k)) {
        sequence(fmt::format("M06{}", letter), fmt::format("barrier {} is taken for an acquire", k),
                 Verdict::kStaleRead, {hand_on->tensor->name, "acquire"},
                 [k](GridRecord& grid) { remove_maintenance(grid, Kind::kInvalidate, k); });
      }
      ++letter;
    }
    if (const auto hand_on = published(*plan, 0)) {
      const std::size_t writer = hand_on->writer;
      const Tensor* tensor = hand_on->tensor;
      sequence("M15", "a lane arrives before its stores are drained", Verdict::kStaleRead,
               {tensor->name, "the store is in flight"}, [writer](GridRecord& grid) {
                 auto& lane = grid.lanes[writer];
                 lane.erase(std::find_if(lane.begin(), lane.end(), [](const LaneEvent& e) {
                   return e.kind == Kind::kDrain;
                 }));
               });
      sequence("M16", "only the first of several lines is published", Verdict::kStaleRead,
               {tensor->name, "publish"}, [writer, tensor](GridRecord& grid) {
                 for (LaneEvent& e : grid.lanes[writer]) {
                   if (e.kind != Kind::kClean || e.tensor->id != tensor->id) continue;
                   const std::int64_t begin = e.bytes.intervals().front().begin;
                   e.bytes = {};
                   e.bytes.add(ByteSet::Interval{begin, begin + kLineBytes});
                 }
               });
      if (plan->barriers[0][writer].publish_lines() < 2) all_.pop_back();
    }
    strided_publish(*plan);
    shared_line(*plan);
    local_memory();
  }

  // A block's rows published as the one range that holds them.
  void strided_publish(const FusionPlan& plan) {
    for (std::size_t k = 0; k < plan.barriers.size(); ++k) {
      for (std::size_t l = 0; l < plan.barriers[k].size(); ++l) {
        for (const LineRange& range : plan.barriers[k][l].publish) {
          if (range.lines.intervals().size() < 2) continue;
          sequence(
              "M17", "a block's rows are published as one range", Verdict::kForeignLine,
              {range.tensor->name, fmt::format("lane {} cleans", l)},
              [k, l, tensor = range.tensor](GridRecord& grid) {
                std::size_t barrier = 0;
                for (LaneEvent& e : grid.lanes[l]) {
                  if (e.kind == Kind::kLeave) barrier = e.barrier + 1;
                  if (e.kind != Kind::kClean || e.tensor->id != tensor->id || barrier != k)
                    continue;
                  const auto& intervals = e.bytes.intervals();
                  e.bytes.add(ByteSet::Interval{intervals.front().begin, intervals.back().end});
                }
              });
          return;
        }
      }
    }
  }

  // An output of which several lanes write a few bytes in one line, stored through the data cache.
  void shared_line(const FusionPlan& plan) {
    if (plan.shared_lines.empty()) return;
    const Tensor* tensor = plan.shared_lines.front().tensor;
    sequence("M18", "an output that lanes share a line of goes through the data cache",
             Verdict::kLostUpdate, {tensor->name}, [tensor](GridRecord& grid) {
               for (auto& lane : grid.lanes) {
                 for (LaneEvent& e : lane) {
                   if (e.kind == Kind::kAccess && e.tensor->id == tensor->id &&
                       writes_memory(e.access)) {
                     e.access = AccessKind::kPut;
                   }
                 }
               }
             });
  }

  void local_memory() {
    const std::pair<const char*, std::int64_t> kEnds[] = {{"M19a", 177 * 1024},
                                                          {"M19b", 186 * 1024}};
    for (const auto& [id, end] : kEnds) {
      add({.id = id,
           .what = std::string(id) == "M19a" ? "tiles reach into the barrier's scratch"
                                             : "tiles reach into the space the library reserves",
           .expected = Verdict::kLocalOverlap,
           .names = {fmt::format("byte {}", end)},
           .record = [task = fused_->id, end = end](GraphRecord& record) {
             for (auto& phase : record.tasks[task.value].phases) {
               for (BlockFootprint& block : phase) {
                 block.local_high_water = end;
                 return;
               }
             }
           }});
    }
  }

  void workspaces() {
    add({.id = "M07",
         .what = "two grids that may run together count in one workspace",
         .expected = Verdict::kPrematureRelease,
         .names = {workspace().name, fused_->name},
         .consequences = {Verdict::kRace, Verdict::kUnusedTensor},
         .graph = [task = fused_->id, name = workspace().name](const Graph& g) {
           return with_second_grid(g, task, name);
         }});
    for (const auto& [id, direction] :
         {std::pair{"M08a", Direction::kIn}, std::pair{"M08b", Direction::kOut}}) {
      launch(id, fmt::format("the workspace is declared {}", name(direction)), Verdict::kDirection,
             {fmt::format("is declared {}", name(direction))},
             [operand = workspace_operand(), direction = direction](TaskDraft& t) {
               t.args_type = &with_direction(*t.args_type, operand, direction);
               t.kernel->args_type = t.args_type;
             },
             {Verdict::kUninitialisedRead});
    }
    add({.id = "M09",
         .what = "a handle is used again after it was passed as InOut",
         .expected = Verdict::kInoutReuse,
         .names = {workspace().name, fused_->name, "again_user"},
         .graph = [name = workspace().name](const Graph& g) {
           Graph wrong = g.rewritten({});
           ViewFields old = *wrong.find<std::int32_t>(name);
           old.version = 0;
           wrong.dummy("again_user", {{name, Direction::kIn, old, DType::kInt32}});
           return wrong;
         }});
    add({.id = "M21a",
         .what = "the workspace starts at 1",
         .expected = Verdict::kWorkspaceInit,
         .names = {workspace().name, "starts at 1"},
         .graph = [name = workspace().name](const Graph& g) {
           return g.rewritten({.tensor = [&](const Tensor& t, TensorOptions& options) {
             if (t.name == name) options.initial = 1;
           }});
         }});
  }

  // The fused task once more, on outputs of its own, counting in the same workspace.
  static Graph with_second_grid(const Graph& g, TaskId task, const std::string& workspace) {
    Graph wrong = g.rewritten({.tensor = [&](const Tensor& t, TensorOptions& options) {
      options.manual_dep = options.manual_dep || t.name == workspace;
    }});
    const Task& first = wrong.task(task);
    const ArgsType& type = *first.kernel->args_type;
    const KernelRef kernel = *first.kernel;
    Launch launch = first.launch;
    const std::shared_ptr<void> args = type.clone(first.args.get());
    for (std::size_t i = 0; i < type.table.size(); ++i) {
      if (!type.table[i].is_tensor()) continue;
      ViewFields& view = type.tensor(args.get(), i);
      const Tensor& tensor = *view.tensor;
      if (tensor.name == workspace) {
        view.version = wrong.find<std::int32_t>(workspace)->version;
      } else if (type.table[i].direction == Direction::kOut) {
        const std::int64_t offset = static_cast<std::byte*>(view.data) - tensor.data;
        const ViewFields fresh =
            wrong.add_tensor("second_" + tensor.name, tensor.dtype, tensor.shape, {});
        view.tensor = fresh.tensor;
        view.data = static_cast<std::byte*>(fresh.data) + offset;
        view.version = 0;
      }
    }
    wrong.add_task(kernel, type, args.get(), launch);
    return wrong;
  }

  void operands() {
    const ArgsType& type = *fused_->kernel->args_type;
    for (std::size_t i = 0; i < fused_->operands.size(); ++i) {
      for (std::size_t j = i + 1; j < fused_->operands.size(); ++j) {
        const Tensor& a = graph_.tensor_of(fused_->operands[i].region.tensor);
        const Tensor& b = graph_.tensor_of(fused_->operands[j].region.tensor);
        const bool are_alike = type.table[i].direction == Direction::kOut &&
                               type.table[j].direction == Direction::kOut && a.dtype == b.dtype &&
                               a.shape == b.shape && a.name == fused_->operands[i].name &&
                               b.name == fused_->operands[j].name;
        if (!are_alike) continue;
        launch("M24", "two outputs are swapped in the launch", Verdict::kAbi, {a.name, b.name},
               [i, j](TaskDraft& t) {
                 ViewFields& x = t.args_type->tensor(t.args.get(), i);
                 ViewFields& y = t.args_type->tensor(t.args.get(), j);
                 std::swap(x, y);
               });
        return;
      }
    }
  }

  // A consumer that is ordered behind a producer by the bytes of some tensors, the first of which
  // it reads in this run.
  struct DataEdge {
    const Task* from = nullptr;
    const Task* to = nullptr;
    const Tensor* tensor = nullptr;
    std::vector<TensorId> all = {};
  };

  DataEdge data_edge(const Edge& e) const {
    DataEdge edge{&graph_.task(e.from), &graph_.task(e.to), &graph_.tensor_of(e.tensor)};
    for (const Edge& other : graph_.edges()) {
      const bool is_data = other.hazard != Hazard::kExplicit;
      if (is_data && other.from == e.from && other.to == e.to) edge.all.push_back(other.tensor);
    }
    return edge;
  }

  // Whether `to` is still behind `from` if those tensors make no edges and `to` names no
  // dependency.
  bool is_ordered_otherwise(const DataEdge& edge) const {
    std::vector<bool> reached(graph_.tasks().size());
    reached[edge.to->id.value] = true;
    for (auto it = graph_.edges().rbegin(); it != graph_.edges().rend(); ++it) {
      if (!reached[it->to.value]) continue;
      const bool is_explicit = it->hazard == Hazard::kExplicit;
      if (!is_explicit && std::ranges::find(edge.all, it->tensor) != edge.all.end()) continue;
      if (is_explicit && it->to == edge.to->id) continue;
      reached[it->from.value] = true;
    }
    return reached[edge.from->id.value];
  }

  void orders() {
    bool has_manual = false;
    for (const Tensor& t : graph_.tensors()) has_manual = has_manual || t.manual_dep;
    if (fused_ != nullptr && has_manual) {
      add({.id = "M10a",
           .what = "a later task keeps the edges that explicit ones replace",
           .expected = Verdict::kEdgeSurplus,
           .names = {"doesn't declare"},
           .graph = [](const Graph& g) {
             return g.rewritten({.tensor = [](const Tensor&, TensorOptions& options) {
               options.manual_dep = false;
             }});
           }});
    }
    std::optional<DataEdge> plain;
    std::optional<DataEdge> behind_fused;
    const Graph run = graph_.rewritten({});
    const GraphRecord recorded = record_graph(run);
    for (const Edge& e : graph_.edges()) {
      if (e.hazard != Hazard::kReadAfterWrite) continue;
      const DataEdge edge = data_edge(e);
      // Only an edge that this run needs: whose consumer reads what its producer wrote.
      const TensorBytes* written = recorded.tasks[e.from.value].bytes.find(e.tensor);
      const TensorBytes* read = recorded.tasks[e.to.value].bytes.find(e.tensor);
      if (written == nullptr || read == nullptr || !written->writes.meets(read->reads)) continue;
      if (edge.to->is_dummy() || is_ordered_otherwise(edge)) continue;
      if (edge.from == fused_ && !behind_fused) behind_fused = edge;
      if (edge.from != fused_ && !plain) plain = edge;
    }
    const auto lost = [&](std::string id, std::string what, const DataEdge& edge, Verdict expected,
                          std::vector<std::string> names) {
      add({.id = std::move(id),
           .what = std::move(what),
           .expected = expected,
           .names = std::move(names),
           .consequences = {Verdict::kRace, Verdict::kEdgeMissing},
           .graph = [tensors = edge.all, to = edge.to->id](const Graph& g) {
             return g.rewritten({.tensor =
                                     [&](const Tensor& t, TensorOptions& options) {
                                       const bool is_one =
                                           std::ranges::find(tensors, t.id) != tensors.end();
                                       options.manual_dep = options.manual_dep || is_one;
                                     },
                                 .task =
                                     [&](TaskDraft& t) {
                                       if (t.id == to) t.launch.deps.clear();
                                     }});
           }});
    };
    if (behind_fused) {
      lost("M10b", "a consumer lost its edge to the fused task", *behind_fused,
           Verdict::kEdgeMissing, {behind_fused->to->name, fused_->name});
      lost("M29", "a consumer is started early and reads before its gate", *behind_fused,
           Verdict::kRace, {behind_fused->to->name, fused_->name, behind_fused->tensor->name});
    }
    if (plain) {
      lost("M22", "a manual_dep tensor's replacement path is missing", *plain, Verdict::kRace,
           {plain->to->name, plain->from->name, plain->tensor->name});
      add({.id = "M25",
           .what = "a task accumulates into memory that nobody wrote",
           .expected = Verdict::kUninitialisedRead,
           .names = {plain->tensor->name, plain->to->name},
           .record = [from = plain->from->id, tensor = plain->tensor](GraphRecord& record) {
             TensorBytesMap kept;
             for (const TensorBytes& t : record.tasks[from.value].bytes.entries()) {
               TensorBytes& bytes = kept.at(*t.tensor);
               bytes.reads = t.reads;
               if (t.tensor->id != tensor->id) bytes.writes = t.writes;
             }
             record.tasks[from.value].bytes = std::move(kept);
           }});
    }
    add({.id = "M31",
         .what = "a second workspace is left in the graph",
         .expected = Verdict::kUnusedTensor,
         .names = {"sync_workspace_of_before"},
         .graph = [](const Graph& g) {
           Graph wrong = g.rewritten({});
           wrong.add_tensor("sync_workspace_of_before", DType::kInt32, {64}, {.initial = 0});
           return wrong;
         }});
  }

  // No mistake: every kernel clamps its number of tokens.
  void clamped() {
    const std::pair<const char*, double> kValues[] = {
        {"M28a", -3.0}, {"M28b", 1e6}, {"M28c", std::numeric_limits<std::int32_t>::max()}};
    Graph probe = graph_.rewritten({});
    for (const auto& [id, value] : kValues) {
      if (!probe.set_scalar("num_tokens", value)) return;
      add({.id = id,
           .what = fmt::format("num_tokens is {:.0f}", value),
           .expected = Verdict::kPass,
           .graph = [value = value](const Graph& g) {
             Graph other = g.rewritten({});
             const Status status = other.set_scalar("num_tokens", value);
             COHORT_CHECK(status.has_value(), "num_tokens was settable before");
             return other;
           }});
    }
  }

  const Graph& graph_;
  const Task* fused_ = nullptr;
  std::vector<Mistake> all_;
};

}  // namespace

std::vector<Mistake> mistakes_for(const Graph& graph) { return Catalogue(graph).all(); }

}  // namespace cohort::inject
