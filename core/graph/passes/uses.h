// Who makes and who uses the values of a graph, as passes ask for it.
#pragma once

#include <cstddef>
#include <vector>

#include "core/graph/graph.h"

namespace mge {

class Uses {
 public:
  static constexpr std::size_t kNone = ~std::size_t{0};

  explicit Uses(const Graph& graph)
      : makers_(graph.values.size(), kNone), counts_(graph.values.size()) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const ValueId id : graph.nodes[i].in) ++counts_[id];
      for (const ValueId id : graph.nodes[i].out) makers_[id] = i;
    }
    for (const ValueId id : graph.outputs) ++counts_[id];
  }
  // The node that makes a value; kNone for what comes from outside, as new constants do.
  std::size_t maker(ValueId id) const { return id < makers_.size() ? makers_[id] : kNone; }
  // How often nodes read a value, and one more if it is an output.
  std::size_t count(ValueId id) const { return id < counts_.size() ? counts_[id] : 0; }
  void set_maker(ValueId id, std::size_t node) { makers_[id] = node; }

 private:
  std::vector<std::size_t> makers_, counts_;
};

// The attributes of a node that runs a T; nullptr for other ops.
template <class T>
const T* as(const Graph::Node& node) {
  if (!node.op || node.op->type != &op_type<T>()) return nullptr;
  return &detail::attrs<T>(*node.op);
}

// Takes away the nodes whose op a pass has reset.
inline void drop_nodes_without_op(Graph& graph) {
  std::erase_if(graph.nodes, [](const Graph::Node& node) { return !node.op; });
}

}  // namespace mge
