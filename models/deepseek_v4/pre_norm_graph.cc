#include "deepseek_v4/pre_norm_graph.h"

#include <algorithm>

namespace deepseek_v4 {
namespace {

using cohort::Barrier;
using cohort::ErrorCode;
using cohort::fail;
using cohort::FuseOptions;
using cohort::Graph;
using cohort::Handle;
using cohort::kernel_ref;
using cohort::Launch;
using cohort::reads;
using cohort::Submission;
using cohort::TaskId;

/// standin[t] = x_norm_scale[t] == 0 ? 0 : sum over d of x_norm_i8[t, d]: an exact function of
/// both. Blocks: block b is token b.
struct SharedStandin {
  static constexpr KernelInfo kInfo{.name = "shared_standin"};
  struct Args {
    In<std::int8_t> x_norm_i8;  // [T, D]
    In<float> x_norm_scale;     // [T, 1]
    Out<std::int32_t> standin;  // [T, 16]: a line per token, column 0 used
    COHORT_OPERANDS(x_norm_i8, x_norm_scale, standin)
  };
  static std::int64_t blocks(const Args& a) { return a.x_norm_i8.rows(); }
  template <class L>
  static void run(L& lane, const Args& a, std::int64_t block) {
    const auto scale = lane.load(a.x_norm_scale.rows(block, 1));
    std::int32_t sum = 0;
    if (scale(0, 0) != 0.0f) {  // Rows of inactive tokens may never have been written.
      const auto x = lane.load(a.x_norm_i8.rows(block, 1));
      for (std::int64_t d = 0; d < x.cols; ++d) sum += x(0, d);
      const WorkItem work[] = {{Operation::kAdd, x.cols}};
      lane.charge(work);
    }
    auto out = lane.output(a.standin.rows(block, 1).cols(0, 1));
    out(0, 0) = sum;
    lane.store(out);
  }
};

Barrier barrier_of(Variant variant) {
  switch (variant) {
    case Variant::kSlot:
      return Barrier::kSlot;
    case Variant::kCounter:
      return Barrier::kCounter;
    case Variant::kHard:
      return Barrier::kHard;
    case Variant::kUnfused:
      break;
  }
  return Barrier::kNone;
}

bool routes_by_id(const PreNormOptions& options) {
  return !options.hc_chain && options.layer_id < options.config.num_hash_layers;
}

// Builds one graph. Members are the tensors and tasks that later steps refer to.
template <class Stream>
class Builder {
 public:
  Builder(const PreNormOptions& o, const HcScales& s, const Extents& e)
      : options_(o),
        scales_(s),
        e_(e),
        fused_(o.variant != Variant::kUnfused),
        graph_(o.hc_chain ? "hc-chain" : "pre-norm") {}

  Graph build() && {
    make_tensors();
    producers();
    if (fused_) {
      fused();
    } else {
      unfused();
    }
    quantise();
    if (!options_.hc_chain) route();
    finish();
    return std::move(graph_);
  }

 private:
  void make_tensors() {
    const std::int64_t t = e_.tokens;
    const std::int64_t tp = e_.padded_tokens;
    x_hc_ = graph_.tensor<Stream>("x_hc", {t, e_.streams, e_.hidden});
    hc_fn_ = graph_.tensor<float>("hc_ffn_fn", {e_.mixes, e_.flat});
    hc_base_ = graph_.tensor<float>("hc_ffn_base", {e_.mixes});
    norm_w_ = graph_.tensor<BFloat16>("norm_w", {e_.hidden});
    ffn_out_ = graph_.tensor<BFloat16>("ffn_out", {t, e_.hidden});
    // Explicit edges take the place of these two tensors' automatic ones in the fused graph.
    inv_rms_ = graph_.tensor<float>("inv_rms", {tp, 1}, {.manual_dep = fused_});
    mixes_raw_ = graph_.tensor<float>("mixes_raw", {tp, kMixPad}, {.manual_dep = fused_});
    pre_val_store_ = graph_.tensor<float>("pre_val_store", {tp, kGatePad});
    post_ = graph_.tensor<float>("post", {t, e_.streams});
    comb_ = graph_.tensor<float>("comb", {t, e_.streams * e_.streams});
    x_mixed_ = graph_.tensor<BFloat16>("x_mixed", {t, e_.hidden});
    xg_buf_ = graph_.tensor<float>("xg_buf", {tp, e_.hidden});
    ffn_inv_rms_buf_ = graph_.tensor<float>("ffn_inv_rms_buf", {tp, 1});
    xn_scale_buf_ = graph_.tensor<float>("xn_scale_buf", {tp, 1});
    x_norm_scale_ = graph_.tensor<float>("x_norm_scale", {t, 1});
    x_norm_i8_ = graph_.tensor<std::int8_t>("x_norm_i8", {t, e_.hidden});
    x_next_ = graph_.tensor<Stream>("x_next", {t, e_.streams, e_.hidden});
  }

  void producers() {
    const Launch hint{.allow_early_resolve = true};
    rms_ = graph_
               .submit(kernel_ref<HcPreRms<Stream>>(),
                       typename HcPreRms<Stream>::Args{x_hc_, inv_rms_, options_.config.rms_chunk},
                       hint)
               .id;
    if (options_.atomic_linear) {
      const TaskId seed =
          graph_.submit(kernel_ref<HcPreSeed>(), HcPreSeed::Args{mixes_raw_}, hint).id;
      const Submission linear =
          graph_.submit(kernel_ref<HcPreLinearAtomic<Stream>>(),
                        typename HcPreLinearAtomic<Stream>::Args{x_hc_, hc_fn_, mixes_raw_},
                        {.deps = fused_ ? std::vector{seed} : std::vector<TaskId>{},
                         .allow_early_resolve = true});
      mixes_raw_ = linear.template handle<float>("mixes_raw");
      linear_ = linear.id;
      return;
    }
    const auto partials =
        graph_.tensor<float>("mixes_partials", {kLinearSplits * e_.padded_tokens, kMixPad});
    graph_.submit(kernel_ref<HcPreLinear<Stream>>(),
                  typename HcPreLinear<Stream>::Args{x_hc_, hc_fn_, partials}, hint);
    linear_ =
        graph_.submit(kernel_ref<HcPreReduce>(), HcPreReduce::Args{partials, mixes_raw_}, hint).id;
  }

  void unfused() {
    graph_.submit(kernel_ref<SplitPrePost>(),
                  SplitPrePost::Args{inv_rms_, mixes_raw_, hc_base_, pre_val_store_, post_,
                                     scales_.pre, scales_.post});
    graph_.submit(kernel_ref<MixX<Stream>>(),
                  typename MixX<Stream>::Args{pre_val_store_, x_hc_, x_mixed_});
    norm_ = graph_
                .submit(kernel_ref<FfnNorm>(),
                        FfnNorm::Args{x_mixed_, norm_w_, xg_buf_, ffn_inv_rms_buf_, xn_scale_buf_,
                                      x_norm_scale_, options_.num_tokens})
                .id;
  }

  void fused() {
    const FuseOptions fuse{.lanes = options_.lanes,
                           .barrier = barrier_of(options_.variant),
                           .vector_cores = options_.vector_cores};
    const auto workspace = graph_.tensor<std::int32_t>(
        "sync_workspace", {std::max(kSyncWorkspaceWords, 8 * options_.lanes)}, {.initial = 0});
    const FusedPreNormArgs<Stream> args{
        x_mixed_,       x_hc_,       inv_rms_,     mixes_raw_,         hc_base_,      norm_w_,
        pre_val_store_, post_,       xg_buf_,      ffn_inv_rms_buf_,   xn_scale_buf_, x_norm_scale_,
        workspace,      scales_.pre, scales_.post, options_.num_tokens};
    const Launch launch{.deps = {rms_, linear_}, .sync_start = true, .allow_early_resolve = true};
    if (options_.stop_after == StopAfter::kFull) {
      norm_ = graph_.submit(fused_pre_norm<Stream>(fuse), args, launch).id;
    } else {
      const FusedPreNormDebugArgs<Stream> debug{args,
                                                static_cast<std::int64_t>(options_.stop_after)};
      norm_ = graph_.submit(fused_pre_norm_debug<Stream>(fuse), debug, launch).id;
    }
  }

  // Consumers of the normalised row name the fused task, besides their data edges.
  Launch after_norm() const {
    return {.deps = fused_ ? std::vector{norm_} : std::vector<TaskId>{}};
  }

  void quantise() {
    graph_.submit(kernel_ref<XNormQuant>(),
                  XNormQuant::Args{xg_buf_, xn_scale_buf_, x_norm_i8_, options_.num_tokens},
                  after_norm());
  }

  void route() {
    const std::int64_t t = e_.tokens;
    const std::int64_t tp = e_.padded_tokens;
    const std::int64_t n = options_.num_tokens;
    const bool hash = routes_by_id(options_);
    const auto gate_w = graph_.tensor<float>("gate_w", {e_.experts, e_.hidden});
    const auto gate_bias = graph_.tensor<float>("gate_bias", {e_.experts});
    const auto tid2eid =
        graph_.tensor<std::int32_t>("tid2eid", {options_.config.vocab_size, e_.top_k});
    const auto input_ids = graph_.tensor<std::int64_t>("input_ids", {t});
    const auto scores = graph_.tensor<float>("route_scores_buf", {tp, e_.score_pad});
    const auto biased = graph_.tensor<float>("biased_scores_buf", {tp, e_.score_pad});
    const auto indices = graph_.tensor<std::int32_t>("indices", {t, e_.top_k});
    const auto weights = graph_.tensor<float>("weights", {t, e_.top_k});

    const Submission pre_route =
        graph_.submit(kernel_ref<GatePreRoute>(),
                      GatePreRoute::Args{x_norm_scale_, indices, weights,
                                         biased.cols(e_.experts, e_.score_pad - e_.experts), n},
                      after_norm());
    const auto x_norm_scale = pre_route.handle<float>("x_norm_scale");
    graph_.submit(
        kernel_ref<Gate>(),
        Gate::Args{xg_buf_, ffn_inv_rms_buf_, gate_w, gate_bias, scores.cols(0, e_.experts),
                   biased.cols(0, e_.experts), t, n, hash ? 0 : 1},
        after_norm());
    const float factor = options_.config.routed_scaling_factor;
    if (hash) {
      graph_.submit(kernel_ref<RouteHash>(),
                    RouteHash::Args{input_ids, tid2eid, scores.cols(0, e_.experts), indices,
                                    weights, factor, n});
    } else {
      graph_.submit(kernel_ref<RouteSort>(), RouteSort::Args{scores.cols(0, e_.experts), biased,
                                                             indices, weights, factor, n});
    }
    dispatch_ = graph_
                    .dummy("dispatch_standin",
                           {reads(indices), reads(weights), reads(x_norm_i8_), reads(x_norm_scale)})
                    .id;
    const auto standin = graph_.tensor<std::int32_t>("shared_standin", {t, 16});
    graph_.submit(kernel_ref<SharedStandin>(),
                  SharedStandin::Args{x_norm_i8_, x_norm_scale, standin});
  }

  void finish() {
    Launch launch;
    if (fused_)
      launch = {.deps = {options_.hc_chain ? norm_ : dispatch_}, .allow_early_resolve = true};
    graph_.submit(kernel_ref<CombSinkhorn>(),
                  CombSinkhorn::Args{inv_rms_, mixes_raw_, hc_base_, comb_, scales_.comb,
                                     options_.config.hc_sinkhorn_iters},
                  launch);
    graph_.submit(kernel_ref<HcPost<Stream>>(),
                  typename HcPost<Stream>::Args{ffn_out_, x_hc_, post_, comb_, x_next_});
  }

  const PreNormOptions& options_;
  HcScales scales_;
  Extents e_;
  bool fused_;
  Graph graph_;
  Handle<Stream> x_hc_, x_next_;
  Handle<float> hc_fn_, hc_base_, inv_rms_, mixes_raw_, pre_val_store_, post_, comb_, xg_buf_;
  Handle<float> ffn_inv_rms_buf_, xn_scale_buf_, x_norm_scale_;
  Handle<BFloat16> norm_w_, ffn_out_, x_mixed_;
  Handle<std::int8_t> x_norm_i8_;
  TaskId rms_, linear_, norm_, dispatch_;
};

}  // namespace

cohort::Result<PreNormGraph> build_pre_norm(const PreNormOptions& options, const HcScales& scales) {
  COHORT_TRY(const Extents e, extents_of(options.config, options.tokens, options.experts));
  if (options.lanes < 1 || options.vector_cores < 1) {
    return fail(ErrorCode::kInvalidArgument,
                "lanes is " + std::to_string(options.lanes) + ", expected at least 1");
  }
  Graph graph = options.bf16_stream ? Builder<BFloat16>(options, scales, e).build()
                                    : Builder<float>(options, scales, e).build();
  COHORT_TRY_STATUS(graph.validate());
  return PreNormGraph{std::move(graph), e, routes_by_id(options)};
}

std::vector<std::string> inputs_of(const PreNormOptions& options) {
  std::vector<std::string> names = {"x_hc", "hc_ffn_fn", "hc_ffn_base", "norm_w"};
  if (!options.hc_chain) {
    names.insert(names.end(), {"gate_w", "gate_bias", "tid2eid", "input_ids"});
  }
  names.push_back("ffn_out");
  return names;
}

std::vector<std::string> outputs_of(const PreNormOptions& options) {
  std::vector<std::string> names = {
      "inv_rms", "mixes_raw",       "pre_val_store", "post",         "comb",     "x_mixed",
      "xg_buf",  "ffn_inv_rms_buf", "xn_scale_buf",  "x_norm_scale", "x_norm_i8"};
  if (!options.hc_chain) {
    names.insert(names.end(),
                 {"route_scores_buf", "biased_scores_buf", "indices", "weights", "shared_standin"});
  }
  names.push_back("x_next");
  return names;
}

std::vector<cohort::check::DeclaredProducers> declared_producers(const PreNormOptions& options) {
  if (options.variant == Variant::kUnfused) return {};
  const std::string fused = "fused_pre_norm";
  const std::string linear = options.atomic_linear ? "hc_pre_linear_atomic" : "hc_pre_reduce";
  std::vector<cohort::check::DeclaredProducers> declared = {
      {fused, {"hc_pre_rms", linear}, true},
      {"comb_sinkhorn", {options.hc_chain ? fused : "dispatch_standin"}, true},
      {"x_norm_quant", {fused}, true}};
  if (!options.hc_chain) {
    declared.push_back({"gate_pre_route", {fused}, true});
    declared.push_back({"gate", {fused}, false});
  }
  return declared;
}

cohort::Status validate_routing(const PreNormGraph& graph, std::int64_t num_tokens) {
  if (!graph.hash_routing) return {};
  COHORT_TRY(const auto ids, graph.graph.find<std::int64_t>("input_ids"));
  COHORT_TRY(const auto table, graph.graph.find<std::int32_t>("tid2eid"));
  const std::int64_t active = active_tokens(num_tokens, graph.extents.tokens);
  for (std::int64_t t = 0; t < active; ++t) {
    const std::int64_t id = ids.host()[t];
    if (id < 0 || id >= table.rows()) {
      return fail(ErrorCode::kInvalidArgument, "input_ids[" + std::to_string(t) + "] is " +
                                                   std::to_string(id) + ", expected 0 to " +
                                                   std::to_string(table.rows() - 1));
    }
    const std::int32_t* entry = table.host() + id * table.cols();
    for (std::int64_t j = 0; j < table.cols(); ++j) {
      const std::string where = "tid2eid[" + std::to_string(id) + ", " + std::to_string(j) + "]";
      if (entry[j] < 0 || entry[j] >= graph.extents.experts) {
        return fail(ErrorCode::kInvalidArgument, where + " is " + std::to_string(entry[j]) +
                                                     ", expected 0 to " +
                                                     std::to_string(graph.extents.experts - 1));
      }
      if (std::find(entry, entry + j, entry[j]) != entry + j) {
        return fail(ErrorCode::kInvalidArgument,
                    where + " names expert " + std::to_string(entry[j]) +
                        " a second time: the experts of a token are distinct");
      }
    }
  }
  return {};
}

}  // namespace deepseek_v4
