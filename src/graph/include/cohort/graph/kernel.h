#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/base/result.h"
#include "cohort/graph/operand.h"

namespace cohort {

class DirectLane;  // Defined in module `lane`: the two lanes a body is compiled for.
class ModelledLane;

/// The kind of core that a kernel runs on.
enum class CoreKind : std::uint8_t { kVector, kCube };
std::string_view name(CoreKind kind);

/// What a kernel says of itself.
struct KernelInfo {
  std::string_view name = {};
  CoreKind core = CoreKind::kVector;
};

/// The barrier between the phases of a fused kernel. The policy's words are in the last tensor
/// operand, the workspace:
///   kSlot     8 int32 per lane; lane l counts its own arrivals in word 8 l;
///   kCounter  16 int32 (a line of its own); word 0 counts all arrivals;
///   kHard     none: counts every vector core of the launch's topology, so it launches one lane on
///   each.
enum class Barrier : std::uint8_t { kNone, kSlot, kCounter, kHard };
std::string_view name(Barrier barrier);

/// How the type of a kernel's arguments is handled once its name is lost. One object per type, so
/// that equality of pointers is equality of types.
struct ArgsType {
  std::span<const OperandInfo> table = {};
  std::vector<std::size_t> offsets = {};  ///< Of each operand in the struct, bytes.
  std::shared_ptr<void> (*clone)(const void* args) = nullptr;

  std::int64_t tensors() const;
  ViewFields& tensor(void* args, std::size_t operand) const;
  const ViewFields& tensor(const void* args, std::size_t operand) const;
  void* scalar(void* args, std::size_t operand) const;
  const void* scalar(const void* args, std::size_t operand) const;
};

/// The bytes of one operand that a block may touch, for kernels whose addresses depend on data.
using RegionSink = std::function<void(const ViewFields& view, Direction direction)>;

/// One kernel's code over erased arguments.
struct KernelBody {
  KernelInfo info = {};
  const ArgsType* args_type = nullptr;
  /// How many blocks these arguments ask for.
  std::int64_t (*blocks)(const void* args) = nullptr;
  /// The most blocks they could ask for with any value of their scalars; run is defined for each.
  std::int64_t (*capacity)(const void* args) = nullptr;
  void (*direct)(DirectLane& lane, const void* args, std::int64_t block) = nullptr;
  void (*modelled)(ModelledLane& lane, const void* args, std::int64_t block) = nullptr;
  /// Null unless the kernel declares its regions.
  void (*region)(const void* args, std::int64_t block, const RegionSink& sink) = nullptr;
  /// Null unless the kernel checks its arguments.
  Status (*validate)(const void* args) = nullptr;
};

/// One kernel's share of a fused kernel.
struct Phase {
  KernelBody body = {};
  /// The phase's own arguments, made from the kernel's; null if they are the same.
  std::function<std::shared_ptr<const void>(const void* args)> project = {};
};

/// The meeting after a phase.
struct Meeting {
  /// Lanes [0, participants) meet, the others go on; 0 means all.
  std::int64_t participants = 0;
};

struct BoundKernel;

/// A kernel with its types erased: what a graph holds. A plain kernel has one phase and no
/// meetings; a fused one has a meeting between every two phases. A value; cheap to copy.
struct KernelRef {
  std::string name = {};
  CoreKind core = CoreKind::kVector;
  const ArgsType* args_type = nullptr;
  std::vector<Phase> phases = {};
  std::vector<Meeting> meetings = {};  ///< phases.size() - 1 of them.
  Barrier barrier = Barrier::kNone;
  std::int64_t lane_cap =
      0;  ///< Most lanes of a fused kernel; 0 for a plain one: a lane per block.
  std::int64_t vector_cores = 0;  ///< Of the topology, for a hard barrier.
  /// Steps (phase, meeting, phase, ...) to run, for debug entries; null runs all.
  std::function<std::int64_t(const void* args)> steps = {};
  /// Refuses arguments under which the phases can't be fused; null in a plain kernel.
  Status (*check)(const BoundKernel& kernel) = nullptr;

  bool is_fused() const { return lane_cap > 0; }
  /// Meetings of different participants use words of their own: how many sets there are.
  std::int64_t participant_sets(std::int64_t lanes) const;
  /// int32 words of workspace that `lanes` lanes need; 0 for a hard barrier or none.
  std::int64_t workspace_words(std::int64_t lanes) const;
};

/// A phase with its arguments and their consequences.
struct BoundPhase {
  KernelBody body = {};
  std::shared_ptr<const void> args = {};
  std::int64_t blocks = 0;
  std::int64_t capacity = 0;
};

/// A meeting with the numbers that its policy needs.
struct BoundMeeting {
  std::int64_t participants = 0;  ///< Lanes [0, participants) arrive.
  std::int64_t expected = 0;      ///< Arrivals that release it: participants, or all cores if hard.
  std::int64_t first_word = 0;    ///< Of its participant set in the workspace.
};

/// A kernel bound to arguments: everything an executor needs to run it.
struct BoundKernel {
  std::int64_t lanes = 0;
  std::vector<BoundPhase> phases = {};
  std::vector<BoundMeeting> meetings = {};  ///< Follows phase i; as many as phases, or one less.
  Barrier barrier = Barrier::kNone;
  ViewFields workspace = {};  ///< Null without a barrier.
};

/// Binds a kernel. Lanes of a fused kernel: all vector cores if its barrier is hard, else
/// max(1, min(lane_cap, the largest phase's capacity)); of a plain one: its blocks.
/// `lanes` above 0 overrides that.
BoundKernel bind_kernel(const KernelRef& kernel, const std::shared_ptr<const void>& args,
                        std::int64_t lanes = 0);

/// The block that lane `lane` of `lanes` runs as its n-th is lane + n * lanes; this is their
/// number.
constexpr std::int64_t blocks_of_lane(std::int64_t blocks, std::int64_t lane, std::int64_t lanes) {
  return lane >= blocks ? 0 : (blocks - lane + lanes - 1) / lanes;
}

/// The ArgsType of `Args`.
template <class Args>
const ArgsType& args_type() {
  static constexpr auto kTable = Args::operand_table();
  static_assert(Args::operand_struct_size() == sizeof(Args),
                "COHORT_OPERANDS must name every member of the struct, in order");
  static const ArgsType kType = [] {
    ArgsType type;
    type.table = kTable;
    Args example{};
    example.visit_operands([&](auto& member) {
      type.offsets.push_back(
          static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&member) -
                                   reinterpret_cast<const std::byte*>(&example)));
    });
    type.clone = [](const void* args) -> std::shared_ptr<void> {
      return std::make_shared<Args>(*static_cast<const Args*>(args));
    };
    return type;
  }();
  return kType;
}

}  // namespace cohort
