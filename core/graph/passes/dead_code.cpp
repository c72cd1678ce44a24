#include <algorithm>

#include "core/graph/pass.h"

namespace mge {

void remove_dead_code(Graph& graph) {
  std::vector<bool> needed(graph.values.size());
  for (const ValueId id : graph.outputs) needed[id] = true;
  std::vector<Graph::Node> kept;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    Graph::Node& node = graph.nodes[i];
    const bool wanted =
        node.op->type->traits.random ||
        std::any_of(node.out.begin(), node.out.end(), [&](ValueId id) { return bool{needed[id]}; });
    if (!wanted) continue;
    for (const ValueId id : node.in) needed[id] = true;
    kept.push_back(std::move(node));
  }
  std::reverse(kept.begin(), kept.end());
  graph.nodes = std::move(kept);
}

void let_go_of_unused_constants(Graph& graph) {
  std::vector<bool> used(graph.values.size());
  for (const Graph::Node& node : graph.nodes) {
    for (const ValueId id : node.in) used[id] = true;
  }
  for (const ValueId id : graph.outputs) used[id] = true;
  for (std::size_t id = 0; id < used.size(); ++id) {
    if (!used[id]) graph.values[id].constant = {};
  }
}

}  // namespace mge
