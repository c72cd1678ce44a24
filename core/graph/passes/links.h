// Who makes and who takes each value of a graph.
#pragma once

#include <algorithm>
#include <vector>

#include "core/graph/graph.h"

namespace mge {

struct Links {
  static constexpr std::size_t kNone = ~std::size_t{0};

  explicit Links(const Graph& graph)
      : maker(graph.values.size(), kNone), users(graph.values.size()), wanted(graph.values.size()) {
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      for (const ValueId id : graph.nodes[n].out) maker[id] = n;
      for (const ValueId id : graph.nodes[n].in) users[id].push_back(n);
    }
    for (const ValueId id : graph.outputs) wanted[id] = true;
  }
  // Whether node `n` is the only place that needs the value.
  bool only_for(ValueId id, std::size_t n) const {
    return !wanted[id] && std::all_of(users[id].begin(), users[id].end(),
                                      [&](std::size_t user) { return user == n; });
  }

  // How many places need the value.
  std::size_t count(ValueId id) const { return users[id].size() + (wanted[id] ? 1 : 0); }

  std::vector<std::size_t> maker;               // by value: a node; kNone for what is external
  std::vector<std::vector<std::size_t>> users;  // by value: nodes, one that takes it twice is twice
  std::vector<bool> wanted;                     // by value: an output of the graph
};

// The attributes of a node's op, if it is of this kind. A node whose op a pass has taken away is of
// none.
template <class T>
const T* attrs_if(const Graph::Node& node) {
  return node.op && node.op->type == &op_type<T>() ? &detail::attrs<T>(*node.op) : nullptr;
}

// Whether a value is a product's: a convolution's, a matrix product's or the like.
inline bool is_product(const Graph& graph, const Links& links, ValueId id) {
  const std::size_t at = links.maker[id];
  return at != Links::kNone && graph.nodes[at].op->type->traits.fuse == Fuse::contraction;
}

inline void drop_nodes_without_op(Graph& graph) {
  std::erase_if(graph.nodes, [](const Graph::Node& node) { return !node.op; });
}

}  // namespace mge
