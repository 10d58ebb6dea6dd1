#include "cohort/lane/footprint.h"

#include <algorithm>
#include <cstring>

namespace cohort {
namespace {

constexpr std::array<std::string_view, 11> kNames = {
    "load",       "store",      "accumulate", "get",    "put", "get_device",
    "put_device", "add_device", "put_remote", "notify", "wait"};

template <class T>
void add_elements(std::byte* to, const std::byte* from, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += static_cast<std::int64_t>(sizeof(T))) {
    T a;
    T b;
    std::memcpy(&a, to + i, sizeof a);
    std::memcpy(&b, from + i, sizeof b);
    a = static_cast<T>(a + b);
    std::memcpy(to + i, &a, sizeof a);
  }
}

void add_typed(DType dtype, std::byte* to, const std::byte* from, std::int64_t bytes) {
  switch (dtype) {
    case DType::kFloat32:
      return add_elements<float>(to, from, bytes);
    case DType::kFloat64:
      return add_elements<double>(to, from, bytes);
    case DType::kInt32:
      return add_elements<std::int32_t>(to, from, bytes);
    case DType::kInt64:
      return add_elements<std::int64_t>(to, from, bytes);
    default:
      COHORT_CHECK(false, "no atomic addition of " + std::string(name(dtype)));
  }
}

// Calls f(byte in the tensor, byte in the packed buffer, bytes) for each row.
template <class F>
void for_each_row(const Access& access, F f) {
  const Region& r = access.region;
  for (std::int64_t row = 0; row < r.rows; ++row) {
    f(access.tensor->data + r.begin + row * r.pitch, row * r.row_bytes, r.row_bytes);
  }
}

// What a kernel declares that a block may touch. Requires: it declares its regions.
TensorBytesMap declared_bytes(const BoundPhase& phase, std::int64_t block) {
  TensorBytesMap declared;
  phase.body.region(phase.args.get(), block, [&](const ViewFields& view, Direction direction) {
    TensorBytes& bytes = declared.at(*view.tensor);
    if (direction != Direction::kOut) bytes.reads.add(view.region());
    if (direction != Direction::kIn) bytes.writes.add(view.region());
  });
  return declared;
}

}  // namespace

std::string_view name(AccessKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

bool reads_memory(AccessKind kind) {
  return kind == AccessKind::kLoad || kind == AccessKind::kGet || kind == AccessKind::kGetDevice ||
         kind == AccessKind::kAccumulate || kind == AccessKind::kAddDevice ||
         kind == AccessKind::kWait;
}

bool writes_memory(AccessKind kind) {
  return kind == AccessKind::kStore || kind == AccessKind::kPut || kind == AccessKind::kPutDevice ||
         kind == AccessKind::kAccumulate || kind == AccessKind::kAddDevice;
}

BlockFootprint FootprintRecorder::run(const BoundPhase& phase, std::int64_t block,
                                      LaneIdentity identity, TilePoison poison) {
  current_ = {.block = block};
  {
    ModelledLane lane(*this, identity, poison);
    lane.begin_block(phase.body, block);
    phase.body.modelled(lane, phase.args.get(), block);
    lane.end_block();
  }
  if (phase.body.region != nullptr) check_declared(phase, block);
  return std::move(current_);
}

void FootprintRecorder::check_declared(const BoundPhase& phase, std::int64_t block) {
  const TensorBytesMap declared = declared_bytes(phase, block);
  for (const AccessRecord& record : current_.accesses) {
    const Access& access = record.access;
    ByteSet touched;
    touched.add(access.region);
    const TensorBytes* allowed = declared.find(access.tensor->id);
    const bool fits = allowed != nullptr &&
                      (!reads_memory(record.kind) || allowed->reads.contains(touched)) &&
                      (!writes_memory(record.kind) || allowed->writes.contains(touched));
    if (fits) continue;
    current_.violations.push_back(
        {std::string(phase.body.info.name), block,
         "kernel \"" + std::string(phase.body.info.name) + "\", block " + std::to_string(block) +
             ", operand " + std::to_string(access.operand) + ", tensor " + access.tensor->name +
             ": " + std::string(name(record.kind)) + " of " + to_string(access.region) +
             " is outside the region that the kernel declares for this block"});
  }
}

void FootprintRecorder::read(AccessKind kind, const Access& access, std::byte* to) {
  current_.accesses.push_back({kind, access});
  if (mode_ == Mode::kDry) {
    std::memset(to, 0, static_cast<std::size_t>(access.bytes()));
    return;
  }
  for_each_row(access, [&](const std::byte* memory, std::int64_t offset, std::int64_t bytes) {
    std::memcpy(to + offset, memory, static_cast<std::size_t>(bytes));
  });
}

void FootprintRecorder::write(AccessKind kind, const Access& access, const std::byte* from) {
  current_.accesses.push_back({kind, access});
  if (mode_ == Mode::kDry) return;
  for_each_row(access, [&](std::byte* memory, std::int64_t offset, std::int64_t bytes) {
    std::memcpy(memory, from + offset, static_cast<std::size_t>(bytes));
  });
}

void FootprintRecorder::load(const Access& access, std::byte* local) {
  read(AccessKind::kLoad, access, local);
}
void FootprintRecorder::store(const Access& access, const std::byte* local) {
  write(AccessKind::kStore, access, local);
}
void FootprintRecorder::accumulate(const Access& access, const std::byte* local) {
  current_.accesses.push_back({AccessKind::kAccumulate, access});
  if (mode_ == Mode::kDry) return;
  for_each_row(access, [&](std::byte* memory, std::int64_t offset, std::int64_t bytes) {
    add_typed(access.tensor->dtype, memory, local + offset, bytes);
  });
}
void FootprintRecorder::get(const Access& access, std::byte* value) {
  read(AccessKind::kGet, access, value);
}
void FootprintRecorder::put(const Access& access, const std::byte* value) {
  write(AccessKind::kPut, access, value);
}
void FootprintRecorder::get_device(const Access& access, std::byte* value) {
  read(AccessKind::kGetDevice, access, value);
}
void FootprintRecorder::put_device(const Access& access, const std::byte* value) {
  write(AccessKind::kPutDevice, access, value);
}
void FootprintRecorder::add_device(const Access& access, std::byte* value) {
  current_.accesses.push_back({AccessKind::kAddDevice, access});
  if (mode_ == Mode::kDry) {
    std::memset(value, 0, static_cast<std::size_t>(access.bytes()));
    return;
  }
  std::byte* memory = access.tensor->data + access.region.begin;
  std::byte before[8];
  const auto bytes = static_cast<std::size_t>(access.bytes());
  std::memcpy(before, memory, bytes);
  add_typed(access.tensor->dtype, memory, value, access.bytes());
  std::memcpy(value, before, bytes);
}

// Remote operations are recorded; their effect is another rank's.
void FootprintRecorder::put_remote(std::int64_t, const Access& access, const std::byte*) {
  current_.accesses.push_back({AccessKind::kPutRemote, access});
}
void FootprintRecorder::notify(std::int64_t, const Access& counter) {
  current_.accesses.push_back({AccessKind::kNotify, counter});
}
void FootprintRecorder::wait_at_least(const Access& counter, std::int64_t) {
  current_.accesses.push_back({AccessKind::kWait, counter});
}

void FootprintRecorder::charge(Work work) {
  for (const WorkItem& item : work) {
    current_.work[static_cast<std::size_t>(item.operation)] += item.elements;
  }
}
void FootprintRecorder::violated(Violation violation) {
  current_.violations.push_back(std::move(violation));
}
void FootprintRecorder::local_high_water(std::int64_t bytes) { current_.local_high_water = bytes; }

TensorBytes& TensorBytesMap::at(const Tensor& tensor) {
  const auto it = std::ranges::lower_bound(entries_, tensor.id, {},
                                           [](const TensorBytes& e) { return e.tensor->id; });
  if (it != entries_.end() && it->tensor->id == tensor.id) return *it;
  return *entries_.insert(it, TensorBytes{.tensor = &tensor});
}

const TensorBytes* TensorBytesMap::find(TensorId tensor) const {
  const auto it = std::ranges::lower_bound(entries_, tensor, {},
                                           [](const TensorBytes& e) { return e.tensor->id; });
  return it != entries_.end() && it->tensor->id == tensor ? &*it : nullptr;
}

void TensorBytesMap::add(const AccessRecord& record) {
  TensorBytes& bytes = at(*record.access.tensor);
  if (reads_memory(record.kind)) bytes.reads.add(record.access.region);
  if (writes_memory(record.kind)) bytes.writes.add(record.access.region);
  if (record.kind == AccessKind::kPut) bytes.cached_writes.add(record.access.region);
}

void TensorBytesMap::add(const TensorBytesMap& other) {
  for (const TensorBytes& o : other.entries_) {
    TensorBytes& bytes = at(*o.tensor);
    bytes.reads.add(o.reads);
    bytes.writes.add(o.writes);
    bytes.cached_writes.add(o.cached_writes);
  }
}

std::vector<TensorBytesMap> dry_footprint(const BoundPhase& phase, std::int64_t lanes) {
  std::vector<TensorBytesMap> blocks(static_cast<std::size_t>(phase.capacity));
  FootprintRecorder recorder(FootprintRecorder::Mode::kDry);
  for (std::int64_t b = 0; b < phase.capacity; ++b) {
    TensorBytesMap& bytes = blocks[static_cast<std::size_t>(b)];
    if (phase.body.region != nullptr) {
      bytes = declared_bytes(phase, b);
      continue;
    }
    const BlockFootprint footprint =
        recorder.run(phase, b, {.index = b % lanes, .lanes = lanes, .physical = b % lanes});
    for (const AccessRecord& record : footprint.accesses) bytes.add(record);
  }
  return blocks;
}

}  // namespace cohort
