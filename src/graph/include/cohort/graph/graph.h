#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/base/quantity.h"
#include "cohort/base/result.h"
#include "cohort/graph/kernel.h"
#include "cohort/graph/operand.h"
#include "cohort/tensor/arena.h"

namespace cohort {

/// How a tensor is made.
struct TensorOptions {
  std::optional<double> initial = {};  ///< Every element's value at the start of every run.
  bool manual_dep = false;             ///< Makes no automatic edges: the caller orders its users.
  std::byte* external =
      nullptr;  ///< The caller's memory, which outlives the graph; not with `initial`.
};

/// How a task is launched.
struct Launch {
  std::vector<TaskId> deps = {};  ///< Explicit edges, merged with the automatic ones.
  bool sync_start = false;        ///< All lanes are resident before any starts: a cohort.
  bool allow_early_resolve =
      false;               ///< A hint that consumers may be staged early; changes no result.
  std::int64_t lanes = 0;  ///< Overrides the kernel's own number of lanes, if above 0.
};

/// Why two tasks are ordered.
enum class Hazard : std::uint8_t { kExplicit, kReadAfterWrite, kWriteAfterWrite, kWriteAfterRead };
std::string_view name(Hazard hazard);

/// `to` starts after `from` is complete.
struct Edge {
  TaskId from = {};
  TaskId to = {};
  Hazard hazard = Hazard::kExplicit;
  TensorId tensor = {};      ///< Whose bytes conflict; meaningless for an explicit edge.
  bool approximate = false;  ///< Hulls overlap, perhaps no byte: never counted as surplus.

  friend bool operator==(const Edge&, const Edge&) = default;
};

/// A tensor operand as submitted.
struct OperandUse {
  std::string name = {};
  Direction direction = Direction::kIn;
  Region region = {};
  std::uint32_t version = 0;
};

/// A node of the graph: one launch of a kernel, or a dummy that only has operands and edges.
struct Task {
  TaskId id = {};
  std::string name = {};
  std::optional<KernelRef> kernel = {};  ///< Nothing in a dummy.
  std::shared_ptr<void> args = {};       ///< Of the kernel's ArgsType.
  BoundKernel bound = {};                ///< No lanes and no phases in a dummy.
  Launch launch = {};
  std::vector<OperandUse> operands = {};

  bool is_dummy() const { return !kernel.has_value(); }
};

/// Why a submission can't be run.
enum class RefusalKind : std::uint8_t {
  kAbi,         ///< Arguments of another type than the kernel's, or an operand without a tensor.
  kAlias,       ///< Two operands of one task overlap and one of them writes.
  kFusion,      ///< Phases that can't be fused under these arguments: false sharing.
  kForeign,     ///< A tensor or task of another graph.
  kInoutReuse,  ///< A version that an earlier task consumed.
  kLayout,      ///< A workspace that doesn't fit the barrier.
  kLimit,       ///< More tensors or scalars than a task can have.
  kShape,       ///< The kernel's own check of its arguments failed.
};

/// One thing wrong with a submission, with all names involved.
struct Refusal {
  RefusalKind kind = RefusalKind::kAbi;
  TaskId task = {};
  std::string message = {};
};

/// An operand of a dummy task.
struct DummyOperand {
  std::string name = {};
  Direction direction = Direction::kIn;
  ViewFields view = {};
  DType dtype = DType::kFloat32;
};
template <class T>
DummyOperand reads(const Handle<T>& handle) {
  return {handle.tensor != nullptr ? handle.tensor->name : "", Direction::kIn, handle, kDTypeOf<T>};
}
template <class T>
DummyOperand writes(const Handle<T>& handle) {
  return {handle.tensor != nullptr ? handle.tensor->name : "", Direction::kOut, handle,
          kDTypeOf<T>};
}

/// What submitting a task gives: its id, and a new version of every tensor it consumed.
class Submission {
 public:
  TaskId id = {};

  /// The new version of the whole tensor passed as InOut operand `operand`.
  /// Requires: the task has an InOut operand of that name and element type.
  template <Element T>
  Handle<T> handle(std::string_view operand) const {
    return Handle<T>(updated(operand, kDTypeOf<T>));
  }

 private:
  friend class Graph;
  struct Updated {
    std::string operand;
    ViewFields view;
  };
  ViewFields updated(std::string_view operand, DType dtype) const;
  std::vector<Updated> updated_ = {};
};

struct GraphOptions {
  /// False drops write-after-read edges, to reproduce a runtime that doesn't track them.
  bool track_write_after_read = true;
};

struct TaskDraft;
struct GraphEdit;

/// A list of submissions, in program order, and the edges that follow from it.
///
/// A wrong submission is remembered as a refusal and keeps its place, so that building code needs
/// no error handling: executors refuse a graph whose validate() fails.
///
/// Automatic edges: a task depends on each earlier task with which it has a byte in common that one
/// of them writes, unless an earlier access was retired: a later write that contains it stands for
/// it.
///
/// Thread safety: none; build on one thread, then share as const.
/// Determinism:   ids, addresses and edges depend only on the sequence of calls.
class Graph {
 public:
  static constexpr std::int64_t kMaxTensors = 32;  ///< Per task.
  static constexpr std::int64_t kMaxScalars = 16;  ///< Per task.

  explicit Graph(std::string name = "graph", GraphOptions options = {});
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  /// Makes a tensor of zeros (or with the caller's memory). Names are unique.
  /// Requires: no negative extent; a new name.
  template <Element T>
  Handle<T> tensor(std::string name, Shape shape, TensorOptions options = {}) {
    return Handle<T>(add_tensor(std::move(name), kDTypeOf<T>, std::move(shape), options));
  }

  /// A tensor by name, or nullptr.
  const Tensor* find_tensor(std::string_view name) const;

  /// The latest version of a tensor, by name.
  /// Errors: kNotFound with a suggestion; kInvalidArgument if it has another element type.
  template <Element T>
  Result<Handle<T>> find(std::string_view name) const {
    COHORT_TRY(const ViewFields view, find_view(name, kDTypeOf<T>));
    return Handle<T>(view);
  }

  /// Appends a launch of `kernel`.
  template <class Args>
  Submission submit(const KernelRef& kernel, const Args& args, Launch launch = {}) {
    return add_task(kernel, args_type<Args>(), &args, std::move(launch));
  }

  /// Appends a task that does nothing but has operands and edges: a stand-in, or a join.
  Submission dummy(std::string name, std::vector<DummyOperand> operands, Launch launch = {});

  /// tensor() and submit() once types are lost. Requires: `args` is of type `type`.
  ViewFields add_tensor(std::string name, DType dtype, Shape shape, TensorOptions options);
  Submission add_task(const KernelRef& kernel, const ArgsType& type, const void* args,
                      Launch launch);

  /// Submits everything again to a new graph, whose tensors begin with the same bytes, after `edit`
  /// has changed what it likes. External memory is shared.
  Graph rewritten(const GraphEdit& edit) const;

  /// Sets the scalar operand `name` of every task that has one and binds those tasks again, without
  /// touching an edge: what another `num_tokens` needs.
  /// Errors: kNotFound if no task has it; kInvalidArgument if its type can't hold the value or a
  ///         kernel's own check refuses it. The graph is unchanged on error.
  Status set_scalar(std::string_view name, double value);

  /// Everything wrong, in order of submission.
  const std::vector<Refusal>& refusals() const { return refusals_; }
  /// Success, or all refusals in one message, a line each.
  Status validate() const;

  const std::string& name() const { return name_; }
  const std::vector<Task>& tasks() const { return tasks_; }
  const Task& task(TaskId id) const { return tasks_[id.value]; }
  /// By consumer, then producer; at most one edge per pair and hazard and tensor.
  const std::vector<Edge>& edges() const { return edges_; }
  const std::deque<Tensor>& tensors() const { return tensors_; }
  const Tensor& tensor_of(TensorId id) const { return tensors_[id.value]; }

  /// The memory of its tensors, for those who must keep it alive longer than the graph.
  std::shared_ptr<const void> memory() const { return arena_; }

  /// Poisons every tensor that has no initial value and isn't external: what was never written must
  /// not look like zero.
  void poison_tensors() const;

  /// The graph in the language of Graphviz: tasks with blocks and lanes, edges with their tensors.
  std::string to_dot() const;

 private:
  struct Access;
  struct TensorState;

  Result<ViewFields> find_view(std::string_view name, DType dtype) const;
  void refuse(RefusalKind kind, const Task& task, std::string message);
  void check_kernel(Task& task, const ArgsType& type);
  void check_workspace(const Task& task);
  void check_operands(const Task& task, std::span<const ViewFields> views);
  void check_aliases(const Task& task);
  void add_explicit_edges(const Task& task);
  void add_automatic_edges(const Task& task);
  Submission finish(Task task, std::span<const ViewFields> views);

  std::string name_;
  GraphOptions options_;
  std::shared_ptr<Arena> arena_ = std::make_shared<Arena>();
  std::deque<Tensor> tensors_;
  std::vector<TensorState> states_;  // By tensor.
  std::vector<Task> tasks_;
  std::vector<Edge> edges_;
  std::vector<Refusal> refusals_;
  std::int64_t next_address_ = 0;
};

/// A task that is about to be submitted again.
struct TaskDraft {
  TaskId id = {};
  std::string name = {};
  std::optional<KernelRef> kernel = {};  ///< Nothing in a dummy.
  const ArgsType* args_type = nullptr;
  std::shared_ptr<void> args = {};  ///< Its views are of the new graph's tensors.
  std::vector<DummyOperand> operands = {};
  Launch launch = {};
};

/// What Graph::rewritten() changes; null changes nothing.
struct GraphEdit {
  std::function<void(const Tensor& tensor, TensorOptions& options)> tensor = {};
  std::function<void(TaskDraft& task)> task = {};
};

}  // namespace cohort
