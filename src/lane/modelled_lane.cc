#include "cohort/lane/modelled_lane.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace cohort {
namespace {

constexpr std::int64_t kTileAlignment = 64;

std::int64_t align_up(std::int64_t bytes) {
  return (bytes + kTileAlignment - 1) / kTileAlignment * kTileAlignment;
}

std::byte* allocate(std::int64_t bytes) {
  return static_cast<std::byte*>(std::aligned_alloc(static_cast<std::size_t>(kTileAlignment),
                                                    static_cast<std::size_t>(align_up(bytes))));
}

// What a fresh output tile holds: for float types a quiet NaN that is neither memory's poison nor
// made by arithmetic, for others bytes that differ between the two patterns in every bit.
std::uint64_t tile_pattern(DType dtype, TilePoison poison) {
  const bool first = poison == TilePoison::kFirst;
  switch (dtype) {
    case DType::kFloat64:
      return first ? 0x7FF8BEEFBEEFBEEFu : 0xFFF8BEEFBEEFBEEFu;
    case DType::kFloat32:
      return first ? 0x7FC0BEEF7FC0BEEFu : 0xFFC0BEEFFFC0BEEFu;
    case DType::kFloat16:
      return first ? 0x7E057E057E057E05u : 0xFE05FE05FE05FE05u;
    case DType::kBFloat16:
      return first ? 0x7FC57FC57FC57FC5u : 0xFFC5FFC5FFC5FFC5u;
    default:
      return first ? 0x3C3C3C3C3C3C3C3Cu : 0xC3C3C3C3C3C3C3C3u;
  }
}

bool is_float(DType dtype) {
  return dtype == DType::kFloat64 || dtype == DType::kFloat32 || dtype == DType::kFloat16 ||
         dtype == DType::kBFloat16;
}

}  // namespace

ModelledLane::ModelledLane(LaneModel& model, LaneIdentity identity, TilePoison poison)
    : model_(model),
      identity_(identity),
      poison_(poison),
      local_(allocate(model.local_bytes())),
      local_bytes_(model.local_bytes()) {}

ModelledLane::~ModelledLane() { std::free(local_); }

void ModelledLane::begin_block(const KernelBody& body, std::int64_t block) {
  body_ = &body;
  block_ = block;
  high_water_ = 0;
}

void ModelledLane::end_block() { model_.local_high_water(high_water_); }

Access ModelledLane::access_of(const ViewFields& view) {
  return {view.tensor, view.operand, view.region()};
}

Access ModelledLane::element(const ViewFields& view, std::int64_t i) {
  COHORT_CHECK(0 <= i && i < view.row_count * view.col_count,
               "element " + std::to_string(i) + " of a view of " + std::to_string(view.row_count) +
                   " x " + std::to_string(view.col_count) + " of tensor " + view.tensor->name);
  const std::int64_t size = view.tensor->element_bytes();
  const std::int64_t index = i / view.col_count * view.pitch + i % view.col_count;
  const std::int64_t begin =
      static_cast<const std::byte*>(view.data) - view.tensor->data + index * size;
  return {view.tensor, view.operand, Region::box(view.tensor->id, begin, 1, size, size)};
}

void ModelledLane::violate(const Access& access, std::string_view what) {
  std::string operand = "tensor " + access.tensor->name;
  if (body_ != nullptr && access.operand >= 0) {
    operand = "operand " + std::to_string(access.operand) + ", " + operand;
  }
  const std::string kernel = body_ != nullptr ? std::string(body_->info.name) : "";
  model_.violated({kernel, block_,
                   "kernel \"" + kernel + "\", block " + std::to_string(block_) + ", " + operand +
                       ", " + to_string(access.region) + ": " + std::string(what)});
}

// The lowest gap that holds `bytes`, or -1.
std::int64_t ModelledLane::place(std::int64_t bytes) {
  std::vector<std::pair<std::int64_t, std::int64_t>> taken;
  for (const Slot& slot : slots_) {
    if (slot.live && slot.offset >= 0) taken.emplace_back(slot.offset, slot.offset + slot.bytes);
  }
  std::ranges::sort(taken);
  std::int64_t offset = 0;
  for (const auto& [begin, end] : taken) {
    if (offset + bytes <= begin) break;
    offset = std::max(offset, align_up(end));
  }
  return offset + bytes <= local_bytes_ ? offset : -1;
}

std::size_t ModelledLane::open_slot(const ViewFields& view, TileUse use) {
  auto free = std::ranges::find_if(slots_, [](const Slot& s) { return !s.live; });
  if (free == slots_.end()) free = slots_.insert(slots_.end(), Slot{});
  Slot& slot = *free;
  slot.use = use;
  slot.access = access_of(view);
  slot.bytes = slot.access.bytes();
  slot.stores = 0;
  slot.stored.clear();
  slot.offset = place(slot.bytes);
  if (slot.offset >= 0) {
    slot.data = local_ + slot.offset;
    high_water_ = std::max(high_water_, slot.offset + slot.bytes);
  } else {
    violate(slot.access, "its tile of " + std::to_string(slot.bytes) +
                             " bytes doesn't fit beside the live tiles into " +
                             std::to_string(local_bytes_) + " bytes of local memory");
    slot.data = allocate(slot.bytes);
  }
  slot.live = true;
  if (use == TileUse::kOutput) {
    const std::uint64_t pattern = tile_pattern(slot.access.tensor->dtype, poison_);
    for (std::int64_t i = 0; i < slot.bytes; i += 8) {
      std::memcpy(slot.data + i, &pattern,
                  static_cast<std::size_t>(std::min<std::int64_t>(8, slot.bytes - i)));
    }
  } else {
    model_.load(slot.access, slot.data);
  }
  return static_cast<std::size_t>(free - slots_.begin());
}

// A write by this block: no tile that was loaded from these bytes may still be in use.
const Access& ModelledLane::written(const Access& access) {
  for (const Slot& slot : slots_) {
    if (!slot.live || slot.use != TileUse::kLoaded || slot.access.tensor != access.tensor) continue;
    if (overlap(slot.access.region, access.region).overlaps) {
      violate(access,
              "the block stores into bytes that a tile it loaded and still uses stands for (" +
                  to_string(slot.access.region) + "); drop the tile first, or use update()");
    }
  }
  return access;
}

void ModelledLane::check_written(const Slot& slot) {
  const Tensor& tensor = *slot.access.tensor;
  if (slot.use != TileUse::kOutput || !is_float(tensor.dtype)) return;
  const auto size = static_cast<std::size_t>(tensor.element_bytes());
  const std::uint64_t pattern = tile_pattern(tensor.dtype, poison_);
  std::int64_t missing = 0;
  std::int64_t first = -1;
  for (std::int64_t i = 0; i < slot.bytes; i += static_cast<std::int64_t>(size)) {
    if (std::memcmp(slot.data + i, &pattern, size) != 0) continue;
    if (first < 0) first = i / static_cast<std::int64_t>(size);
    ++missing;
  }
  if (missing > 0) {
    violate(slot.access, std::to_string(missing) +
                             " elements of its output tile were never written, the first is " +
                             std::to_string(first));
  }
}

void ModelledLane::store_slot(std::size_t index) {
  Slot& slot = slots_[index];
  if (slot.use == TileUse::kLoaded) {
    violate(slot.access, "a loaded tile is read only and can't be stored");
    return;
  }
  if (++slot.stores > 1) {
    violate(slot.access, "its tile is stored twice; a tile is stored exactly once");
    return;
  }
  check_written(slot);
  model_.store(written(slot.access), slot.data);
  slot.stored.assign(slot.data, slot.data + slot.bytes);
}

void ModelledLane::close_slot(std::size_t index) {
  Slot& slot = slots_[index];
  if (slot.use != TileUse::kLoaded) {
    if (slot.stores == 0) {
      violate(slot.access, "its tile was never stored");
    } else if (std::memcmp(slot.stored.data(), slot.data, slot.stored.size()) != 0) {
      violate(slot.access, "its tile was changed after it was stored");
    }
  }
  if (slot.offset < 0) std::free(slot.data);
  slot.live = false;
}

void ModelledLane::accumulate_bytes(const ViewFields& view, const Tile<const std::byte>& tile) {
  COHORT_CHECK(tile.pitch == tile.cols || tile.rows <= 1,
               "accumulate takes a whole tile of the lane");
  const Access access = access_of(view);
  COHORT_CHECK(access.bytes() == tile.rows * tile.cols, "accumulate of a tile of another size");
  model_.accumulate(written(access), tile.data);
}

void ModelledLane::put_remote_bytes(std::int64_t rank, const ViewFields& view,
                                    const Tile<const std::byte>& tile) {
  COHORT_CHECK(tile.pitch == tile.cols || tile.rows <= 1,
               "put_remote takes a whole tile of the lane");
  model_.put_remote(rank, access_of(view), tile.data);
}

}  // namespace cohort
