// oneTBB's flow graph: built once, run many times, as a prepared graph is.
#include <memory>

#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>

#include "samples.h"

namespace {

namespace flow = oneapi::tbb::flow;
using Node = flow::continue_node<flow::continue_msg>;

// `layers` layers of `width`; each node waits for all of the layer before.
std::vector<double> layers(int workers, int count, int width) {
  const oneapi::tbb::global_control control(oneapi::tbb::global_control::max_allowed_parallelism,
                                            static_cast<std::size_t>(workers));
  flow::graph graph;
  flow::broadcast_node<flow::continue_msg> start(graph);
  std::vector<std::unique_ptr<Node>> nodes;
  for (int i = 0; i < count * width; ++i) {
    nodes.push_back(std::make_unique<Node>(graph, [](const flow::continue_msg&) {}));
    const int layer = i / width;
    if (layer == 0) {
      flow::make_edge(start, *nodes.back());
      continue;
    }
    for (int j = 0; j < width; ++j) {
      flow::make_edge(*nodes[static_cast<std::size_t>((layer - 1) * width + j)], *nodes.back());
    }
  }
  return samples::time(7, static_cast<double>(count) * width, [&] {
    start.try_put(flow::continue_msg());
    graph.wait_for_all();
  });
}

}  // namespace

int main(int argc, char** argv) {
  return samples::main(argc, argv,
                       {{"tasks/chain/1", {[] { return layers(1, 10'000, 1); }}},
                        {"tasks/layers/1", {[] { return layers(1, 1000, 8); }}},
                        {"tasks/layers/2", {[] { return layers(2, 1000, 8); }}}});
}
