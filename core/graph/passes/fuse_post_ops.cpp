#include <optional>

#include "core/graph/pass.h"
#include "core/graph/passes/constants.h"
#include "core/graph/passes/links.h"
#include "core/ops/matmul/matmul.h"
#include "core/ops/post_ops/post_ops.h"

namespace mge {
namespace {

using Mode = Elemwise::Mode;

// An activation with numbers for all it takes beside its first input.
struct Activation {
  Mode mode;
  double alpha = 0, beta = 0;
};

std::optional<Activation> activation_of(const Graph& graph, const Graph::Node& node) {
  const Elemwise* op = attrs_if<Elemwise>(node);
  if (!op || !cpu::dnn::is_activation(op->mode)) return std::nullopt;
  if (graph.values[node.out[0]].spec.shape != graph.values[node.in[0]].spec.shape) {
    return std::nullopt;
  }
  Activation out{op->mode};
  if (node.in.size() > 1) {
    const auto alpha = number_of(graph, node.in[1]);
    if (!alpha) return std::nullopt;
    out.alpha = *alpha;
  }
  if (node.in.size() > 2) {
    const auto beta = number_of(graph, node.in[2]);
    if (!beta || *beta < out.alpha) return std::nullopt;
    out.beta = *beta;
  }
  return out;
}

// scale * y + shift of the other operand.
struct Scaling {
  std::size_t of;  // which input
  double scale = 1, shift = 0;
};

std::optional<Scaling> scaling_of(const Graph& graph, const Graph::Node& node) {
  const Elemwise* op = attrs_if<Elemwise>(node);
  if (!op || node.in.size() != 2) return std::nullopt;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto n = number_of(graph, node.in[1 - i]);
    if (!n || graph.values[node.in[i]].spec.shape != graph.values[node.out[0]].spec.shape) continue;
    if (op->mode == Mode::MUL) return Scaling{i, *n, 0};
    if (op->mode == Mode::ADD) return Scaling{i, 1, *n};
    if (op->mode == Mode::TRUE_DIV && i == 0 && *n != 0) return Scaling{i, 1 / *n, 0};
    if (op->mode == Mode::SUB && i == 0) return Scaling{i, 1, -*n};
  }
  return std::nullopt;
}

// A sum, and the activation that the same op applies to it.
struct Sum {
  std::optional<Mode> activation;
};

std::optional<Sum> sum_of(const Graph& graph, const Graph::Node& node) {
  const Elemwise* op = attrs_if<Elemwise>(node);
  if (!op || node.in.size() != 2) return std::nullopt;
  const auto spec = [&](ValueId id) -> const Spec& { return graph.values[id].spec; };
  const Spec &a = spec(node.in[0]), &b = spec(node.in[1]);
  if (a.shape != b.shape || a.dtype != b.dtype) return std::nullopt;
  switch (op->mode) {
    case Mode::ADD:
      return Sum{};
    case Mode::FUSE_ADD_RELU:
      return Sum{Mode::RELU};
    case Mode::FUSE_ADD_SIGMOID:
      return Sum{Mode::SIGMOID};
    case Mode::FUSE_ADD_TANH:
      return Sum{Mode::TANH};
    case Mode::FUSE_ADD_H_SWISH:
      return Sum{Mode::H_SWISH};
    default:
      return std::nullopt;
  }
}

FusedConvolution fused(const Convolution& op, bool bias) {
  FusedConvolution out;
  out.stride_h = op.stride_h, out.stride_w = op.stride_w;
  out.pad_h = op.pad_h, out.pad_w = op.pad_w;
  out.dilate_h = op.dilate_h, out.dilate_w = op.dilate_w;
  out.mode = op.mode;
  out.sparse = op.sparse;
  out.bias = bias;
  return out;
}

template <class T>
bool is_scaled(const T& op) {
  return op.scale != 1 || op.shift != 0;
}

// The products that may take post-ops. Each absorbs what follows it, one node at a time.
class Fuser {
 public:
  explicit Fuser(Graph& graph) : graph_(graph), links_(graph) {}

  void run() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (const auto activation = activation_of(graph_, graph_.nodes[i])) {
        absorb_activation(i, *activation);
      } else if (const auto scaling = scaling_of(graph_, graph_.nodes[i])) {
        absorb_scaling(i, *scaling);
      } else if (const auto sum = sum_of(graph_, graph_.nodes[i])) {
        absorb_sum(i, *sum);
      }
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      // Keep their weights packed, which the ops whose weights may change do not.
      const Graph::Node& node = graph_.nodes[i];
      if ((attrs_if<Linear>(node) || stays_packed(node)) && takes_post_ops(node)) {
        rewrite(i, i, {}, [](auto&) { return true; });
      }
    }
    drop_nodes_without_op(graph_);
  }

 private:
  // The node that makes `id` for one user alone, if it is a product that takes post-ops.
  std::size_t product(ValueId id) const {
    const std::size_t at = links_.maker[id];
    if (at == Links::kNone || links_.count(id) != 1) return Links::kNone;
    return takes_post_ops(graph_.nodes[at]) ? at : Links::kNone;
  }
  bool takes_post_ops(const Graph::Node& node) const {
    if (attrs_if<FusedConvolution>(node) || attrs_if<FusedLinear>(node)) return true;
    if (node.in.size() < 2 || !is_constant(graph_, node.in[1])) return false;
    const Spec &x = graph_.values[node.in[0]].spec, &w = graph_.values[node.in[1]].spec;
    if (!cpu::dnn::computes(x.dtype)) return false;
    if (attrs_if<Convolution>(node)) return true;
    return attrs_if<Linear>(node) && linear_takes_post_ops(x, w);
  }

  bool stays_packed(const Graph::Node& node) const {
    const auto* op = attrs_if<Convolution>(node);
    return op && packs_weights(conv_attrs_2d(*op), graph_.values[node.in[0]].spec,
                               graph_.values[node.in[1]].spec);
  }

  // Calls f with the attributes that the product has as a fused op, and puts that op at `at` in
  // place of the node there, with `extra` as another input, unless f refuses.
  template <class F>
  bool rewrite(std::size_t from, std::size_t at, std::optional<ValueId> extra, F&& f) {
    const Graph::Node& node = graph_.nodes[from];
    const bool bias = node.in.size() > 2;
    const auto put = [&](auto op) {
      if (!f(op)) return false;
      Graph::Node made{make_op(op), node.in, graph_.nodes[at].out};
      if (extra) made.in.push_back(*extra);
      made.place = graph_.nodes[at].place;
      graph_.nodes[from].op = {};
      graph_.nodes[at] = std::move(made);
      return true;
    };
    if (const auto* op = attrs_if<Convolution>(node)) return put(fused(*op, bias));
    if (const auto* op = attrs_if<FusedConvolution>(node)) return put(*op);
    if (const auto* op = attrs_if<FusedLinear>(node)) return put(*op);
    FusedLinear linear;
    linear.bias = bias;
    return put(linear);
  }

  void absorb_activation(std::size_t at, const Activation& activation) {
    const std::size_t from = product(graph_.nodes[at].in[0]);
    if (from == Links::kNone) return;
    rewrite(from, at, {}, [&](auto& op) {
      if (op.activation || op.residual == Residual::AFTER_ACTIVATION || is_scaled(op)) return false;
      op.activation = activation.mode;
      op.alpha = activation.alpha;
      op.beta = activation.beta;
      return true;
    });
  }

  // Behind an activation; what has none takes factors into its weights.
  void absorb_scaling(std::size_t at, const Scaling& scaling) {
    const std::size_t from = product(graph_.nodes[at].in[scaling.of]);
    if (from == Links::kNone) return;
    rewrite(from, at, {}, [&](auto& op) {
      if (!op.activation || op.residual == Residual::AFTER_ACTIVATION) return false;
      op.scale *= scaling.scale;
      op.shift = op.shift * scaling.scale + scaling.shift;
      return true;
    });
  }

  // The later of two products takes the other operand as its residual, or else the earlier one.
  void absorb_sum(std::size_t at, const Sum& sum) {
    ValueId first = graph_.nodes[at].in[0], second = graph_.nodes[at].in[1];
    if (first == second) return;
    const auto age = [&](ValueId id) { return product(id) + 1; };  // 0 for none
    if (age(first) > age(second)) std::swap(first, second);
    if (!absorb_sum(at, second, first, sum)) absorb_sum(at, first, second, sum);
  }
  bool absorb_sum(std::size_t at, ValueId made, ValueId residual, const Sum& sum) {
    const std::size_t from = product(made);
    return from != Links::kNone && rewrite(from, at, residual, [&](auto& op) {
             if (op.residual != Residual::NONE ||
                 ((op.activation || is_scaled(op)) && sum.activation))
               return false;
             op.residual = op.activation ? Residual::AFTER_ACTIVATION : Residual::BEFORE_ACTIVATION;
             if (sum.activation) op.activation = sum.activation;
             return true;
           });
  }

  Graph& graph_;
  Links links_;
};

}  // namespace

void fuse_post_ops(Graph& graph) { Fuser(graph).run(); }

}  // namespace mge
