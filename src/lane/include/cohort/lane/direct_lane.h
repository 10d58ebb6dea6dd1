#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "cohort/base/tile.h"
#include "cohort/base/work.h"
#include "cohort/graph/operand.h"

namespace cohort {

/// Who a lane is. Kernels see only these numbers.
struct LaneIdentity {
  std::int64_t index = 0;     ///< Dense logical index, 0 <= index < lanes.
  std::int64_t lanes = 1;     ///< Of the grid.
  std::int64_t physical = 0;  ///< The core or worker under it; any value, not dense.
};

/// Where a lane's remote operations go; implemented by `dist`.
class RemotePort {
 public:
  virtual ~RemotePort() = default;
  /// Writes packed `tile` bytes into the box `view` of rank `rank`'s copy of the window.
  virtual void put(std::int64_t rank, const ViewFields& view,
                   const Tile<const std::byte>& tile) = 0;
  /// Adds 1 to a counter of rank `rank`, after every earlier put to it.
  virtual void notify(std::int64_t rank, const ViewFields& counter) = 0;
  /// Returns once the own counter is at least `value`.
  virtual void wait_at_least(const ViewFields& counter, std::int64_t value) = 0;
};

/// An operand that can be read, or written, by a lane.
template <Direction D>
concept Readable = D == Direction::kIn || D == Direction::kInOut || D == Direction::kWindow;
template <Direction D>
concept Writable = D == Direction::kOut || D == Direction::kInOut || D == Direction::kWindow;

/// The lane that kernels run on when the executor's memory is the tensors' own: a tile is a view,
/// and every call is inline. The other is ModelledLane, which has the same members.
///
///   load(v)           a tile that holds what v holds now; read only
///   output(v)         a tile to be written in every element and stored once
///   update(v)         load and output in one
///   store(tile)       writes an output or update tile to its operand; the tile isn't touched after
///   accumulate(v, t)  v += t, element by element, atomically
///   get, put          one element through the core's data cache
///   get_device, put_device, add_device   one element, uncached; add returns the value before
///   put_remote, notify, wait_at_least    on windows: see RemotePort
///   charge(work)      what the last `simd` call cost; counts, does nothing
///
/// A tile is a snapshot: between load(v) and the last use of its tile the block stores nothing into
/// v. ModelledLane enforces this and everything else that the two lanes must agree on.
class DirectLane {
 public:
  template <class T>
  using Loaded = Tile<const T>;
  template <class T>
  using Owned = Tile<T>;

  explicit DirectLane(LaneIdentity identity, RemotePort* remote = nullptr)
      : identity_(identity), remote_(remote) {}

  std::int64_t index() const { return identity_.index; }
  std::int64_t lanes() const { return identity_.lanes; }
  /// Exists so that the mistake of using it can be made.
  std::int64_t physical_index() const { return identity_.physical; }

  template <class T, Direction D>
  requires Readable<D> Tile<const std::remove_const_t<T>> load(const Operand<T, D>& view)
  const { return {view.direct(), view.rows(), view.cols(), view.pitch}; }
  template <class T, Direction D>
  requires Writable<D> Tile<T> output(const Operand<T, D>& view)
  const { return {view.direct(), view.rows(), view.cols(), view.pitch}; }
  template <class T>
  Tile<T> update(const InOut<T>& view) const {
    return {view.direct(), view.rows(), view.cols(), view.pitch};
  }
  template <class T>
  void store(const Tile<T>&) const {}

  template <class T>
  void accumulate(const InOut<T>& view, const Tile<const T>& tile) const {
    for (std::int64_t r = 0; r < view.rows(); ++r) {
      for (std::int64_t c = 0; c < view.cols(); ++c) {
        std::atomic_ref<T>(view.direct()[r * view.pitch + c])
            .fetch_add(tile(r, c), std::memory_order_relaxed);
      }
    }
  }
  template <class T>
  void accumulate(const InOut<T>& view, const Tile<T>& tile) const {
    accumulate(view, Tile<const T>(tile));
  }

  template <class T, Direction D>
  requires Readable<D> std::remove_const_t<T> get(const Operand<T, D>& view, std::int64_t i)
  const { return *element(view, i); }
  template <class T, Direction D>
  requires Writable<D>
  void put(const Operand<T, D>& view, std::int64_t i, T value) const { *element(view, i) = value; }

  // Relaxed: order comes from launches, barriers and ends of tasks, never from an access.
  template <class T, Direction D>
  requires Readable<D> std::remove_const_t<T> get_device(const Operand<T, D>& view, std::int64_t i)
  const {
    using U = std::remove_const_t<T>;
    return std::atomic_ref<U>(*const_cast<U*>(element(view, i))).load(std::memory_order_relaxed);
  }
  template <class T, Direction D>
  requires Writable<D>
  void put_device(const Operand<T, D>& view, std::int64_t i, T value) const {
    std::atomic_ref<T>(*element(view, i)).store(value, std::memory_order_relaxed);
  }
  template <class T>
  T add_device(const InOut<T>& view, std::int64_t i, T value) const {
    return std::atomic_ref<T>(*element(view, i)).fetch_add(value, std::memory_order_relaxed);
  }

  template <class T>
  void put_remote(std::int64_t rank, const Window<T>& view, const Tile<const T>& tile) const {
    const auto* bytes = reinterpret_cast<const std::byte*>(tile.data);
    const auto size = static_cast<std::int64_t>(sizeof(T));
    remote().put(rank, view, {bytes, tile.rows, tile.cols * size, tile.pitch * size});
  }
  void notify(std::int64_t rank, const Window<std::int32_t>& counter) const {
    remote().notify(rank, counter);
  }
  void wait_at_least(const Window<std::int32_t>& counter, std::int64_t value) const {
    remote().wait_at_least(counter, value);
  }

  void charge(Work) const {}

 private:
  template <class T, Direction D>
  static T* element(const Operand<T, D>& view, std::int64_t i) {
    COHORT_DCHECK(0 <= i && i < view.rows() * view.cols(), "element outside its view");
    if (view.pitch == view.cols()) return view.direct() + i;
    return view.direct() + i / view.cols() * view.pitch + i % view.cols();
  }
  RemotePort& remote() const {
    COHORT_CHECK(remote_ != nullptr, "a remote operation without ranks");
    return *remote_;
  }

  LaneIdentity identity_;
  RemotePort* remote_;
};

}  // namespace cohort
