#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/base/result.h"
#include "cohort/graph/graph.h"
#include "cohort/lane/direct_lane.h"

namespace cohort::dist {

enum class OperationKind : std::uint8_t { kPut, kNotify, kWait };
/// "put", "notify", "wait".
std::string_view name(OperationKind kind);

/// A remote operation that a lane is about to do.
struct Operation {
  OperationKind kind = OperationKind::kPut;
  std::int64_t rank = 0;         ///< Whose lane it is.
  std::int64_t peer = 0;         ///< Whose memory it is about; `rank` itself in a wait.
  std::string_view window = {};  ///< Name.
  std::int64_t row = 0;          ///< First row of the window that it is about.
};

/// What a fault makes of an operation.
enum class Fault : std::uint8_t {
  kNone,
  kLose,  ///< A put or notify has no effect.
  kStop,  ///< The rank stops there.
};

struct Options {
  /// The longest a lane waits for a counter. Shorter than the executors' `hang_after`, so that the
  /// rank's own message comes first.
  std::chrono::milliseconds give_up_after = std::chrono::seconds(5);
  /// For tests: called before every operation, on workers, concurrently; may delay. Null: none.
  std::function<Fault(const Operation& operation)> fault = {};
};

/// Thrown through a body whose remote operation can't be done; executors report its text.
class RemoteError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Ranks that share this process: each is a graph of its own, run by an executor of its own whose
/// remote operations go to the rank's port. Ranks meet only in symmetric windows, which every rank
/// has under the same name and in the same shape, and in counters.
///
/// A counter is 16 int32, a line of its own, whose word 0 counts notifies. Counters only grow: a
/// wait in epoch e is for a multiple of e, and nothing is cleared between epochs. By convention row
/// r of a rank's counters is notified by rank r.
///
/// Order: whoever waited for a notify sees what the notifying lane put, or had been ordered after,
/// before it.
///
/// A rank that stops (a fault, an error, a wait that took too long) stops all: waits under way end
/// at once, later operations fail, and every message names the rank that was first and why. The
/// ranks then do nothing more until reset().
///
/// Progress: a wait keeps its worker. What a rank sends before others may wait for it must not be
/// queued behind a wait of its own: give the waiting task an edge from the sending one.
///
/// Thread safety: operations of ports, begin_epoch() of different ranks and stop() may be
/// concurrent with each other; everything else has the object to itself.
class InProcess {
 public:
  /// Requires: ranks >= 1.
  explicit InProcess(std::int64_t ranks, Options options = {});
  ~InProcess();
  InProcess(const InProcess&) = delete;
  InProcess& operator=(const InProcess&) = delete;

  std::int64_t ranks() const;

  /// Makes `rank`'s copy of a window a tensor of its graph, poisoned. Another graph of the same
  /// rank gets the same memory, which lives as long as this object. A copy that differs from those
  /// of other ranks is remembered: see validate().
  template <Element T>
  Handle<T> window(Graph& graph, std::int64_t rank, const std::string& name, const Shape& shape,
                   bool manual_dep = false) {
    return graph.tensor<T>(
        name, shape,
        {.manual_dep = manual_dep, .external = share(rank, name, kDTypeOf<T>, shape, false)});
  }
  /// The same for `count` counters, zero: a window [count, 16].
  Handle<std::int32_t> counters(Graph& graph, std::int64_t rank, const std::string& name,
                                std::int64_t count, bool manual_dep = false);

  /// Success, or every window that isn't the same on all ranks, a line each.
  Status validate() const;

  /// Where the rank's executor sends remote operations; lives as long as this object.
  RemotePort& port(std::int64_t rank);

  /// Runs `body(rank)` of all ranks at once, a thread each, and waits for all. A body that fails or
  /// throws stops the other ranks.
  /// Returns: of each rank what its body returned. If validate() fails or the ranks have stopped
  /// before: that, for each, and no body runs.
  std::vector<Status> run(const std::function<Status(std::int64_t rank)>& body);

  /// A rank goes on to an epoch, counted from 1. Call it before each run of its graph.
  /// Errors: kInvalidArgument if it isn't the next one: an epoch was skipped, or the windows hold
  ///         those of an earlier session.
  Status begin_epoch(std::int64_t rank, std::int64_t epoch);

  /// Stops all ranks because of this one. The first reason counts.
  void stop(std::int64_t rank, const std::string& reason);
  /// Empty, or which rank stopped first and why.
  std::string stopped_because() const;

  /// Poisons windows, zeroes counters and epochs, and lets ranks that stopped run again.
  void reset();

 private:
  class Port;
  struct State;
  std::byte* share(std::int64_t rank, const std::string& name, DType dtype, const Shape& shape,
                   bool is_counters);

  std::unique_ptr<State> state_;
};

}  // namespace cohort::dist
