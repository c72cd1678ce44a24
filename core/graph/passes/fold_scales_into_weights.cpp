#include <optional>

#include "core/graph/pass.h"
#include "core/graph/passes/constants.h"
#include "core/graph/passes/uses.h"
#include "core/ops/batch_norm/batch_norm.h"
#include "core/ops/convolution/convolution.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/matmul/matmul.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

using std::int64_t;

constexpr DType kExact = DType::float64;  // what factors are computed in

// A convolution or matrix product whose weights are constants.
struct Product {
  enum class Kind { convolution, transposed_convolution, linear };
  Kind kind;
  std::size_t weight;  // which input
  int spatial;         // axes
  int channel_axis;    // of the result
};

std::optional<Product> product_of(const Graph& graph, const Graph::Node& node) {
  const auto with_weights = [&](Product p) -> std::optional<Product> {
    const ValueId w = node.in[p.weight];
    if (!is_constant(graph, w) || !is_float(graph.values[w].spec.dtype)) return std::nullopt;
    if (node.in.size() > 2 && !is_constant(graph, node.in[2])) return std::nullopt;
    return p;
  };
  using Kind = Product::Kind;
  const int ndim = graph.values[node.out[0]].spec.ndim();
  if (as<Convolution>(node)) return with_weights({Kind::convolution, 1, 2, 1});
  if (as<Convolution3D>(node)) return with_weights({Kind::convolution, 1, 3, 1});
  if (as<ConvolutionBackwardData>(node)) {
    return with_weights({Kind::transposed_convolution, 0, 2, 1});
  }
  if (as<Convolution3DBackwardData>(node)) {
    return with_weights({Kind::transposed_convolution, 0, 3, 1});
  }
  if (as<Linear>(node)) return with_weights({Kind::linear, 1, 0, ndim - 1});
  return std::nullopt;
}

// scale * y + shift, one number of each for each channel of y; undefined where it changes nothing.
struct Affine {
  Value scale, shift;
};

// A constant as one number for each channel of `shape`; undefined if it is anything else.
Value per_channel(const Graph& graph, ValueId id, const Shape& shape, int axis) {
  if (!is_constant(graph, id)) return {};
  const Value& c = constant_of(graph, id);
  const int lead = shape.size() - c.ndim();
  if (lead < 0 || !is_float(c.dtype())) return {};
  for (int i = 0; i < c.ndim(); ++i) {
    const bool fits = c.shape()[i] == 1 || (i + lead == axis && c.shape()[i] == shape[axis]);
    if (!fits) return {};
  }
  return broadcast_to(reshape(cast(c, kExact), {c.size()}), {shape[axis]});
}

// What a node does to input `which` of it.
std::optional<Affine> affine_of(const Graph& graph, const Graph::Node& node, std::size_t which,
                                int axis) {
  const Spec& spec = graph.values[node.in[which]].spec;
  const auto all_constant = [&] {
    for (std::size_t i = 0; i < node.in.size(); ++i) {
      if (i != which && !is_constant(graph, node.in[i])) return false;
    }
    return true;
  };
  if (!all_constant()) return std::nullopt;
  if (const BatchNorm* op = as<BatchNorm>(node)) {
    if (op->fwd_mode != BatchNormMode::INFERENCE || which != 0 || axis != 1) return std::nullopt;
    const auto flat = [&](std::size_t i) {
      return reshape(cast(constant_of(graph, node.in[i]), kExact), {spec.shape[1]});
    };
    const Value scale = div(flat(1), sqrt(add(flat(4), op->epsilon)));
    return Affine{scale, sub(flat(2), mul(flat(3), scale))};
  }
  const Elemwise* op = as<Elemwise>(node);
  const Spec& out = graph.values[node.out[0]].spec;
  if (!op || node.in.size() < 2 || out.shape != spec.shape || out.dtype != spec.dtype) {
    return std::nullopt;
  }
  const auto other = [&](std::size_t i) { return per_channel(graph, node.in[i], spec.shape, axis); };
  const Value c = other(1 - which % 2);
  if (!c || which > 1) return std::nullopt;
  switch (op->mode) {
    case Elemwise::Mode::ADD:
      return Affine{{}, c};
    case Elemwise::Mode::SUB:
      if (which == 1) return Affine{scalar_like(c, -1), c};
      return Affine{{}, neg(c)};
    case Elemwise::Mode::MUL:
      return Affine{c, {}};
    case Elemwise::Mode::TRUE_DIV:
      if (which == 1) return std::nullopt;
      return Affine{div(scalar_like(c, 1), c), {}};
    case Elemwise::Mode::FUSE_MUL_ADD3: {
      const Value d = other(2);
      if (!d) return std::nullopt;
      return Affine{c, d};
    }
    default:
      return std::nullopt;
  }
}

// The factors, shaped to multiply a weight.
Value for_weight(const Value& scale, const Product& p, const Shape& w) {
  if (scale.size() == 1) return reshape(scale, {});
  Shape shape = Dims::filled(w.size(), 1);
  const bool grouped = p.kind != Product::Kind::linear && w.size() - p.spatial == 3;
  const int channels = p.kind == Product::Kind::transposed_convolution ? 1 : 0;
  if (grouped) {
    shape[0] = w[0];
    shape[1 + channels] = w[1 + channels];
  } else {
    shape[channels] = w[channels];
  }
  return reshape(scale, shape);
}

Value scaled_weight(const Value& weight, const Value& scale, const Product& p) {
  const DType wide = weight.dtype() == kExact ? kExact : DType::float32;
  return cast(mul(cast(weight, wide), cast(for_weight(scale, p, weight.shape()), wide)),
              weight.dtype());
}

// Makes matrix products with a constant matrix fully connected layers, which take a bias.
void turn_into_linear(Graph& graph, Graph::Node& node) {
  bool transposed;
  if (const auto* op = as<MatrixMul>(node)) {
    if (op->transposeA) return;
    transposed = op->transposeB;
  } else if (const auto* batched = as<BatchedMatrixMul>(node)) {
    if (batched->transposeA) return;
    transposed = batched->transposeB;
  } else {
    return;
  }
  if (!is_constant(graph, node.in[1])) return;
  const Value w = constant_of(graph, node.in[1]);
  if (w.ndim() != 2 || !is_float(w.dtype()) || graph.values[node.in[0]].spec.ndim() < 2) return;
  if (!transposed) node.in[1] = add_constant(graph, transpose(w, {1, 0}));
  node.op = make_op(Linear{});
}

// Whether the affine map became part of the product.
bool fold(Graph& graph, Graph::Node& product, const Product& p, const Affine& affine) {
  if (p.kind == Product::Kind::transposed_convolution && affine.shift) return false;
  const Value weight = constant_of(graph, product.in[p.weight]);
  if (affine.scale) {
    product.in[p.weight] = add_constant(graph, scaled_weight(weight, affine.scale, p));
  }
  const int64_t channels = graph.values[product.out[0]].spec.shape[p.channel_axis];
  Value bias = affine.shift;
  if (product.in.size() > 2) {
    Value old = reshape(cast(constant_of(graph, product.in[2]), kExact), {channels});
    if (affine.scale) old = mul(old, affine.scale);
    bias = bias ? add(old, bias) : old;
  }
  if (!bias) return true;
  const ValueId id =
      add_constant(graph, contiguous(cast(broadcast_to(bias, {channels}), weight.dtype())));
  product.in.size() > 2 ? void(product.in[2] = id) : product.in.push_back(id);
  return true;
}

}  // namespace

void fold_scales_into_weights(Graph& graph) {
  const RunAtOnce at_once;
  for (Graph::Node& node : graph.nodes) turn_into_linear(graph, node);
  Uses uses(graph);
  for (Graph::Node& node : graph.nodes) {
    for (std::size_t which = 0; which < std::min<std::size_t>(node.in.size(), 2); ++which) {
      const ValueId x = node.in[which];
      if (uses.maker(x) == Uses::kNone || uses.count(x) != 1) continue;
      Graph::Node& before = graph.nodes[uses.maker(x)];
      const auto product = product_of(graph, before);
      if (!product || before.out[0] != x) continue;
      const auto affine = affine_of(graph, node, which, product->channel_axis);
      if (!affine || !fold(graph, before, *product, *affine)) continue;
      before.out[0] = node.out[0];
      uses.set_maker(node.out[0], uses.maker(x));
      node.op = {};
      break;
    }
  }
  drop_nodes_without_op(graph);
}

}  // namespace mge
