// softmax(q k^T [* scale] [+ mask]) v becomes ScaledDotProductAttention, which never holds the
// weights (docs/design/0004), and the gradients of it, where the graph has them, its backward op:
//
//   %3 = MatrixMul(transposeB=True)(%q, %k)          %7 = Elemwise(MUL)(%q, %scale)
//   %4 = Elemwise(MUL)(%3, %scale)              ->   %6, %8 = ScaledDotProductAttention(%7, %k, %v)
//   %5 = Softmax(axis=-1)(%4)
//   %6 = MatrixMul()(%5, %v)
//
// A scale that is a constant of the graph becomes an attribute; one that is known only when the
// graph runs goes to the queries. What is left alone:
// weights that others need, masks that want a gradient, and few queries, where packing the keys
// takes as long as the products.
#include <optional>

#include "core/graph/pass.h"
#include "core/graph/passes/links.h"
#include "core/ops/attention/attention.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/matmul/matmul.h"
#include "core/ops/shape/shape.h"
#include "core/ops/softmax/softmax.h"

namespace mge {
namespace {

constexpr std::int64_t kFewestQueries = 16;

// A product of matrices as the ops write it.
struct Product {
  bool transpose_a, transpose_b;
};
std::optional<Product> as_product(const Graph::Node& node) {
  if (const auto* op = attrs_if<MatrixMul>(node)) return Product{op->transposeA, op->transposeB};
  if (const auto* op = attrs_if<BatchedMatrixMul>(node)) {
    return Product{op->transposeA, op->transposeB};
  }
  return std::nullopt;
}

// What was found around a softmax: nodes by index, Links::kNone where there is none.
struct Attention {
  std::size_t scores, scaling = Links::kNone, softmax, result;
  ValueId q, k, v;
  bool keys_transposed, values_transposed;  // k is (depth, keys); v is (width, keys)
  ValueId factor = 0;                       // where there is a scaling
  std::vector<ValueId> masks;
  std::vector<std::size_t> inner;  // that go with the weights: scores ... softmax
};
struct AttentionGradient {
  ValueId dy;
  std::size_t weights, softmax, scaling = Links::kNone;
  std::size_t dq = Links::kNone, dk = Links::kNone, dv = Links::kNone;
};

class Fusion {
 public:
  explicit Fusion(Graph& graph)
      : graph_(graph), links_(graph), gone_(graph.nodes.size()), added_(graph.nodes.size()) {}

  void run() {
    bool changed = false;
    for (std::size_t n = 0; n < gone_.size(); ++n) {
      const auto found = match(n);
      if (!found) continue;
      const auto gradient = match_gradient(*found);
      const bool forward_only = links_.only_for(graph_.nodes[n].out[0], found->result);
      if (!forward_only && !gradient) continue;
      replace(*found, gradient);
      changed = true;
    }
    if (!changed) return;
    std::vector<Graph::Node> nodes;
    for (std::size_t n = 0; n < gone_.size(); ++n) {
      for (Graph::Node& node : added_[n]) nodes.push_back(std::move(node));
      if (!gone_[n]) nodes.push_back(std::move(graph_.nodes[n]));
    }
    graph_.nodes = std::move(nodes);
  }

 private:
  const Spec& spec(ValueId id) const { return graph_.values[id].spec; }
  const Graph::Node* maker(ValueId id) const {
    return links_.maker[id] == Links::kNone ? nullptr : &graph_.nodes[links_.maker[id]];
  }

  // ---- forward ----------------------------------------------------------------------------------

  std::optional<Attention> match(std::size_t n) const {
    const Graph::Node& node = graph_.nodes[n];
    const auto* softmax = attrs_if<Softmax>(node);
    if (!softmax) return std::nullopt;
    const Spec& weights = spec(node.out[0]);
    const int rank = weights.ndim();
    if ((rank != 3 && rank != 4) || (softmax->axis != -1 && softmax->axis != rank - 1)) {
      return std::nullopt;
    }
    if (weights.dtype != DType::float32 || weights.shape[rank - 2] < kFewestQueries) {
      return std::nullopt;
    }
    Attention a;
    a.softmax = n;
    if (!match_result(node.out[0], a) || !match_scores(node.in[0], n, a)) return std::nullopt;
    return a;
  }

  // The product with v: the first one that takes the weights as its left operand.
  bool match_result(ValueId weights, Attention& a) const {
    for (const std::size_t n : links_.users[weights]) {
      const Graph::Node& node = graph_.nodes[n];
      const auto product = as_product(node);
      if (!product || product->transpose_a || node.in[0] != weights || node.in[1] == weights) {
        continue;
      }
      if (!same_batch(spec(weights).shape, spec(node.in[1]).shape)) continue;
      a.result = n;
      a.v = node.in[1];
      a.values_transposed = product->transpose_b;
      return true;
    }
    return false;
  }

  static bool same_batch(const Shape& a, const Shape& b) {
    return a.size() == b.size() && std::equal(a.begin(), a.end() - 2, b.begin());
  }

  // From the softmax up to the product of queries and keys.
  bool match_scores(ValueId id, std::size_t user, Attention& a) const {
    const Shape& shape = spec(id).shape;
    while (true) {
      const Graph::Node* node = maker(id);
      if (!node || !links_.only_for(id, user) || spec(id).shape != shape) return false;
      user = links_.maker[id];
      a.inner.push_back(user);
      if (const auto product = as_product(*node)) return take_scores(*product, *node, a);
      const auto* op = attrs_if<Elemwise>(*node);
      if (!op || a.scaling != Links::kNone) return false;
      const int x = follow(*node, shape);
      if (x < 0) return false;
      const ValueId other = node->in[static_cast<std::size_t>(1 - x)];
      if (spec(other).dtype != DType::float32) return false;
      if (op->mode == ElementMode::ADD) {
        if (a.masks.size() == kMaxAttentionMasks || spec(other).ndim() > shape.size()) return false;
        a.masks.push_back(other);
      } else if (op->mode == ElementMode::MUL || (op->mode == ElementMode::TRUE_DIV && x == 0)) {
        if (spec(other).size() != 1) return false;
        a.scaling = user;
        a.factor = other;
      } else {
        return false;
      }
      id = node->in[static_cast<std::size_t>(x)];
    }
  }

  // Which operand of two leads to the product: one that this node alone needs.
  int follow(const Graph::Node& node, const Shape& shape) const {
    if (node.in.size() != 2) return -1;
    for (int x = 0; x < 2; ++x) {
      const ValueId id = node.in[static_cast<std::size_t>(x)];
      const Graph::Node* from = maker(id);
      if (from && spec(id).shape == shape && (as_product(*from) || attrs_if<Elemwise>(*from))) {
        return x;
      }
    }
    return -1;
  }

  bool take_scores(const Product& product, const Graph::Node& node, Attention& a) const {
    const Shape &shape = spec(node.out[0]).shape, &q = spec(node.in[0]).shape;
    if (product.transpose_a || node.in[0] == node.in[1]) return false;
    if (!same_batch(shape, q) || !same_batch(shape, spec(node.in[1]).shape)) return false;
    a.scores = links_.maker[node.out[0]];
    a.q = node.in[0];
    a.k = node.in[1];
    a.keys_transposed = !product.transpose_b;
    return true;
  }

  // ---- backward ---------------------------------------------------------------------------------

  // Node n if it is the product of these operands with these flags.
  bool is_product(std::size_t n, ValueId a, ValueId b, bool transpose_a, bool transpose_b) const {
    const Graph::Node& node = graph_.nodes[n];
    const auto product = as_product(node);
    return product && product->transpose_a == transpose_a && product->transpose_b == transpose_b &&
           node.in[0] == a && node.in[1] == b;
  }

  // Whatever else takes the weights must be what the gradients of the products and of softmax take.
  std::optional<AttentionGradient> match_gradient(const Attention& a) const {
    const ValueId weights = graph_.nodes[a.softmax].out[0];
    if (links_.wanted[weights] || a.values_transposed) return std::nullopt;
    AttentionGradient g;
    g.softmax = Links::kNone;
    for (const std::size_t n : links_.users[weights]) {
      if (attrs_if<SoftmaxBackward>(graph_.nodes[n])) g.softmax = n;
    }
    if (g.softmax == Links::kNone) return std::nullopt;
    const Graph::Node& softmax = graph_.nodes[g.softmax];
    const Graph::Node* up = maker(softmax.in[0]);
    if (softmax.in[1] != weights || !up || !links_.only_for(softmax.in[0], g.softmax)) {
      return std::nullopt;
    }
    g.weights = links_.maker[softmax.in[0]];
    g.dy = up->in[0];
    if (!is_product(g.weights, g.dy, a.v, false, true)) return std::nullopt;
    if (spec(g.dy).shape != spec(graph_.nodes[a.result].out[0]).shape) return std::nullopt;
    for (const std::size_t n : links_.users[weights]) {
      if (n == a.result || n == g.softmax) continue;
      if (g.dv != Links::kNone || !is_product(n, weights, g.dy, true, false)) return std::nullopt;
      g.dv = n;
    }
    return match_score_gradient(a, softmax.out[0], g) ? std::optional(g) : std::nullopt;
  }

  // From the gradient of the scores to those of queries and keys.
  bool match_score_gradient(const Attention& a, ValueId ds, AttentionGradient& g) const {
    if (a.scaling != Links::kNone) {
      if (links_.users[ds].size() != 1 || links_.wanted[ds]) return false;
      g.scaling = links_.users[ds][0];
      const Graph::Node& node = graph_.nodes[g.scaling];
      const auto* op = attrs_if<Elemwise>(node);
      const bool same = op && op->mode == attrs_if<Elemwise>(graph_.nodes[a.scaling])->mode &&
                        node.in[0] == ds && node.in[1] == a.factor;
      if (!same) return false;
      ds = node.out[0];
    }
    if (links_.wanted[ds]) return false;
    for (const std::size_t n : links_.users[ds]) {
      if (g.dq == Links::kNone && is_product(n, ds, a.k, false, a.keys_transposed)) {
        g.dq = n;
      } else if (g.dk == Links::kNone &&
                 (a.keys_transposed ? is_product(n, a.q, ds, true, false)
                                    : is_product(n, ds, a.q, true, false))) {
        g.dk = n;
      } else {
        return false;
      }
    }
    return g.dq != Links::kNone || g.dk != Links::kNone;
  }

  // ---- what takes their place -------------------------------------------------------------------

  // Adds nodes in front of node `at`.
  ValueId add(std::size_t at, OpRef op, SmallVector<ValueId, 4> in, const Spec& out) {
    const ValueId id = graph_.add_value(out, false);
    added_[at].push_back({std::move(op), std::move(in), {id}});
    return id;
  }
  Spec four_axes(ValueId id) const {
    Spec s = spec(id);
    Shape shape = s.shape;
    while (shape.size() < 4) shape.insert(0, 1);
    Spec out(s.dtype, shape);
    out.device = s.device;
    return out;
  }
  // The value with leading axes of size 1, four in all.
  ValueId lifted(std::size_t at, ValueId id) {
    Dims axes;
    for (int i = 0; i < 4 - spec(id).ndim(); ++i) axes.push_back(i);
    return axes.empty() ? id : add(at, make_op(AddAxis{axes}), {id}, four_axes(id));
  }
  static Spec turned(Spec s) {
    std::swap(s.shape[2], s.shape[3]);
    std::swap(s.strides[2], s.strides[3]);
    return s;
  }
  static OpRef swap_last() { return make_op(Dimshuffle{Dims{0, 1, 3, 2}}); }
  ValueId operand(std::size_t at, ValueId id, bool transposed) {
    const ValueId x = lifted(at, id);
    return transposed ? add(at, swap_last(), {x}, turned(spec(x))) : x;
  }
  // From four axes to the value that the graph knows.
  void lower(std::size_t at, ValueId from, ValueId to, bool transposed) {
    const int extra = 4 - spec(to).ndim();
    if (transposed && extra == 0) {
      added_[at].push_back({swap_last(), {from}, {to}});
      return;
    }
    if (transposed) from = add(at, swap_last(), {from}, turned(spec(from)));
    Dims axes;
    for (int i = 0; i < extra; ++i) axes.push_back(i);
    added_[at].push_back({make_op(RemoveAxis{axes}), {from}, {to}});
  }
  // The id that an output of four axes gets: `to` itself where that needs no further op.
  ValueId output(ValueId to, bool transposed) {
    if (spec(to).ndim() == 4 && !transposed) return to;
    const Spec four = four_axes(to);
    return graph_.add_value(transposed ? turned(four) : four, false);
  }

  void replace(const Attention& a, const std::optional<AttentionGradient>& g) {
    const std::size_t at = a.result;
    const ValueId y = graph_.nodes[at].out[0];
    for (const std::size_t n : a.inner) gone_[n] = true;
    gone_[a.softmax] = gone_[at] = true;

    const std::optional<double> scale = known_scale(a);
    const ValueId scaled_q = scale ? a.q : scaled(at, a);
    SmallVector<ValueId, 4> in{operand(at, scaled_q, false), operand(at, a.k, a.keys_transposed),
                               operand(at, a.v, a.values_transposed)};
    for (const ValueId mask : a.masks) in.push_back(lifted(at, mask));
    const ValueId y4 = output(y, false);
    Spec logs = four_axes(y);
    logs.shape.resize(3);
    Spec lse_spec(DType::float32, logs.shape);
    lse_spec.device = logs.device;
    const ValueId lse = graph_.add_value(lse_spec, false);
    added_[at].push_back({make_op(ScaledDotProductAttention{scale.value_or(1)}), in, {y4, lse}});
    if (y4 != y) lower(at, y4, y, false);
    if (g) replace_gradient(a, *g, scale, in, y4, lse);
  }

  std::optional<double> known_scale(const Attention& a) const {
    if (a.scaling == Links::kNone) return 1;
    const Value& number = graph_.values[a.factor].constant;
    if (!number) return std::nullopt;
    const double factor = *number.ptr<float>();
    return attrs_if<Elemwise>(graph_.nodes[a.scaling])->mode == ElementMode::MUL ? factor
                                                                                 : 1 / factor;
  }

  // The queries times the factor.
  ValueId scaled(std::size_t at, const Attention& a) {
    const Shape& shape = spec(a.q).shape;
    Spec out(spec(a.q).dtype, shape, dense_like(shape, spec(a.q).strides));
    out.device = spec(a.q).device;
    return add(at, graph_.nodes[a.scaling].op, {a.q, a.factor}, out);
  }

  void replace_gradient(const Attention& a, const AttentionGradient& g,
                        const std::optional<double>& scale, const SmallVector<ValueId, 4>& operands,
                        ValueId y, ValueId lse) {
    const std::size_t at = std::min(g.weights, g.dv);  // the first that takes dy
    for (const std::size_t n : {g.weights, g.softmax, g.scaling, g.dq, g.dk, g.dv}) {
      if (n != Links::kNone) gone_[n] = true;
    }
    SmallVector<ValueId, 4> in{lifted(at, g.dy), y, lse};
    for (const ValueId id : operands) in.push_back(id);
    const auto result = [&](std::size_t n, ValueId like, bool transposed) {
      return n == Links::kNone ? graph_.add_value(spec(like), false)
                               : output(graph_.nodes[n].out[0], transposed);
    };
    const bool rescale = g.dq != Links::kNone && !scale;
    const ValueId dq =
        rescale ? graph_.add_value(spec(operands[0]), false) : result(g.dq, operands[0], false);
    const ValueId dk = result(g.dk, operands[1], a.keys_transposed);
    const ValueId dv = result(g.dv, operands[2], false);
    added_[at].push_back(
        {make_op(ScaledDotProductAttentionBackward{scale.value_or(1)}), in, {dq, dk, dv}});
    const auto finish = [&](std::size_t n, ValueId made, bool transposed) {
      if (n == Links::kNone) return;
      const ValueId to = graph_.nodes[n].out[0];
      if (to != made) lower(at, made, to, transposed);
    };
    if (rescale) {
      const ValueId to = graph_.nodes[g.dq].out[0];
      const ValueId four = output(to, false);
      added_[at].push_back({graph_.nodes[g.scaling].op, {dq, a.factor}, {four}});
      if (four != to) lower(at, four, to, false);
    } else {
      finish(g.dq, dq, false);
    }
    finish(g.dk, dk, a.keys_transposed);
    finish(g.dv, dv, false);
  }

  Graph& graph_;
  const Links links_;
  std::vector<bool> gone_;                       // by node
  std::vector<std::vector<Graph::Node>> added_;  // by node: what comes in front of it
};

}  // namespace

void fuse_attention(Graph& graph) { Fusion(graph).run(); }

}  // namespace mge
