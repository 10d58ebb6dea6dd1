#pragma once

#include <cstdint>
#include <string_view>

#include "cohort/lane/fuse.h"

#include "deepseek_v4/gate_kernels.h"
#include "deepseek_v4/hc_kernels.h"

namespace deepseek_v4 {

/// The operands of fused_pre_norm in ABI order: 13 tensors, then scalars. The workspace is no
/// output of the model: seven tensors are.
template <class Stream>
struct FusedPreNormArgs {
  Out<BFloat16> x_mixed;               // 0   [T, D]
  In<Stream> x_flat;                   // 1   [T, K]
  In<float> inv_rms;                   // 2   [Tp, 1]
  In<float> mixes_raw;                 // 3   [Tp, 32]
  In<float> hc_base;                   // 4   [24]
  In<BFloat16> norm_w;                 // 5   [D]
  Out<float> pre_val_store;            // 6   [Tp, 8]
  Out<float> post;                     // 7   [T, 4]
  Out<float> xg_buf;                   // 8   [Tp, D]
  Out<float> ffn_inv_rms_buf;          // 9   [Tp, 1]
  Out<float> xn_scale_buf;             // 10  [Tp, 1]
  Out<float> x_norm_scale;             // 11  [T, 1]
  InOut<std::int32_t> sync_workspace;  // 12  [64], zero
  float scale0 = 0;                    // 13
  float scale1 = 0;                    // 14
  std::int64_t num_tokens = 0;         // 15
  COHORT_OPERANDS(x_mixed, x_flat, inv_rms, mixes_raw, hc_base, norm_w, pre_val_store, post, xg_buf,
                  ffn_inv_rms_buf, xn_scale_buf, x_norm_scale, sync_workspace, scale0, scale1,
                  num_tokens)
};

/// Where the debug form stops; the values of its operand 16.
enum class StopAfter : std::int64_t { kSplit, kBarrier1, kMix, kBarrier2, kFull };

/// FusedPreNormArgs with the debug form's scalar behind it.
template <class Stream>
struct FusedPreNormDebugArgs {
  FusedPreNormArgs<Stream> args;
  std::int64_t stop_after = 0;  // 16

  static constexpr auto operand_table() {
    constexpr auto kProduction = FusedPreNormArgs<Stream>::operand_table();
    std::array<cohort::OperandInfo, kProduction.size() + 1> table;
    std::copy(kProduction.begin(), kProduction.end(), table.begin());
    table.back() = {"stop_after", cohort::Direction::kScalar, cohort::DType::kInt64};
    return table;
  }
  static constexpr std::size_t operand_struct_size() {
    return cohort::detail::struct_size<FusedPreNormArgs<Stream>, std::int64_t>();
  }
  template <class Visitor>
  void visit_operands(Visitor&& visit) {
    args.visit_operands(visit);
    visit(stop_after);
  }
};

inline constexpr std::int64_t kSyncWorkspace = 12;
inline constexpr std::int64_t kTensorArgCount = 13;
inline constexpr std::int64_t kScale0 = kTensorArgCount;
/// Words of the workspace: a slot of 8 for each of 8 lanes.
inline constexpr std::int64_t kSyncWorkspaceWords = 64;

namespace detail {

template <class Stream, class Args, class Select>
cohort::Fusion<Args> pre_norm_phases(cohort::FuseOptions options, Select select) {
  return cohort::fuse<Args>("fused_pre_norm", options)
      .template phase<SplitPrePost>([select](const Args& all) {
        const FusedPreNormArgs<Stream>& a = select(all);
        return SplitPrePost::Args{.inv_rms = a.inv_rms,
                                  .mixes_raw = a.mixes_raw,
                                  .hc_base = a.hc_base,
                                  .pre_val_store = a.pre_val_store,
                                  .post = a.post,
                                  .scale0 = a.scale0,
                                  .scale1 = a.scale1};
      })
      .barrier()
      .template phase<MixX<Stream>>([select](const Args& all) {
        const FusedPreNormArgs<Stream>& a = select(all);
        return typename MixX<Stream>::Args{
            .pre_val_store = a.pre_val_store, .x_flat = a.x_flat, .x_mixed = a.x_mixed};
      })
      .barrier()
      .template phase<FfnNorm>([select](const Args& all) {
        const FusedPreNormArgs<Stream>& a = select(all);
        return FfnNorm::Args{.x_mixed = a.x_mixed,
                             .norm_w = a.norm_w,
                             .xg_buf = a.xg_buf,
                             .ffn_inv_rms_buf = a.ffn_inv_rms_buf,
                             .xn_scale_buf = a.xn_scale_buf,
                             .x_norm_scale = a.x_norm_scale,
                             .num_tokens = a.num_tokens};
      });
}

}  // namespace detail

/// split_pre_post, mix_x and ffn_norm as one grid with two barriers.
template <class Stream>
cohort::KernelRef fused_pre_norm(cohort::FuseOptions options) {
  using Args = FusedPreNormArgs<Stream>;
  return detail::pre_norm_phases<Stream, Args>(options,
                                               [](const Args& a) -> const Args& { return a; });
}

/// The debug form: stops after the step that its last scalar names; all lanes stop there.
template <class Stream>
cohort::KernelRef fused_pre_norm_debug(cohort::FuseOptions options) {
  using Args = FusedPreNormDebugArgs<Stream>;
  return detail::pre_norm_phases<Stream, Args>(
             options, [](const Args& a) -> const FusedPreNormArgs<Stream>& { return a.args; })
      .stop_after([](const Args& a) { return a.stop_after + 1; });
}

}  // namespace deepseek_v4
