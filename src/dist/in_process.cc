#include "cohort/dist/in_process.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cohort/tensor/arena.h"

namespace cohort::dist {
namespace {

constexpr std::int64_t kCounterWords = kLineBytes / static_cast<std::int64_t>(sizeof(std::int32_t));
// Awake for about as long as a peer on another CPU needs to answer; then it may need this CPU.
constexpr int kYields = 50;

struct WindowState {
  std::string name;
  DType dtype = DType::kInt32;
  Shape shape;
  bool is_counters = false;
  std::vector<std::byte*> data = {};  // By rank; null until the rank has it.
  std::vector<bool> differs = {};     // By rank: it asked for something else.

  std::string text() const {
    return fmt::format("{} {} {}", is_counters ? "counters" : "window", cohort::name(dtype),
                       to_string(shape));
  }
};

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

std::atomic_ref<std::int32_t> counter_at(std::byte* data) {
  return std::atomic_ref<std::int32_t>(*reinterpret_cast<std::int32_t*>(data));
}

}  // namespace

std::string_view name(OperationKind kind) {
  switch (kind) {
    case OperationKind::kPut:
      return "put";
    case OperationKind::kNotify:
      return "notify";
    case OperationKind::kWait:
      return "wait";
  }
  return "";
}

class InProcess::Port final : public RemotePort {
 public:
  Port(State& state, std::int64_t rank) : state_(state), rank_(rank) {}
  void put(std::int64_t rank, const ViewFields& view, const Tile<const std::byte>& tile) override;
  void notify(std::int64_t rank, const ViewFields& counter) override;
  void wait_at_least(const ViewFields& counter, std::int64_t value) override;

 private:
  struct Target {
    const WindowState* window;
    std::int64_t offset;  // Of the view's first byte in the window.
    std::byte* data;      // There, on the peer.
    bool is_lost;
  };
  Target begin(OperationKind kind, std::int64_t peer, const ViewFields& view);
  [[noreturn]] void fail(const std::string& reason);

  State& state_;
  const std::int64_t rank_;
};

// What others see of a rank, and where its lanes sleep.
struct alignas(64) RankState {
  std::atomic<std::int64_t> epoch{0};
  std::atomic<std::uint64_t> operations{0};
  std::atomic<const WindowState*> last_window{nullptr};
  std::atomic<std::int64_t> last_row{0};
  std::atomic<OperationKind> last_kind{OperationKind::kPut};
  std::atomic<bool> has_returned{false};

  // No wake-up is lost: a waiter counts itself before it looks at its counter for the last time,
  // and a notifier changes the counter before it looks for waiters, all sequentially consistent.
  std::atomic<int> waiters{0};
  std::mutex mutex;
  std::condition_variable changed;

  void wake() {
    if (waiters.load() == 0) return;
    { const std::lock_guard lock(mutex); }
    changed.notify_all();
  }
};

struct InProcess::State {
  State(std::int64_t count, Options given) : options(std::move(given)), ranks(index(count)) {
    for (std::int64_t r = 0; r < count; ++r) ports.push_back(std::make_unique<Port>(*this, r));
  }

  std::int64_t count() const { return static_cast<std::int64_t>(ranks.size()); }

  static void clear(const WindowState& window, std::byte* data) {
    const Tensor copy{.dtype = window.dtype, .shape = window.shape, .data = data};
    if (window.is_counters) {
      std::memset(data, 0, index(copy.bytes()));
    } else {
      poison(copy);
    }
  }

  // Whether it was the first.
  bool stop(std::int64_t rank, const std::string& reason) {
    {
      const std::lock_guard lock(stop_mutex);
      if (is_stopped.load()) return false;
      stop_reason = fmt::format("rank {} stopped: {}", rank, reason);
      is_stopped = true;
    }
    for (RankState& r : ranks) r.wake();
    return true;
  }

  std::string reason() const {
    const std::lock_guard lock(stop_mutex);
    return stop_reason;
  }

  // What each rank other than `but` did last, and whether it did anything since `before`.
  std::string others(std::int64_t but, const std::vector<std::uint64_t>& before) const {
    std::string text;
    for (std::int64_t r = 0; r < count(); ++r) {
      if (r == but) continue;
      const RankState& rank = ranks[index(r)];
      const std::uint64_t done = rank.operations.load();
      text += fmt::format("; rank {} in epoch {} ", r, rank.epoch.load());
      if (const WindowState* window = rank.last_window.load(); window == nullptr) {
        text += "did no remote operation";
      } else {
        text += fmt::format("did {} operations meanwhile, the last a {} of row {} of '{}'",
                            done - before[index(r)], cohort::dist::name(rank.last_kind.load()),
                            rank.last_row.load(), window->name);
      }
      if (rank.has_returned.load()) text += ", and has returned";
    }
    return text;
  }

  const Options options;
  Arena arena;
  std::deque<WindowState> windows;
  std::vector<std::string> faults;  // Of copies that differ.
  std::deque<RankState> ranks;
  std::vector<std::unique_ptr<Port>> ports;

  std::atomic<bool> is_stopped{false};
  mutable std::mutex stop_mutex;
  std::string stop_reason;
};

InProcess::InProcess(std::int64_t ranks, Options options) {
  COHORT_CHECK(ranks >= 1, fmt::format("{} ranks, where at least one is needed", ranks));
  state_ = std::make_unique<State>(ranks, std::move(options));
}
InProcess::~InProcess() = default;

std::int64_t InProcess::ranks() const { return state_->count(); }

RemotePort& InProcess::port(std::int64_t rank) { return *state_->ports.at(index(rank)); }

Handle<std::int32_t> InProcess::counters(Graph& graph, std::int64_t rank, const std::string& name,
                                         std::int64_t count, bool manual_dep) {
  const Shape shape = {count, kCounterWords};
  return graph.tensor<std::int32_t>(
      name, shape,
      {.manual_dep = manual_dep, .external = share(rank, name, DType::kInt32, shape, true)});
}

std::byte* InProcess::share(std::int64_t rank, const std::string& name, DType dtype,
                            const Shape& shape, bool is_counters) {
  COHORT_CHECK(0 <= rank && rank < ranks(), fmt::format("rank {} of {}", rank, ranks()));
  WindowState asked{.name = name, .dtype = dtype, .shape = shape, .is_counters = is_counters};
  const auto bytes = elements(shape) * size_of(dtype);
  auto found = std::find_if(state_->windows.begin(), state_->windows.end(),
                            [&](const WindowState& w) { return w.name == name; });
  if (found == state_->windows.end()) {
    asked.data.resize(state_->ranks.size());
    asked.differs.resize(state_->ranks.size());
    state_->windows.push_back(asked);
    found = std::prev(state_->windows.end());
  } else if (found->text() != asked.text()) {
    state_->faults.push_back(
        fmt::format("'{}' is {} on rank {}, but was made as {}: give every "
                    "rank the same",
                    name, asked.text(), rank, found->text()));
    found->differs[index(rank)] = true;
    return state_->arena.allocate(bytes);
  }
  std::byte*& data = found->data[index(rank)];
  if (data == nullptr) {
    data = state_->arena.allocate(bytes);
    State::clear(*found, data);
  }
  return data;
}

Status InProcess::validate() const {
  std::vector<std::string> lines = state_->faults;
  for (const WindowState& window : state_->windows) {
    for (std::int64_t r = 0; r < ranks(); ++r) {
      if (window.data[index(r)] != nullptr || window.differs[index(r)]) continue;
      lines.push_back(fmt::format("'{}' ({}) is missing on rank {}: make it on every rank",
                                  window.name, window.text(), r));
    }
  }
  if (lines.empty()) return {};
  return cohort::fail(ErrorCode::kInvalidArgument, fmt::format("{}", fmt::join(lines, "\n")));
}

std::vector<Status> InProcess::run(const std::function<Status(std::int64_t rank)>& body) {
  std::vector<Status> statuses(state_->ranks.size());
  Status may_run = validate();
  if (may_run && state_->is_stopped.load()) {
    may_run = cohort::fail(ErrorCode::kInvalidArgument,
                           stopped_because() + "; reset() the ranks before they run again");
  }
  if (!may_run) {
    std::fill(statuses.begin(), statuses.end(), may_run);
    return statuses;
  }
  for (RankState& rank : state_->ranks) rank.has_returned = false;
  const auto run_rank = [&](std::int64_t rank) {
    Status& status = statuses[index(rank)];
    try {
      status = body(rank);
    } catch (const std::exception& e) {
      status = cohort::fail(ErrorCode::kInvalidArgument, e.what());
    }
    if (!status) stop(rank, status.error().message);
    state_->ranks[index(rank)].has_returned = true;
  };
  std::vector<std::thread> threads;
  for (std::int64_t r = 1; r < ranks(); ++r) threads.emplace_back(run_rank, r);
  run_rank(0);
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

Status InProcess::begin_epoch(std::int64_t rank, std::int64_t epoch) {
  std::atomic<std::int64_t>& at = state_->ranks.at(index(rank)).epoch;
  const std::int64_t last = at.load();
  if (epoch == last + 1) {
    at = epoch;
    return {};
  }
  return cohort::fail(
      ErrorCode::kInvalidArgument,
      fmt::format("rank {} can't begin epoch {}: its windows hold epoch {}; go on with epoch {}, "
                  "or reset() the ranks and begin with 1",
                  rank, epoch, last, last + 1));
}

void InProcess::stop(std::int64_t rank, const std::string& reason) { state_->stop(rank, reason); }

std::string InProcess::stopped_because() const { return state_->reason(); }

void InProcess::reset() {
  for (const WindowState& window : state_->windows) {
    for (std::byte* data : window.data) {
      if (data != nullptr) State::clear(window, data);
    }
  }
  for (RankState& rank : state_->ranks) {
    rank.epoch = 0;
    rank.operations = 0;
    rank.last_window = nullptr;
  }
  const std::lock_guard lock(state_->stop_mutex);
  state_->stop_reason.clear();
  state_->is_stopped = false;
}

// The rank's own fault: it stops the others. Faults have consequences, so one that came before is
// named too.
void InProcess::Port::fail(const std::string& reason) {
  if (state_.stop(rank_, reason)) throw RemoteError(reason);
  throw RemoteError(fmt::format("{}; before, {}", reason, state_.reason()));
}

InProcess::Port::Target InProcess::Port::begin(OperationKind kind, std::int64_t peer,
                                               const ViewFields& view) {
  const std::string_view operation = cohort::dist::name(kind);
  if (peer < 0 || peer >= state_.count()) {
    fail(fmt::format("{} to rank {}, where there are {} ranks", operation, peer, state_.count()));
  }
  const std::byte* base = view.tensor != nullptr ? view.tensor->data : nullptr;
  const auto window =
      std::find_if(state_.windows.begin(), state_.windows.end(),
                   [&](const WindowState& w) { return w.data[index(rank_)] == base; });
  if (base == nullptr || window == state_.windows.end()) {
    fail(
        fmt::format("{} on tensor '{}', which is no window of rank {}: make it with window() or "
                    "counters()",
                    operation, view.tensor != nullptr ? view.tensor->name : "", rank_));
  }
  const std::int64_t offset = static_cast<const std::byte*>(view.data) - base;
  const std::int64_t row_bytes = view.tensor->cols() * view.tensor->element_bytes();
  const std::int64_t row = row_bytes > 0 ? offset / row_bytes : 0;
  if (window->is_counters == (kind == OperationKind::kPut)) {
    fail(fmt::format(
        "{} on '{}', which is {}: {}", operation, window->name, window->text(),
        window->is_counters ? "counters only count notifies" : "notify and wait are for counters"));
  }
  if (window->is_counters && offset % kLineBytes != 0) {
    fail(fmt::format("{} on word {} of row {} of '{}': word 0 counts", operation,
                     offset % kLineBytes / static_cast<std::int64_t>(sizeof(std::int32_t)), row,
                     window->name));
  }
  RankState& self = state_.ranks[index(rank_)];
  self.last_row.store(row, std::memory_order_relaxed);
  self.last_kind.store(kind, std::memory_order_relaxed);
  self.last_window.store(&*window, std::memory_order_relaxed);
  self.operations.fetch_add(1, std::memory_order_relaxed);
  Fault fault = Fault::kNone;
  if (state_.options.fault != nullptr) {
    fault = state_.options.fault({kind, rank_, peer, window->name, row});
  }
  if (fault == Fault::kStop) {
    fail(fmt::format("a fault at the {} of row {} of '{}' for rank {}", operation, row,
                     window->name, peer));
  }
  if (state_.is_stopped.load()) {
    throw RemoteError(fmt::format("{} of row {} of '{}' given up because {}", operation, row,
                                  window->name, state_.reason()));
  }
  return {&*window, offset, window->data[index(peer)] + offset, fault == Fault::kLose};
}

void InProcess::Port::put(std::int64_t rank, const ViewFields& view,
                          const Tile<const std::byte>& tile) {
  const Target to = begin(OperationKind::kPut, rank, view);
  const std::int64_t size = view.tensor->element_bytes();
  if (tile.rows != view.row_count || tile.cols != view.col_count * size) {
    fail(fmt::format("put of a tile of {} rows of {} bytes into {} rows of {} bytes of '{}'",
                     tile.rows, tile.cols, view.row_count, view.col_count * size, to.window->name));
  }
  if (to.is_lost) return;
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    std::memcpy(to.data + r * view.pitch * size, tile.data + r * tile.pitch, index(tile.cols));
  }
}

void InProcess::Port::notify(std::int64_t rank, const ViewFields& counter) {
  const Target to = begin(OperationKind::kNotify, rank, counter);
  if (to.is_lost) return;
  counter_at(to.data).fetch_add(1);
  state_.ranks[index(rank)].wake();
}

void InProcess::Port::wait_at_least(const ViewFields& counter, std::int64_t value) {
  const Target own = begin(OperationKind::kWait, rank_, counter);
  const auto word = counter_at(own.data);
  for (int i = 0; i < kYields; ++i) {
    if (word.load() >= value) return;
    std::this_thread::yield();
  }
  std::vector<std::uint64_t> before;
  for (const RankState& rank : state_.ranks) before.push_back(rank.operations.load());
  RankState& self = state_.ranks[index(rank_)];
  const auto limit = state_.options.give_up_after;
  const auto is_over = [&] { return word.load() >= value || state_.is_stopped.load(); };
  self.waiters.fetch_add(1);
  bool is_in_time = false;
  {
    std::unique_lock lock(self.mutex);
    is_in_time = self.changed.wait_for(lock, limit, is_over);
  }
  self.waiters.fetch_sub(1);
  const std::int32_t found = word.load();
  if (found >= value) return;
  const std::int64_t row = own.offset / kLineBytes;
  const std::string what = fmt::format("row {} of '{}' is {}, where at least {} was expected", row,
                                       own.window->name, found, value);
  if (is_in_time) {
    throw RemoteError(fmt::format("wait given up ({}) because {}", what, state_.reason()));
  }
  fail(fmt::format("waited {} ms in epoch {}: {}{}", limit.count(), self.epoch.load(), what,
                   state_.others(rank_, before)));
}

}  // namespace cohort::dist
