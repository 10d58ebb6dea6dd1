#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cohort/base/tile.h"
#include "cohort/base/work.h"
#include "cohort/graph/operand.h"

namespace cohort {

/// Bytes of one operand that a lane is about to touch.
struct Access {
  const Tensor* tensor = nullptr;
  std::int32_t operand = -1;  ///< Index in the task's operand table.
  Region region = {};

  std::int64_t bytes() const { return region.bytes(); }
};

/// What a block did that its contract forbids, in words that name kernel, block and operand.
struct Violation {
  std::string kernel = {};
  std::int64_t block = 0;
  std::string text = {};
};

/// What a ModelledLane runs on: one virtual call per tile or element. Local buffers are packed,
/// rows without gaps. Implemented by the simulated device, by the recorder of footprints and by
/// tests.
class LaneModel {
 public:
  virtual ~LaneModel() = default;

  // Tiles, by the DMA path.
  virtual void load(const Access& access, std::byte* local) = 0;
  virtual void store(const Access& access, const std::byte* local) = 0;
  /// Adds elements of the tensor's type, atomically one by one.
  virtual void accumulate(const Access& access, const std::byte* local) = 0;

  // One element through the core's data cache.
  virtual void get(const Access& access, std::byte* value) = 0;
  virtual void put(const Access& access, const std::byte* value) = 0;

  // One element, uncached.
  virtual void get_device(const Access& access, std::byte* value) = 0;
  virtual void put_device(const Access& access, const std::byte* value) = 0;
  /// Adds `value` and leaves the element's value before in it.
  virtual void add_device(const Access& access, std::byte* value) = 0;

  // Windows.
  virtual void put_remote(std::int64_t rank, const Access& access, const std::byte* local) = 0;
  virtual void notify(std::int64_t rank, const Access& counter) = 0;
  virtual void wait_at_least(const Access& counter, std::int64_t value) = 0;

  virtual void charge(Work work) = 0;

  /// The block broke its contract. It goes on, on memory that can't hurt.
  virtual void violated(Violation violation) = 0;

  /// Bytes of local memory for tiles.
  virtual std::int64_t local_bytes() const { return kDefaultLocalBytes; }
  /// A block's tiles took this much local memory at most.
  virtual void local_high_water(std::int64_t bytes) { (void)bytes; }

  /// The unified buffer of an A2/A3 vector core without what its library reserves.
  static constexpr std::int64_t kDefaultLocalBytes = 184 * 1024;
};

}  // namespace cohort
