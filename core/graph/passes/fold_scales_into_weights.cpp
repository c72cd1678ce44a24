#include <algorithm>
#include <optional>
#include <unordered_map>

#include "core/graph/pass.h"
#include "core/graph/passes/constants.h"
#include "core/graph/passes/links.h"
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
  if (attrs_if<Convolution>(node)) return with_weights({Kind::convolution, 1, 2, 1});
  if (attrs_if<Convolution3D>(node)) return with_weights({Kind::convolution, 1, 3, 1});
  if (attrs_if<ConvolutionBackwardData>(node)) {
    return with_weights({Kind::transposed_convolution, 0, 2, 1});
  }
  if (attrs_if<Convolution3DBackwardData>(node)) {
    return with_weights({Kind::transposed_convolution, 0, 3, 1});
  }
  if (attrs_if<Linear>(node)) return with_weights({Kind::linear, 1, 0, ndim - 1});
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
  if (const BatchNorm* op = attrs_if<BatchNorm>(node)) {
    if (op->fwd_mode != BatchNormMode::INFERENCE || which != 0 || axis != 1) return std::nullopt;
    const auto flat = [&](std::size_t i) {
      return reshape(cast(constant_of(graph, node.in[i]), kExact), {spec.shape[1]});
    };
    const Value scale = div(flat(1), sqrt(add(flat(4), op->epsilon)));
    return Affine{scale, sub(flat(2), mul(flat(3), scale))};
  }
  const Elemwise* op = attrs_if<Elemwise>(node);
  const Spec& out = graph.values[node.out[0]].spec;
  if (!op || node.in.size() < 2 || out.shape != spec.shape || out.dtype != spec.dtype) {
    return std::nullopt;
  }
  const auto other = [&](std::size_t i) {
    return per_channel(graph, node.in[i], spec.shape, axis);
  };
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

// Whether the only user of a product may become part of it.
bool may_join(const Graph& graph, const Links& links, const Graph::Node& node, const Spec& weight) {
  if (links.count(node.out[0]) != 1 || links.users[node.out[0]].empty()) return false;
  const Graph::Node& user = graph.nodes[links.users[node.out[0]][0]];
  if (attrs_if<BatchNorm>(user)) return true;
  return attrs_if<Elemwise>(user) &&
         (std::any_of(user.in.begin(), user.in.end(),
                      [&](ValueId id) { return is_constant(graph, id); }) ||
          linear_takes_post_ops(graph.values[node.in[0]].spec, weight));
}

// Makes matrix products with a constant matrix fully connected layers, which take a bias.
void turn_into_linear(Graph& graph, const Links& links, Graph::Node& node) {
  bool transposed;
  if (const auto* op = attrs_if<MatrixMul>(node)) {
    if (op->transposeA) return;
    transposed = op->transposeB;
  } else if (const auto* batched = attrs_if<BatchedMatrixMul>(node)) {
    if (batched->transposeA) return;
    transposed = batched->transposeB;
  } else {
    return;
  }
  if (!is_constant(graph, node.in[1])) return;
  Value w = constant_of(graph, node.in[1]);
  if (w.ndim() != 2 || !is_float(w.dtype()) || graph.values[node.in[0]].spec.ndim() < 2) return;
  if (!transposed) w = transpose(w, {1, 0});
  if (!may_join(graph, links, node, w.spec())) return;
  if (!transposed) node.in[1] = add_constant(graph, w);
  node.op = make_op(Linear{});
}

// Makes the affine map a part of the product.
void fold(Graph& graph, Graph::Node& product, const Product& p, const Affine& affine) {
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
  if (!bias) return;
  const ValueId id =
      add_constant(graph, contiguous(cast(broadcast_to(bias, {channels}), weight.dtype())));
  product.in.size() > 2 ? void(product.in[2] = id) : product.in.push_back(id);
}

// The node whose result a value shows, behind views for it alone that leave the first two axes as
// they are.
std::size_t behind_views(const Graph& graph, const Links& links, ValueId id) {
  const auto keeps_axes = [&](ValueId from, ValueId to) {
    const Shape &a = graph.values[from].spec.shape, &b = graph.values[to].spec.shape;
    return a.size() > 1 && b.size() > 1 && a[0] == b[0] && a[1] == b[1];
  };
  std::size_t at = links.maker[id];
  for (;;) {
    const Graph::Node& node = graph.nodes[at];
    const bool view =
        attrs_if<Reshape>(node) || attrs_if<AddAxis>(node) || attrs_if<RemoveAxis>(node);
    if (!view || node.in.size() != 1 || !keeps_axes(node.in[0], node.out[0])) return at;
    if (links.count(node.in[0]) != 1 || links.maker[node.in[0]] == Links::kNone) return at;
    at = links.maker[node.in[0]];
  }
}

class Folder {
 public:
  explicit Folder(Graph& graph) : graph_(graph), links_(graph) {}

  void run() {
    for (Graph::Node& node : graph_.nodes) turn_into_linear(graph_, links_, node);
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const std::size_t inputs = std::min<std::size_t>(graph_.nodes[n].in.size(), 2);
      for (std::size_t which = 0; which < inputs && !fold_input(n, which);) ++which;
    }
    drop_nodes_without_op(graph_);
  }

 private:
  // Whether node `n` was what it does to one of its inputs, and is now part of what makes that.
  bool fold_input(std::size_t n, std::size_t which) {
    Graph::Node& node = graph_.nodes[n];
    const ValueId x = node.in[which];
    if (x >= links_.maker.size() || links_.maker[x] == Links::kNone) return false;
    if (links_.count(x) != 1) return false;
    const std::size_t before = links_.maker[x];
    const auto sum = sums_.find(before);
    const std::size_t at =
        sum != sums_.end() ? sum->second.product : behind_views(graph_, links_, x);
    const auto product = product_of(graph_, graph_.nodes[at]);
    if (!product || graph_.nodes[before].out[0] != x) return false;
    if (at != before && product->channel_axis != 1) return false;
    const auto affine = affine_of(graph_, node, which, product->channel_axis);
    if (!affine) return false;
    if (product->kind == Product::Kind::transposed_convolution && affine->shift &&
        sum == sums_.end()) {
      if (at != before) return false;
      if (affine->scale) fold(graph_, graph_.nodes[at], *product, {affine->scale, {}});
      node.op = elemwise_op(Elemwise::Mode::ADD);
      node.in = {x, x};
      sums_[n] = {at, affine->shift};
      write_shift(n);
      return true;
    }
    if (sum != sums_.end()) {
      if (affine->scale) fold(graph_, graph_.nodes[at], *product, {affine->scale, {}});
      Value& shift = sum->second.shift;
      if (affine->scale) shift = mul(shift, affine->scale);
      if (affine->shift) shift = add(shift, affine->shift);
      write_shift(before);
    } else {
      fold(graph_, graph_.nodes[at], *product, *affine);
    }
    graph_.nodes[before].out[0] = node.out[0];
    links_.maker[node.out[0]] = before;
    node.op = {};
    return true;
  }

  void write_shift(std::size_t n) {
    Graph::Node& node = graph_.nodes[n];
    const Spec& out = graph_.values[node.out[0]].spec;
    Shape shape = Dims::filled(out.ndim(), 1);
    shape[1] = out.shape[1];
    const Value shift = cast(broadcast_to(sums_[n].shift, {shape[1]}), out.dtype);
    node.in[1] = add_constant(graph_, contiguous(reshape(shift, shape)));
  }

  // A transposed convolution takes no bias. The first node that shifts its result becomes the sum
  // with the shift, which takes in what later nodes do.
  struct Shifted {
    std::size_t product;
    Value shift;
  };
  Graph& graph_;
  Links links_;
  std::unordered_map<std::size_t, Shifted> sums_;  // by node
};

}  // namespace

void fold_scales_into_weights(Graph& graph) {
  const RunAtOnce at_once;
  Folder(graph).run();
}

}  // namespace mge
