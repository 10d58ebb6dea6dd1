#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cohort/base/result.h"
#include "cohort/base/work.h"
#include "cohort/graph/kernel.h"
#include "cohort/lane/lane_model.h"
#include "cohort/lane/modelled_lane.h"
#include "cohort/tensor/byte_set.h"

namespace cohort {

/// How a lane touched memory.
enum class AccessKind : std::uint8_t {
  kLoad,
  kStore,
  kAccumulate,
  kGet,
  kPut,
  kGetDevice,
  kPutDevice,
  kAddDevice,
  kPutRemote,
  kNotify,
  kWait,
};
std::string_view name(AccessKind kind);
bool reads_memory(AccessKind kind);
bool writes_memory(AccessKind kind);

struct AccessRecord {
  AccessKind kind = AccessKind::kLoad;
  Access access = {};
};

/// What one block did, in order.
struct BlockFootprint {
  std::int64_t block = 0;
  std::vector<AccessRecord> accesses = {};
  std::array<std::int64_t, kOperations> work = {};  ///< Elements by Operation.
  std::int64_t local_high_water = 0;                ///< Bytes.
  std::vector<Violation> violations = {};
};

/// A LaneModel whose memory is the tensors' own, for one lane at a time; records what it is asked
/// for.
class FootprintRecorder : public LaneModel {
 public:
  /// kLive reads and writes the tensors. kDry reads zeros and writes nothing: enough for kernels
  /// whose addresses don't depend on data.
  enum class Mode : std::uint8_t { kLive, kDry };

  explicit FootprintRecorder(Mode mode) : mode_(mode) {}

  /// Runs one block and returns what it did.
  BlockFootprint run(const BoundPhase& phase, std::int64_t block, LaneIdentity identity,
                     TilePoison poison = TilePoison::kFirst);

  void load(const Access& access, std::byte* local) override;
  void store(const Access& access, const std::byte* local) override;
  void accumulate(const Access& access, const std::byte* local) override;
  void get(const Access& access, std::byte* value) override;
  void put(const Access& access, const std::byte* value) override;
  void get_device(const Access& access, std::byte* value) override;
  void put_device(const Access& access, const std::byte* value) override;
  void add_device(const Access& access, std::byte* value) override;
  void put_remote(std::int64_t rank, const Access& access, const std::byte* local) override;
  void notify(std::int64_t rank, const Access& counter) override;
  void wait_at_least(const Access& counter, std::int64_t value) override;
  void charge(Work work) override;
  void violated(Violation violation) override;
  void local_high_water(std::int64_t bytes) override;

 private:
  void read(AccessKind kind, const Access& access, std::byte* to);
  void write(AccessKind kind, const Access& access, const std::byte* from);
  void check_declared(const BoundPhase& phase, std::int64_t block);

  Mode mode_;
  BlockFootprint current_;
};

/// The bytes of each tensor that a block, or all blocks of a lane, read and write.
struct TensorBytes {
  const Tensor* tensor = nullptr;
  ByteSet reads = {};
  ByteSet writes = {};
  ByteSet cached_writes = {};  ///< Those of `writes` that went through the data cache.
};

/// Per tensor, in order of tensor id.
class TensorBytesMap {
 public:
  TensorBytes& at(const Tensor& tensor);
  const TensorBytes* find(TensorId tensor) const;
  void add(const AccessRecord& record);
  void add(const TensorBytesMap& other);
  const std::vector<TensorBytes>& entries() const { return entries_; }

 private:
  std::vector<TensorBytes> entries_;
};

/// What every block of a phase touches, without running on real data: by running it dry, or by its
/// declared regions if its addresses depend on data. Index = block, 0 <= block < capacity.
std::vector<TensorBytesMap> dry_footprint(const BoundPhase& phase, std::int64_t lanes);

}  // namespace cohort
