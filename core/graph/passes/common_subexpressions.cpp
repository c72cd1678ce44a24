#include <algorithm>
#include <unordered_map>

#include "core/graph/pass.h"

namespace mge {

constexpr std::int64_t kSmallConstant = 64;  // elements

// Values are immutable, so that sharing them is safe.
void merge_common_subexpressions(Graph& graph) {
  std::unordered_map<ValueId, ValueId> stands_for;
  const auto resolved = [&](ValueId id) {
    const auto it = stands_for.find(id);
    return it == stands_for.end() ? id : it->second;
  };
  std::unordered_multimap<std::size_t, std::size_t> by_hash;
  std::vector<Graph::Node> kept;
  kept.reserve(graph.nodes.size());
  for (Graph::Node& node : graph.nodes) {
    std::size_t hash = node.op->hash();
    for (ValueId& id : node.in) {
      id = resolved(id);
      hash = hash * 1000003 + id;
    }
    // What is made from nothing is made again rather than kept from one use to the next: that costs
    // memory, and the uses often write into it.
    const bool constant = node.in.empty() && !node.out.empty() &&
                          graph.values[node.out[0]].spec.size() > kSmallConstant;
    if (node.op->type->traits.random || constant) {
      kept.push_back(std::move(node));
      continue;
    }
    bool merged = false;
    const auto [first, last] = by_hash.equal_range(hash);
    for (auto it = first; it != last && !merged; ++it) {
      const Graph::Node& other = kept[it->second];
      if (!same_op(node.op, other.op)) continue;
      if (!std::equal(node.in.begin(), node.in.end(), other.in.begin(), other.in.end())) continue;
      for (std::size_t i = 0; i < node.out.size(); ++i) stands_for[node.out[i]] = other.out[i];
      merged = true;
    }
    if (merged) continue;
    by_hash.emplace(hash, kept.size());
    kept.push_back(std::move(node));
  }
  graph.nodes = std::move(kept);
  for (ValueId& id : graph.outputs) id = resolved(id);
}

}  // namespace mge
