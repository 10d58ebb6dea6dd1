#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cohort/graph/kernel.h"
#include "cohort/lane/direct_lane.h"
#include "cohort/lane/lane_model.h"

namespace cohort {

/// Which pattern a fresh output tile holds. Running a block once with each tells apart every
/// element that it didn't write: no value equals both.
enum class TilePoison : std::uint8_t { kFirst, kSecond };

class ModelledLane;

/// A tile in a ModelledLane's local memory: freed with its last owner.
template <class T>
class LocalTile : public Tile<T> {
 public:
  LocalTile(LocalTile&& other) noexcept
      : Tile<T>(other), lane_(std::exchange(other.lane_, nullptr)), slot_(other.slot_) {}
  LocalTile& operator=(LocalTile&&) = delete;
  ~LocalTile();

 private:
  friend class ModelledLane;
  LocalTile(const Tile<T>& tile, ModelledLane* lane, std::size_t slot)
      : Tile<T>(tile), lane_(lane), slot_(slot) {}

  ModelledLane* lane_;
  std::size_t slot_;
};

/// The lane that kernels run on when memory is modelled: the members of DirectLane, each a call
/// into a LaneModel, and the contract between kernels and lanes enforced. A breach is reported to
/// the model with kernel, block and operand; the block goes on.
///
/// Errors reported: a store into bytes of a tile that is still in use; an output tile not written
/// in every element (float types at once, others by the second poison), not stored, stored twice,
/// or changed after its store; more live tiles than local memory holds.
class ModelledLane {
 public:
  template <class T>
  using Loaded = LocalTile<const T>;
  template <class T>
  using Owned = LocalTile<T>;

  ModelledLane(LaneModel& model, LaneIdentity identity, TilePoison poison = TilePoison::kFirst);
  ~ModelledLane();
  ModelledLane(const ModelledLane&) = delete;
  ModelledLane& operator=(const ModelledLane&) = delete;

  /// Names the block that runs next, for reports.
  void begin_block(const KernelBody& body, std::int64_t block);
  /// Tells the model the block's local-memory high water.
  void end_block();

  std::int64_t index() const { return identity_.index; }
  std::int64_t lanes() const { return identity_.lanes; }
  std::int64_t physical_index() const { return identity_.physical; }

  template <class T, Direction D>
  requires Readable<D> LocalTile<const std::remove_const_t<T>> load(const Operand<T, D>& view) {
    using U = std::remove_const_t<T>;
    return make_tile<const U>(view, TileUse::kLoaded);
  }
  template <class T, Direction D>
  requires Writable<D> LocalTile<T> output(const Operand<T, D>& view) {
    return make_tile<T>(view, TileUse::kOutput);
  }
  template <class T>
  LocalTile<T> update(const InOut<T>& view) {
    return make_tile<T>(view, TileUse::kUpdate);
  }
  template <class T>
  void store(const LocalTile<T>& tile) {
    store_slot(tile.slot_);
  }
  template <class T>
  void accumulate(const InOut<T>& view, const Tile<const T>& tile) {
    accumulate_bytes(view, bytes_of(tile));
  }
  template <class T>
  void accumulate(const InOut<T>& view, const Tile<T>& tile) {
    accumulate_bytes(view, bytes_of(Tile<const T>(tile)));
  }

  template <class T, Direction D>
  requires Readable<D> std::remove_const_t<T> get(const Operand<T, D>& view, std::int64_t i) {
    std::remove_const_t<T> value;
    model_.get(element(view, i), reinterpret_cast<std::byte*>(&value));
    return value;
  }
  template <class T, Direction D>
  requires Writable<D>
  void put(const Operand<T, D>& view, std::int64_t i, T value) {
    model_.put(written(element(view, i)), reinterpret_cast<const std::byte*>(&value));
  }
  template <class T, Direction D>
  requires Readable<D> std::remove_const_t<T> get_device(const Operand<T, D>& view,
                                                         std::int64_t i) {
    std::remove_const_t<T> value;
    model_.get_device(element(view, i), reinterpret_cast<std::byte*>(&value));
    return value;
  }
  template <class T, Direction D>
  requires Writable<D>
  void put_device(const Operand<T, D>& view, std::int64_t i, T value) {
    model_.put_device(written(element(view, i)), reinterpret_cast<const std::byte*>(&value));
  }
  template <class T>
  T add_device(const InOut<T>& view, std::int64_t i, T value) {
    model_.add_device(written(element(view, i)), reinterpret_cast<std::byte*>(&value));
    return value;
  }

  template <class T>
  void put_remote(std::int64_t rank, const Window<T>& view, const Tile<const T>& tile) {
    put_remote_bytes(rank, view, bytes_of(tile));
  }
  void notify(std::int64_t rank, const Window<std::int32_t>& counter) {
    model_.notify(rank, element(counter, 0));
  }
  void wait_at_least(const Window<std::int32_t>& counter, std::int64_t value) {
    model_.wait_at_least(element(counter, 0), value);
  }

  void charge(Work work) { model_.charge(work); }

 private:
  template <class T>
  friend class LocalTile;

  enum class TileUse : std::uint8_t { kLoaded, kOutput, kUpdate };
  struct Slot {
    bool live = false;
    TileUse use = TileUse::kLoaded;
    Access access = {};
    std::int64_t offset = 0;  // In local memory.
    std::int64_t bytes = 0;
    std::byte* data = nullptr;
    int stores = 0;
    std::vector<std::byte> stored = {};  // What the tile held when it was stored.
  };

  template <class T>
  LocalTile<T> make_tile(const ViewFields& view, TileUse use) {
    const std::size_t slot = open_slot(view, use);
    T* data = reinterpret_cast<T*>(slots_[slot].data);
    return {{data, view.row_count, view.col_count, view.col_count}, this, slot};
  }
  template <class T>
  static Tile<const std::byte> bytes_of(const Tile<const T>& tile) {
    const auto size = static_cast<std::int64_t>(sizeof(T));
    return {reinterpret_cast<const std::byte*>(tile.data), tile.rows, tile.cols * size,
            tile.pitch * size};
  }
  static Access access_of(const ViewFields& view);
  static Access element(const ViewFields& view, std::int64_t i);

  std::size_t open_slot(const ViewFields& view, TileUse use);
  void store_slot(std::size_t slot);
  void close_slot(std::size_t slot);
  void accumulate_bytes(const ViewFields& view, const Tile<const std::byte>& tile);
  void put_remote_bytes(std::int64_t rank, const ViewFields& view,
                        const Tile<const std::byte>& tile);
  const Access& written(const Access& access);
  std::int64_t place(std::int64_t bytes);
  void check_written(const Slot& slot);
  void violate(const Access& access, std::string_view what);

  LaneModel& model_;
  LaneIdentity identity_;
  TilePoison poison_;
  const KernelBody* body_ = nullptr;
  std::int64_t block_ = 0;
  std::vector<Slot> slots_;
  std::int64_t high_water_ = 0;
  std::byte* local_ = nullptr;
  std::int64_t local_bytes_ = 0;
};

template <class T>
LocalTile<T>::~LocalTile() {
  if (lane_ != nullptr) lane_->close_slot(slot_);
}

}  // namespace cohort
