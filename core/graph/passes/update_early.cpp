#include <algorithm>

#include "core/graph/liveness.h"
#include "core/graph/pass.h"
#include "core/ops/optimizer_step/optimizer_step.h"

namespace mge {

// A parameter's step moves up to where its gradient is there and nothing needs the parameter any
// more: it is stepped in place then, and the gradient's memory serves those that follow.
void update_early(Graph& graph) {
  const std::size_t count = graph.nodes.size();
  const bool any = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Graph::Node& n) {
    return n.op->type == &op_type<OptimizerStep>();
  });
  if (!any) return;
  const Liveness liveness(graph);
  // By value, one more than the node that makes it; by buffer, one more than the last to use it.
  std::vector<std::size_t> made(graph.values.size()), used(graph.values.size());
  std::vector<std::pair<std::size_t, std::size_t>> order(count);  // where it goes, where it was
  for (std::size_t n = 0; n < count; ++n) {
    const Graph::Node& node = graph.nodes[n];
    std::size_t place = 2 * n + 1;
    if (node.op->type == &op_type<OptimizerStep>()) {
      std::size_t after = 0;
      for (std::size_t i = 0; i < node.in.size(); ++i) {
        after = std::max(after, made[node.in[i]]);
        if (i >= kFirstStepped) after = std::max(after, used[liveness.buffer_of[node.in[i]]]);
      }
      place = 2 * after;
    }
    order[n] = {place, n};
    for (const ValueId id : node.in) {
      std::size_t& last = used[liveness.buffer_of[id]];
      last = std::max(last, (place + 1) / 2);
    }
    for (const ValueId id : node.out) made[id] = (place + 1) / 2;
  }
  std::sort(order.begin(), order.end());
  std::vector<Graph::Node> sorted;
  sorted.reserve(count);
  for (const auto& [place, n] : order) sorted.push_back(std::move(graph.nodes[n]));
  graph.nodes = std::move(sorted);
}

}  // namespace mge
