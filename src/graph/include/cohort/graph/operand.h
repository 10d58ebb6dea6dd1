#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "cohort/tensor/view.h"

namespace cohort {

/// How a task uses an operand. kOut: some of its bytes are written and none is read before; bytes
/// that aren't written keep their value. kInOut: anything else that writes.
enum class Direction : std::uint8_t { kIn, kOut, kInOut, kWindow, kScalar };

/// "In", "Out", "InOut", "Window", "scalar".
std::string_view name(Direction direction);

/// A tensor at one version, as a graph hands it out. Passing a handle as InOut consumes it: the
/// task makes a new version, and using the old one later is refused.
template <Element T>
class Handle : public View<T, Handle<T>> {
 public:
  Handle() = default;
  explicit Handle(const ViewFields& fields) : View<T, Handle<T>>(fields) {}
  /// Host access to the tensor's memory, for setting inputs and reading results between runs.
  T* host() const { return this->typed(); }
};

/// A tensor operand of a kernel: a typed view with a direction. Made from a handle, sliced by
/// rows(first, count) and cols(first, count); only a lane turns it into a tile.
template <class T, Direction D>
class Operand : public View<T, Operand<T, D>> {
 public:
  using ElementType = std::remove_const_t<T>;
  static constexpr Direction kDirection = D;

  Operand() = default;
  Operand(const Handle<ElementType>& handle) : View<T, Operand<T, D>>(handle) {}
  /// A phase sees its kernel's operand in a direction of its own.
  template <class U, Direction E>
  requires(D != E && std::is_same_v<std::remove_const_t<U>, ElementType>)
      Operand(const Operand<U, E>& other)
      : View<T, Operand<T, D>>(other) {}

  /// For lanes only: where DirectLane finds the bytes.
  T* direct() const { return this->typed(); }
};

template <Element T>
using In = Operand<const T, Direction::kIn>;
template <Element T>
using Out = Operand<T, Direction::kOut>;
template <Element T>
using InOut = Operand<T, Direction::kInOut>;
/// A symmetric buffer that other ranks write into.
template <Element T>
using Window = Operand<T, Direction::kWindow>;

/// One row of an operand table.
struct OperandInfo {
  std::string_view name = {};
  Direction direction = Direction::kIn;
  DType dtype = DType::kFloat32;

  bool is_tensor() const { return direction != Direction::kScalar; }
  friend bool operator==(const OperandInfo&, const OperandInfo&) = default;
};

namespace detail {

template <class T>
inline constexpr bool kIsOperand = false;
template <class T, Direction D>
inline constexpr bool kIsOperand<Operand<T, D>> = true;

template <class Member>
constexpr OperandInfo operand_info(std::string_view name) {
  if constexpr (kIsOperand<Member>) {
    return {name, Member::kDirection, kDTypeOf<typename Member::ElementType>};
  } else {
    static_assert(Element<Member>,
                  "an operand is an In, Out, InOut or Window, or a scalar of an element type");
    return {name, Direction::kScalar, kDTypeOf<Member>};
  }
}

template <std::size_t N>
constexpr bool tensors_come_first(const std::array<OperandInfo, N>& table) {
  bool scalar_seen = false;
  for (const OperandInfo& info : table) {
    if (info.direction == Direction::kScalar) {
      scalar_seen = true;
    } else if (scalar_seen) {
      return false;
    }
  }
  return true;
}

// The size of a struct whose members have these sizes and alignments, in order: tells whether
// COHORT_OPERANDS names every member.
template <class... Members>
constexpr std::size_t struct_size() {
  std::size_t size = 0;
  std::size_t alignment = 1;
  ((size = (size + alignof(Members) - 1) / alignof(Members) * alignof(Members) + sizeof(Members),
    alignment = alignof(Members) > alignment ? alignof(Members) : alignment),
   ...);
  return (size + alignment - 1) / alignment * alignment;
}

}  // namespace detail
}  // namespace cohort

#define COHORT_PARENS_ ()
#define COHORT_EXPAND_(...) COHORT_EXPAND3_(COHORT_EXPAND3_(COHORT_EXPAND3_(__VA_ARGS__)))
#define COHORT_EXPAND3_(...) COHORT_EXPAND2_(COHORT_EXPAND2_(COHORT_EXPAND2_(__VA_ARGS__)))
#define COHORT_EXPAND2_(...) COHORT_EXPAND1_(COHORT_EXPAND1_(COHORT_EXPAND1_(__VA_ARGS__)))
#define COHORT_EXPAND1_(...) __VA_ARGS__
// Applies `macro` to each of at most 53 arguments.
#define COHORT_FOR_EACH_(macro, ...) \
  __VA_OPT__(COHORT_EXPAND_(COHORT_FOR_EACH_STEP_(macro, __VA_ARGS__)))
#define COHORT_FOR_EACH_STEP_(macro, first, ...) \
  macro(first) __VA_OPT__(COHORT_FOR_EACH_AGAIN_ COHORT_PARENS_(macro, __VA_ARGS__))
#define COHORT_FOR_EACH_AGAIN_() COHORT_FOR_EACH_STEP_
#define COHORT_OPERAND_INFO_(member) ::cohort::detail::operand_info<decltype(member)>(#member),
#define COHORT_OPERAND_VISIT_(member) visit(member);
#define COHORT_OPERAND_TYPE_(member) , decltype(member)

/// Declares the operands of a kernel's Args, in ABI order: tensors first, then scalars. It names
/// every member of the struct, and is the only way to declare operands.
#define COHORT_OPERANDS(first_, ...)                                                             \
  static constexpr auto operand_table() {                                                        \
    constexpr std::array table = {COHORT_FOR_EACH_(COHORT_OPERAND_INFO_, first_, __VA_ARGS__)};  \
    static_assert(::cohort::detail::tensors_come_first(table),                                   \
                  "COHORT_OPERANDS: tensors come before scalars");                               \
    return table;                                                                                \
  }                                                                                              \
  static constexpr std::size_t operand_struct_size() {                                           \
    return ::cohort::detail::struct_size<decltype(first_) COHORT_FOR_EACH_(COHORT_OPERAND_TYPE_, \
                                                                           __VA_ARGS__)>();      \
  }                                                                                              \
  template <class Visitor>                                                                       \
  void visit_operands(Visitor&& visit) {                                                         \
    COHORT_FOR_EACH_(COHORT_OPERAND_VISIT_, first_, __VA_ARGS__)                                 \
  }
