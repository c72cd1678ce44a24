#include <cmath>
#include <numbers>
#include <optional>
#include <unordered_map>

#include "core/graph/pass.h"
#include "core/graph/passes/constants.h"
#include "core/graph/passes/links.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

using Mode = Elemwise::Mode;

bool is_mode(const Graph::Node& node, Mode mode) {
  const Elemwise* op = attrs_if<Elemwise>(node);
  return op && op->mode == mode;
}

bool is_number(const Graph& graph, ValueId id, double number) {
  return number_of(graph, id) == number;
}

bool in_order(const Dims& pattern) {
  for (int i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != i) return false;
  }
  return true;
}

class Simplifier {
 public:
  explicit Simplifier(Graph& graph) : graph_(graph), links_(graph) {}

  void run() {
    for (Graph::Node& node : graph_.nodes) {
      for (ValueId& id : node.in) id = resolved(id);
      join_views(node);
      name_activation(node);
      if (const auto same = same_as_result(node)) {
        stands_for_[node.out[0]] = *same;
        node.op = {};
      }
    }
    for (ValueId& id : graph_.outputs) id = resolved(id);
    drop_nodes_without_op(graph_);
  }

 private:
  ValueId resolved(ValueId id) const {
    const auto it = stands_for_.find(id);
    return it == stands_for_.end() ? id : it->second;
  }
  const Spec& spec(ValueId id) const { return graph_.values[id].spec; }
  const Graph::Node* maker(ValueId id) const {
    const std::size_t at = links_.maker[id];
    return at == Links::kNone || !graph_.nodes[at].op ? nullptr : &graph_.nodes[at];
  }

  // The input that holds just what the node computes.
  std::optional<ValueId> same_as_result(const Graph::Node& node) const {
    if (node.out.size() != 1 || node.in.empty()) return std::nullopt;
    const auto keeps = [&](ValueId id) {
      return spec(id).shape == spec(node.out[0]).shape && spec(id).dtype == spec(node.out[0]).dtype;
    };
    const ValueId x = node.in[0];
    if (node.in.size() == 1 && keeps(x)) {
      const auto* shuffle = attrs_if<Dimshuffle>(node);
      const bool nothing = attrs_if<TypeCvt>(node) || attrs_if<Reshape>(node) ||
                           attrs_if<Broadcast>(node) || attrs_if<Identity>(node) ||
                           (shuffle && in_order(shuffle->pattern));
      if (nothing) return x;
    }
    const Elemwise* op = attrs_if<Elemwise>(node);
    if (!op || node.in.size() != 2) return std::nullopt;
    const ValueId y = node.in[1];
    const auto neutral = [&](double number, bool either_side) -> std::optional<ValueId> {
      if (keeps(x) && is_number(graph_, y, number)) return x;
      if (either_side && keeps(y) && is_number(graph_, x, number)) return y;
      return std::nullopt;
    };
    switch (op->mode) {
      case Mode::ADD:
        return neutral(0, true);
      case Mode::SUB:
        return neutral(0, false);
      case Mode::MUL:
        return neutral(1, true);
      case Mode::TRUE_DIV:
      case Mode::POW:
        return neutral(1, false);
      default:
        return std::nullopt;
    }
  }

  // A view of a view is a view of what that one shows.
  void join_views(Graph::Node& node) {
    if (node.in.size() != 1) return;
    const Graph::Node* before = maker(node.in[0]);
    if (!before || before->in.size() != 1) return;
    if (attrs_if<Reshape>(node) && attrs_if<Reshape>(*before)) {
      node.in[0] = before->in[0];
      return;
    }
    const auto *second = attrs_if<Dimshuffle>(node), *first = attrs_if<Dimshuffle>(*before);
    if (!second || !first) return;
    Dimshuffle both;
    for (const std::int64_t axis : second->pattern) {
      both.pattern.push_back(axis < 0 ? -1 : first->pattern[static_cast<int>(axis)]);
    }
    node.op = make_op(both);
    node.in[0] = before->in[0];
  }

  // x * sigmoid(x) is SiLU, clip(x + 3, 0, 6) / 6 is the hard sigmoid, x * that is hard swish, x /
  // 2 * (1 + erf(x / sqrt(2))) is GELU, x ** 2 is a square.
  void name_activation(Graph::Node& node) {
    if (is_mode(node, Mode::POW) && is_number(graph_, node.in[1], 2) &&
        spec(node.in[0]).dtype == spec(node.out[0]).dtype) {
      node.op = elemwise_op(Mode::SQUARE);
      node.in.resize(1);
      return;
    }
    if (const auto sixfold = sixth(node)) {
      const Graph::Node* product = maker(*sixfold);
      auto x = clipped_to_six(*sixfold);
      auto mode = Mode::HSIGMOID;
      if (!x && product && is_mode(*product, Mode::MUL)) {
        mode = Mode::H_SWISH;
        for (std::size_t i = 0; i < 2 && !x; ++i) {
          if (clipped_to_six(product->in[1 - i]) == product->in[i]) x = product->in[i];
        }
      }
      if (x && spec(*x).shape == spec(node.out[0]).shape) {
        node.op = elemwise_op(mode);
        node.in = {*x};
        return;
      }
    }
    if (!is_mode(node, Mode::MUL)) return;
    if (const auto x = argument_of_gelu(node)) {
      node.op = elemwise_op(Mode::GELU);
      node.in = {*x};
      return;
    }
    for (std::size_t i = 0; i < 2; ++i) {
      const ValueId x = node.in[i], gate = node.in[1 - i];
      const Graph::Node* before = maker(gate);
      if (!before || links_.count(gate) != 1 || before->in[0] != x) continue;
      const bool silu = is_mode(*before, Mode::SIGMOID);
      if (!silu && !is_mode(*before, Mode::HSIGMOID)) continue;
      node.op = elemwise_op(silu ? Mode::SILU : Mode::H_SWISH);
      node.in = {x};
      return;
    }
  }

  // The factors of a product of products that nobody else needs.
  void factors(const Graph::Node& product, SmallVector<ValueId, 4>& out) const {
    for (const ValueId id : product.in) {
      const Graph::Node* before = maker(id);
      if (before && is_mode(*before, Mode::MUL) && links_.count(id) == 1 && out.size() < 4) {
        factors(*before, out);
      } else {
        out.push_back(id);
      }
    }
  }
  bool is_about(ValueId id, double number) const {
    const auto n = number_of(graph_, id);
    return n && std::abs(*n - number) < 1e-5 * number;
  }
  // The operand beside a number in a node of this mode.
  std::optional<ValueId> beside(const Graph::Node* node, Mode mode, double number) const {
    if (!node || !is_mode(*node, mode)) return std::nullopt;
    if (is_about(node->in[1], number)) return node->in[0];
    if (mode != Mode::TRUE_DIV && is_about(node->in[0], number)) return node->in[1];
    return std::nullopt;
  }
  // The operand of a node that divides by six.
  std::optional<ValueId> sixth(const Graph::Node& node) const {
    const auto out = beside(&node, Mode::TRUE_DIV, 6);
    return out ? out : beside(&node, Mode::MUL, 1.0 / 6);
  }
  // x of x + 3, brought into [0, 6].
  std::optional<ValueId> clipped_to_six(ValueId id) const {
    const Graph::Node* clip = maker(id);
    if (!clip) return std::nullopt;
    const bool fits = is_mode(*clip, Mode::RELU6) ||
                      (is_mode(*clip, Mode::CLIP) && is_number(graph_, clip->in[1], 0) &&
                       is_number(graph_, clip->in[2], 6));
    return fits ? beside(maker(clip->in[0]), Mode::ADD, 3) : std::nullopt;
  }
  // x of a product of x, 0.5 and 1 + erf(x / sqrt(2)), in any order.
  std::optional<ValueId> argument_of_gelu(const Graph::Node& node) const {
    SmallVector<ValueId, 4> all;
    factors(node, all);
    if (all.size() != 3) return std::nullopt;
    for (const ValueId gate : all) {
      const auto erf = beside(maker(gate), Mode::ADD, 1);
      if (!erf || !maker(*erf) || !is_mode(*maker(*erf), Mode::ERF)) continue;
      const Graph::Node* scaled = maker(maker(*erf)->in[0]);
      auto x = beside(scaled, Mode::TRUE_DIV, std::numbers::sqrt2);
      if (!x) x = beside(scaled, Mode::MUL, std::numbers::sqrt2 / 2);
      if (!x || spec(*x).shape != spec(node.out[0]).shape) continue;
      bool half = false, itself = false;
      for (const ValueId id : all) {
        half = half || is_about(id, 0.5);
        itself = itself || id == *x;
      }
      if (half && itself) return x;
    }
    return std::nullopt;
  }

  Graph& graph_;
  Links links_;
  std::unordered_map<ValueId, ValueId> stands_for_;
};

}  // namespace

// Sums with zero may turn -0 into 0, and squares and named activations round once where the ops
// they stand for round twice; all else is exact.
void simplify(Graph& graph) { Simplifier(graph).run(); }

}  // namespace mge
