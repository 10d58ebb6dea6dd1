#include "cohort/graph/graph.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "cohort/base/check.h"
#include "cohort/base/strings.h"

namespace cohort {
namespace {

std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

std::string task_text(TaskId id, std::string_view name) {
  return "task #" + std::to_string(id.value) + " " + quoted(name);
}

std::string operand_text(std::size_t index, std::string_view name) {
  return "operand " + std::to_string(index) + ", " + std::string(name);
}

bool writes_to(Direction direction) {
  return direction == Direction::kOut || direction == Direction::kInOut ||
         direction == Direction::kWindow;
}
bool reads_from(Direction direction) { return direction != Direction::kOut; }

template <class T>
bool store_integer(double value, void* slot) {
  // The bounds as doubles are exact powers of two; the upper one is one past the largest value.
  const double low = static_cast<double>(std::numeric_limits<T>::min());
  if (!(value >= low && value < -low && value == static_cast<double>(static_cast<T>(value)))) {
    return false;
  }
  const T converted = static_cast<T>(value);
  std::memcpy(slot, &converted, sizeof converted);
  return true;
}

bool store_scalar(DType dtype, double value, void* slot) {
  switch (dtype) {
    case DType::kFloat64:
      std::memcpy(slot, &value, sizeof value);
      return true;
    case DType::kFloat32: {
      const auto converted = static_cast<float>(value);
      std::memcpy(slot, &converted, sizeof converted);
      return true;
    }
    case DType::kInt64:
      return store_integer<std::int64_t>(value, slot);
    case DType::kInt32:
      return store_integer<std::int32_t>(value, slot);
    default:
      return false;
  }
}

// The whole of a tensor at one version.
ViewFields whole(const Tensor& tensor, std::size_t version) {
  return {.tensor = &tensor,
          .data = tensor.data,
          .row_count = tensor.rows(),
          .col_count = tensor.cols(),
          .pitch = tensor.cols(),
          .version = static_cast<std::uint32_t>(version)};
}

// What the kernel's phases say of these arguments. Asked before they are bound: blocks() may rely
// on what validate() promises.
Status validate_phases(const KernelRef& kernel, const std::shared_ptr<const void>& args) {
  for (const Phase& phase : kernel.phases) {
    if (phase.body.validate == nullptr) continue;
    const std::shared_ptr<const void> own = phase.project ? phase.project(args.get()) : args;
    COHORT_TRY_STATUS(phase.body.validate(own.get()));
  }
  return {};
}

}  // namespace

// A live access to a tensor by an earlier task.
struct Graph::Access {
  TaskId task;
  Region region;
  Direction direction;
};

struct Graph::TensorState {
  struct Consumer {
    TaskId task;
    std::string task_name;
    std::size_t operand;
    std::string operand_name;
  };
  std::vector<Access> live;
  std::vector<Consumer> consumers;  // consumers[v] consumed version v; their number is the version.
};

std::string_view name(Hazard hazard) {
  switch (hazard) {
    case Hazard::kExplicit:
      return "explicit";
    case Hazard::kReadAfterWrite:
      return "RAW";
    case Hazard::kWriteAfterWrite:
      return "WAW";
    case Hazard::kWriteAfterRead:
      return "WAR";
  }
  return "";
}

ViewFields Submission::updated(std::string_view operand, DType dtype) const {
  for (const Updated& u : updated_) {
    if (u.operand != operand) continue;
    COHORT_CHECK(u.view.tensor == nullptr || u.view.tensor->dtype == dtype,
                 "InOut operand " + quoted(operand) + " has another element type");
    return u.view;
  }
  COHORT_CHECK(false, "the task has no InOut operand " + quoted(operand));
  return {};
}

Graph::Graph(std::string name, GraphOptions options) : name_(std::move(name)), options_(options) {}
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

ViewFields Graph::add_tensor(std::string name, DType dtype, Shape shape, TensorOptions options) {
  COHORT_CHECK(find_tensor(name) == nullptr,
               "graph " + quoted(name_) + " has two tensors " + quoted(name));
  COHORT_CHECK(options.external == nullptr || !options.initial,
               "tensor " + quoted(name) + " has the caller's memory and an initial value");
  Tensor t{.id = {static_cast<std::uint32_t>(tensors_.size())},
           .name = std::move(name),
           .dtype = dtype,
           .shape = std::move(shape),
           .data = options.external,
           .address = next_address_,
           .initial = options.initial,
           .manual_dep = options.manual_dep,
           .external = options.external != nullptr};
  if (!t.external) t.data = arena_->allocate(t.bytes());
  if (t.initial) fill(t, *t.initial);
  next_address_ += (t.bytes() + kTensorAlignment) / kTensorAlignment * kTensorAlignment;
  tensors_.push_back(std::move(t));
  states_.emplace_back();
  return whole(tensors_.back(), 0);
}

const Tensor* Graph::find_tensor(std::string_view name) const {
  const auto it = std::ranges::find(tensors_, name, &Tensor::name);
  return it != tensors_.end() ? &*it : nullptr;
}

Result<ViewFields> Graph::find_view(std::string_view name, DType dtype) const {
  const Tensor* t = find_tensor(name);
  if (t == nullptr) {
    std::vector<std::string> names;
    for (const Tensor& other : tensors_) names.push_back(other.name);
    return fail(ErrorCode::kNotFound, "graph " + quoted(name_) + " has no tensor " + quoted(name) +
                                          did_you_mean(name, names));
  }
  if (t->dtype != dtype) {
    return fail(ErrorCode::kInvalidArgument, "tensor " + quoted(name) + " of graph " +
                                                 quoted(name_) + " is " +
                                                 std::string(cohort::name(t->dtype)) + ", not " +
                                                 std::string(cohort::name(dtype)));
  }
  return whole(*t, states_[t->id.value].consumers.size());
}

void Graph::refuse(RefusalKind kind, const Task& task, std::string message) {
  refusals_.push_back({kind, task.id, task_text(task.id, task.name) + ": " + std::move(message)});
}

Submission Graph::add_task(const KernelRef& kernel, const ArgsType& type, const void* args,
                           Launch launch) {
  Task task{.id = {static_cast<std::uint32_t>(tasks_.size())},
            .name = kernel.name,
            .kernel = kernel,
            .args = type.clone(args),
            .launch = std::move(launch)};
  std::vector<ViewFields> views;
  for (std::size_t i = 0; i < type.table.size(); ++i) {
    const OperandInfo& info = type.table[i];
    if (!info.is_tensor()) continue;
    ViewFields& view = type.tensor(task.args.get(), i);
    view.operand = static_cast<std::int32_t>(i);
    views.push_back(view);
    task.operands.push_back({.name = std::string(info.name),
                             .direction = info.direction,
                             .region = view.tensor != nullptr ? view.region() : Region{},
                             .version = view.version});
  }
  const std::size_t refusals_before = refusals_.size();
  check_operands(task, views);
  if (refusals_.size() == refusals_before) check_kernel(task, type);
  return finish(std::move(task), views);
}

Submission Graph::dummy(std::string name, std::vector<DummyOperand> operands, Launch launch) {
  Task task{.id = {static_cast<std::uint32_t>(tasks_.size())},
            .name = std::move(name),
            .launch = std::move(launch)};
  std::vector<ViewFields> views;
  for (DummyOperand& o : operands) {
    views.push_back(o.view);
    task.operands.push_back({.name = std::move(o.name),
                             .direction = o.direction,
                             .region = o.view.tensor != nullptr ? o.view.region() : Region{},
                             .version = o.view.version});
  }
  check_operands(task, views);
  return finish(std::move(task), views);
}

// The kernel's own view of its arguments. Binds the task if nothing is wrong.
void Graph::check_kernel(Task& task, const ArgsType& type) {
  const KernelRef& kernel = *task.kernel;
  if (kernel.args_type != &type) {
    refuse(RefusalKind::kAbi, task, "its arguments aren't of the kernel's Args type");
    return;
  }
  const auto scalars = static_cast<std::int64_t>(type.table.size()) - type.tensors();
  if (scalars > kMaxScalars) {
    refuse(RefusalKind::kLimit, task,
           std::to_string(scalars) + " scalars, a task can have " + std::to_string(kMaxScalars));
    return;
  }
  if (const Status status = validate_phases(kernel, task.args); !status) {
    refuse(RefusalKind::kShape, task, status.error().message);
    return;
  }
  task.bound = bind_kernel(kernel, task.args, task.launch.lanes);
  if (kernel.barrier != Barrier::kNone) check_workspace(task);
  if (kernel.check == nullptr) return;
  if (const Status status = kernel.check(task.bound); !status) {
    refuse(RefusalKind::kFusion, task, status.error().message);
  }
}

void Graph::check_workspace(const Task& task) {
  const KernelRef& kernel = *task.kernel;
  const ViewFields& workspace = task.bound.workspace;
  const std::string barrier(cohort::name(kernel.barrier));
  if (workspace.tensor == nullptr || workspace.tensor->dtype != DType::kInt32) {
    refuse(RefusalKind::kLayout, task,
           "the last tensor operand of a kernel with a " + barrier +
               " barrier is its workspace, of element type I32");
    return;
  }
  const std::int64_t lanes = task.bound.lanes;
  const std::int64_t needed = kernel.workspace_words(lanes);
  const std::int64_t found = workspace.row_count * workspace.col_count;
  if (needed <= found) return;
  std::int64_t widest = 0;
  for (const BoundPhase& phase : task.bound.phases) widest = std::max(widest, phase.capacity);
  refuse(RefusalKind::kLayout, task,
         "a " + barrier + " barrier of " + std::to_string(lanes) + " participants needs " +
             std::to_string(needed) + " I32 words of workspace, tensor " +
             quoted(workspace.tensor->name) + " has " + std::to_string(found) + ": word " +
             std::to_string(found) + " is the first outside; the largest phase has " +
             std::to_string(widest) + " blocks");
}

void Graph::check_operands(const Task& task, std::span<const ViewFields> views) {
  const std::size_t refusals_before = refusals_.size();
  if (static_cast<std::int64_t>(views.size()) > kMaxTensors) {
    refuse(
        RefusalKind::kLimit, task,
        std::to_string(views.size()) + " tensors, a task can have " + std::to_string(kMaxTensors));
  }
  for (std::size_t i = 0; i < views.size(); ++i) {
    const ViewFields& view = views[i];
    const std::string where = operand_text(i, task.operands[i].name);
    if (view.tensor == nullptr) {
      refuse(RefusalKind::kAbi, task, where + " has no tensor");
      continue;
    }
    const std::uint32_t id = view.tensor->id.value;
    if (id >= tensors_.size() || &tensors_[id] != view.tensor) {
      refuse(RefusalKind::kForeign, task,
             where + ": tensor " + quoted(view.tensor->name) + " belongs to another graph");
      continue;
    }
    const std::vector<TensorState::Consumer>& consumers = states_[id].consumers;
    if (view.version < consumers.size()) {
      const TensorState::Consumer& c = consumers[view.version];
      refusals_.push_back({RefusalKind::kInoutReuse, task.id,
                           "tensor " + quoted(view.tensor->name) + " was consumed by " +
                               task_text(c.task, c.task_name) + " (" +
                               operand_text(c.operand, c.operand_name) + ") and is used again by " +
                               task_text(task.id, task.name) + " (" + where +
                               "): use the handle that the first submission returned"});
    }
  }
  if (refusals_.size() == refusals_before) check_aliases(task);
}

void Graph::check_aliases(const Task& task) {
  for (std::size_t i = 0; i < task.operands.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const OperandUse& a = task.operands[j];
      const OperandUse& b = task.operands[i];
      if (!writes_to(a.direction) && !writes_to(b.direction)) continue;
      const Overlap o = overlap(a.region, b.region);
      if (!o.overlaps || o.approximate) continue;
      refuse(RefusalKind::kAlias, task,
             operand_text(j, a.name) + " and " + operand_text(i, b.name) + " overlap in tensor " +
                 quoted(tensors_[a.region.tensor.value].name) + " and one of them writes");
    }
  }
}

void Graph::add_explicit_edges(const Task& task) {
  std::vector<TaskId> deps = task.launch.deps;
  std::ranges::sort(deps);
  deps.erase(std::unique(deps.begin(), deps.end()), deps.end());
  for (const TaskId dep : deps) {
    if (dep >= task.id) {
      refuse(RefusalKind::kForeign, task,
             "depends on task #" + std::to_string(dep.value) + ", which isn't an earlier task");
      continue;
    }
    edges_.push_back({.from = dep, .to = task.id, .hazard = Hazard::kExplicit});
  }
}

void Graph::add_automatic_edges(const Task& task) {
  for (const OperandUse& use : task.operands) {
    const Tensor& tensor = tensors_[use.region.tensor.value];
    if (tensor.manual_dep || use.region.empty()) continue;
    const bool writes = writes_to(use.direction);
    for (const Access& earlier : states_[tensor.id.value].live) {
      if (earlier.task == task.id) continue;
      const bool earlier_writes = writes_to(earlier.direction);
      if (!writes && !earlier_writes) continue;
      if (!earlier_writes && !options_.track_write_after_read) continue;
      const Overlap o = overlap(earlier.region, use.region);
      if (!o.overlaps) continue;
      const Hazard hazard = !earlier_writes             ? Hazard::kWriteAfterRead
                            : reads_from(use.direction) ? Hazard::kReadAfterWrite
                                                        : Hazard::kWriteAfterWrite;
      edges_.push_back({earlier.task, task.id, hazard, tensor.id, o.approximate});
    }
  }
}

Submission Graph::finish(Task task, std::span<const ViewFields> views) {
  const auto first = static_cast<std::ptrdiff_t>(edges_.size());
  add_explicit_edges(task);
  bool usable = true;  // An operand that isn't a view of this graph's tensors can't make edges.
  for (const ViewFields& view : views) {
    usable = usable && view.tensor != nullptr && view.tensor->id.value < tensors_.size() &&
             &tensors_[view.tensor->id.value] == view.tensor;
  }
  Submission submission;
  submission.id = task.id;
  if (usable) {
    add_automatic_edges(task);
    const auto key = [](const Edge& e) {
      return std::tuple(e.from, e.hazard, e.hazard == Hazard::kExplicit ? TensorId{} : e.tensor,
                        e.approximate);
    };
    const auto begin = edges_.begin() + first;
    std::sort(begin, edges_.end(), [&](const Edge& a, const Edge& b) { return key(a) < key(b); });
    // Exact before approximate, so that of two edges that differ in that alone the exact one stays.
    edges_.erase(std::unique(begin, edges_.end(),
                             [](const Edge& a, const Edge& b) {
                               return a.from == b.from && a.hazard == b.hazard &&
                                      a.tensor == b.tensor;
                             }),
                 edges_.end());
  }
  for (std::size_t i = 0; i < task.operands.size(); ++i) {
    const OperandUse& use = task.operands[i];
    if (!usable) break;
    TensorState& state = states_[use.region.tensor.value];
    if (writes_to(use.direction)) {
      std::erase_if(state.live, [&](const Access& a) {
        return a.task != task.id && contains(use.region, a.region);
      });
    }
    state.live.push_back({task.id, use.region, use.direction});
    if (use.direction == Direction::kInOut && use.version == state.consumers.size()) {
      state.consumers.push_back({task.id, task.name, i, use.name});
    }
  }
  for (std::size_t i = 0; i < task.operands.size(); ++i) {
    if (task.operands[i].direction != Direction::kInOut) continue;
    ViewFields view;
    if (usable) {
      const Tensor& t = *views[i].tensor;
      view = whole(t, states_[t.id.value].consumers.size());
    }
    submission.updated_.push_back({task.operands[i].name, view});
  }
  tasks_.push_back(std::move(task));
  return submission;
}

Graph Graph::rewritten(const GraphEdit& edit) const {
  Graph copy(name_, options_);
  for (const Tensor& t : tensors_) {
    TensorOptions options{.initial = t.initial,
                          .manual_dep = t.manual_dep,
                          .external = t.external ? t.data : nullptr};
    if (edit.tensor) edit.tensor(t, options);
    copy.add_tensor(t.name, t.dtype, t.shape, options);
    if (!t.external) std::memcpy(copy.tensors_.back().data, t.data, t.memory().size());
  }
  const auto moved = [&](ViewFields view) {
    if (view.tensor == nullptr || view.tensor->id.value >= copy.tensors_.size()) return view;
    const Tensor& to = copy.tensors_[view.tensor->id.value];
    view.data = to.data + (static_cast<std::byte*>(view.data) - view.tensor->data);
    view.tensor = &to;
    return view;
  };
  for (const Task& task : tasks_) {
    TaskDraft draft{.id = task.id, .name = task.name, .kernel = task.kernel, .launch = task.launch};
    if (task.is_dummy()) {
      for (const OperandUse& use : task.operands) {
        const Tensor& t = tensors_[use.region.tensor.value];
        ViewFields view = whole(t, use.version);
        view.data = t.data + use.region.begin;
        view.row_count = use.region.rows;
        view.col_count = use.region.row_bytes / t.element_bytes();
        view.pitch = use.region.pitch / t.element_bytes();
        draft.operands.push_back({use.name, use.direction, moved(view), t.dtype});
      }
    } else {
      draft.args_type = task.kernel->args_type;
      draft.args = draft.args_type->clone(task.args.get());
      for (std::size_t i = 0; i < draft.args_type->table.size(); ++i) {
        if (!draft.args_type->table[i].is_tensor()) continue;
        ViewFields& view = draft.args_type->tensor(draft.args.get(), i);
        view = moved(view);
      }
    }
    if (edit.task) edit.task(draft);
    if (draft.kernel) {
      copy.add_task(*draft.kernel, *draft.args_type, draft.args.get(), std::move(draft.launch));
    } else {
      copy.dummy(std::move(draft.name), std::move(draft.operands), std::move(draft.launch));
    }
  }
  return copy;
}

Status Graph::set_scalar(std::string_view name, double value) {
  struct Change {
    Task* task;
    std::shared_ptr<void> args;
  };
  std::vector<Change> changes;
  for (Task& task : tasks_) {
    if (task.is_dummy()) continue;
    const ArgsType& type = *task.kernel->args_type;
    for (std::size_t i = 0; i < type.table.size(); ++i) {
      const OperandInfo& info = type.table[i];
      if (info.is_tensor() || info.name != name) continue;
      std::shared_ptr<void> args = type.clone(task.args.get());
      if (!store_scalar(info.dtype, value, type.scalar(args.get(), i))) {
        return fail(ErrorCode::kInvalidArgument, task_text(task.id, task.name) + ": " +
                                                     operand_text(i, info.name) + " of type " +
                                                     std::string(cohort::name(info.dtype)) +
                                                     " can't hold " + std::to_string(value));
      }
      changes.push_back({&task, std::move(args)});
    }
  }
  if (changes.empty()) {
    return fail(ErrorCode::kNotFound,
                "no task of graph " + quoted(name_) + " has a scalar " + quoted(name));
  }
  for (const Change& change : changes) {
    COHORT_TRY_STATUS(validate_phases(*change.task->kernel, change.args));
  }
  for (Change& change : changes) {
    change.task->args = std::move(change.args);
    change.task->bound =
        bind_kernel(*change.task->kernel, change.task->args, change.task->launch.lanes);
  }
  return {};
}

Status Graph::validate() const {
  if (refusals_.empty()) return {};
  std::string message = "graph " + quoted(name_) + " can't be run:";
  for (const Refusal& refusal : refusals_) message += "\n  " + refusal.message;
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

void Graph::poison_tensors() const {
  for (const Tensor& t : tensors_) {
    if (!t.initial && !t.external) poison(t);
  }
}

std::string Graph::to_dot() const {
  std::string out = "digraph " + quoted(name_) + " {\n  rankdir=TB;\n  node [shape=box];\n";
  for (const Task& task : tasks_) {
    std::string label = task.name;
    if (task.is_dummy()) {
      label += "\\ndummy";
    } else if (task.kernel->is_fused()) {
      label += "\\n" + std::to_string(task.bound.lanes) + " lanes, " +
               std::to_string(task.bound.meetings.size()) + " barriers (" +
               std::string(cohort::name(task.kernel->barrier)) + ")";
    } else {
      label += "\\n" + std::to_string(task.bound.lanes) + " blocks";
    }
    if (task.launch.sync_start) label += "\\nsync_start";
    out += "  t" + std::to_string(task.id.value) + " [label=" + quoted(label) +
           (task.is_dummy() ? ", style=dashed" : "") + "];\n";
  }
  for (const Edge& e : edges_) {
    const bool is_explicit = e.hazard == Hazard::kExplicit;
    std::string label(cohort::name(e.hazard));
    if (!is_explicit) label += " " + tensors_[e.tensor.value].name;
    if (e.approximate) label += " ?";
    out += "  t" + std::to_string(e.from.value) + " -> t" + std::to_string(e.to.value) +
           " [label=" + quoted(label) + (is_explicit ? ", style=bold" : "") + "];\n";
  }
  return out + "}\n";
}

}  // namespace cohort
