// GELU of what a layer computes, and its slope, come from a polynomial. It is exact to 2^-22 of the
// operand, as the usual formula with 1 + erf is (0010): less than the layer's own sums lose to
// rounding, but for numbers in the lower tail, which the layer that follows adds to others of the
// size of 1. The digits of that tail, which GELU keeps everywhere else, take three times as long.
#include "core/graph/pass.h"
#include "core/graph/passes/links.h"
#include "core/ops/elementwise/elementwise.h"

namespace mge {
namespace {

using Mode = Elemwise::Mode;

// Whether a value is a product's, with or without a bias, in whatever shape.
bool is_of_layer(const Graph& graph, const Links& links, ValueId id) {
  while (true) {
    const std::size_t at = links.maker[id];
    if (at == Links::kNone) return false;
    const Graph::Node& node = graph.nodes[at];
    if (is_product(graph, links, id)) return true;
    if (const auto* op = attrs_if<Elemwise>(node); op && op->mode == Mode::ADD) {
      const auto is_bias = [&](ValueId in) {
        return graph.values[in].spec.size() < graph.values[node.out[0]].spec.size();
      };
      return (is_product(graph, links, node.in[0]) && is_bias(node.in[1])) ||
             (is_product(graph, links, node.in[1]) && is_bias(node.in[0]));
    }
    if (node.op->type->traits.fuse != Fuse::view) return false;
    id = node.in[0];
  }
}

}  // namespace

void take_fast_gelu(Graph& graph) {
  const Links links(graph);
  for (Graph::Node& node : graph.nodes) {
    const auto* op = attrs_if<Elemwise>(node);
    if (!op || (op->mode != Mode::GELU && op->mode != Mode::GELU_GRAD)) continue;
    if (graph.values[node.in[0]].spec.dtype != DType::float32) continue;
    if (!is_of_layer(graph, links, node.in[0])) continue;
    node.op = elemwise_op(op->mode == Mode::GELU ? Mode::FAST_GELU : Mode::FAST_GELU_GRAD);
  }
}

}  // namespace mge
