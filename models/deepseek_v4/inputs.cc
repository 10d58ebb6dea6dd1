#include "deepseek_v4/inputs.h"

#include <algorithm>
#include <cmath>

#include "cohort/base/hash.h"
#include "cohort/base/random.h"

namespace deepseek_v4 {
namespace {

using cohort::Handle;
using cohort::Hasher;
using cohort::Random;

Random stream_of(std::uint64_t seed, std::string_view name) {
  return Random(seed, Hasher().add(name).digest());
}

template <class T>
void fill_normal(PreNormGraph& graph, std::string_view name, std::uint64_t seed, double sigma) {
  const auto found = graph.graph.find<T>(name);
  if (!found) return;  // hc-chain has no router.
  const Random random = stream_of(seed, name);
  const auto count = static_cast<std::uint64_t>(found->rows() * found->cols());
  T* values = found->host();
  for (std::uint64_t i = 0; i < count; ++i)
    values[i] = T(static_cast<float>(sigma * random.normal(i)));
}

// k distinct experts per token: the first k different ones of a random sequence.
void draw_table(const Handle<std::int32_t>& table, std::int64_t experts, std::uint64_t seed) {
  Random random = stream_of(seed, "tid2eid");
  for (std::int64_t v = 0; v < table.rows(); ++v) {
    std::int32_t* row = table.host() + v * table.cols();
    for (std::int64_t j = 0; j < table.cols();) {
      row[j] = static_cast<std::int32_t>(random.next_below(static_cast<std::uint64_t>(experts)));
      if (std::find(row, row + j, row[j]) == row + j) ++j;
    }
  }
}

}  // namespace

const HcParameters& hc_parameters(ParameterSet set) {
  static const std::array<HcParameters, 4> kSets = {{
      {{0.076099f, 0.032597f, 0.226994f},
       {5.9166f,  -3.6223f, -2.9324f, -3.3124f, -3.9100f, -0.9384f, -3.3256f, -2.5240f,
        2.0706f,  -2.5728f, 0.1424f,  -3.9453f, -3.8859f, 3.4634f,  -3.3799f, -2.6077f,
        -2.7191f, -2.4846f, 2.0395f,  -0.5010f, -3.5992f, -2.7520f, -3.3493f, 3.1587f}},
      {{0.11334f, 0.035901f, 0.058183f},
       {2.4153f,  -2.0252f, -2.0019f, -2.1947f, -1.5430f, -3.0228f, -6.8248f, 0.5894f,
        2.1916f,  -7.2132f, -3.0938f, -2.1119f, -3.0161f, 3.3293f,  -3.2224f, -4.0226f,
        -2.0428f, -3.3478f, 3.0893f,  -3.4166f, -1.8144f, -3.8147f, -3.1307f, 1.7862f}},
      {{2.076026f, 0.018729f, 0.245936f},
       {3.9083f,   -2.0399f, -2.2033f,  -2.017f,   -2.4443f, -10.3158f, -8.9943f,  -6.3581f,
        9.8577f,   -9.5177f, -24.8724f, -22.8929f, -21.545f, 0.7791f,   -3.386f,   1.1948f,
        -20.9605f, -0.7702f, 1.4218f,   -4.8994f,  1.5177f,  -29.7663f, -30.1413f, -1.2413f}},
      {{0.079046f, 0.04213f, 0.121901f},
       {-3.3004f, 2.5553f,  -2.2787f, -3.4925f, -3.8197f, -3.4161f, -2.7144f, -2.9181f,
        2.362f,   -2.4746f, -2.1352f, -3.2216f, -4.474f,  2.2488f,  -2.1053f, -3.1675f,
        -2.8362f, -1.9042f, 2.0432f,  -3.062f,  -2.7902f, -3.0908f, -3.002f,  3.1161f}},
  }};
  return kSets[static_cast<std::size_t>(set)];
}

void draw_inputs(PreNormGraph& graph, std::uint64_t seed, ParameterSet set) {
  const double gate_sigma = 1.0 / std::sqrt(static_cast<double>(graph.extents.hidden));
  if (graph.graph.find<float>("x_hc")) {
    fill_normal<float>(graph, "x_hc", seed, 1.0);
  } else {
    fill_normal<BFloat16>(graph, "x_hc", seed, 1.0);
  }
  fill_normal<float>(graph, "hc_ffn_fn", seed, 0.0635);
  fill_normal<BFloat16>(graph, "ffn_out", seed, 1.0);
  fill_normal<float>(graph, "gate_w", seed, gate_sigma);
  fill_normal<float>(graph, "gate_bias", seed, 0.1);
  std::ranges::copy(hc_parameters(set).base, graph.graph.find<float>("hc_ffn_base")->host());
  const auto norm_w = graph.graph.find<BFloat16>("norm_w");
  std::fill_n(norm_w->host(), norm_w->cols(), BFloat16(1.0f));
  if (const auto ids = graph.graph.find<std::int64_t>("input_ids")) {
    const auto table = graph.graph.find<std::int32_t>("tid2eid");
    const Random random = stream_of(seed, "input_ids");
    for (std::int64_t t = 0; t < ids->cols(); ++t) {
      ids->host()[t] = static_cast<std::int64_t>(
          random.below(static_cast<std::uint64_t>(t), static_cast<std::uint64_t>(table->rows())));
    }
    draw_table(*table, graph.extents.experts, seed);
  }
}

}  // namespace deepseek_v4
