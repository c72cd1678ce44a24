// The gradient of x[i] is a tensor of zeros with a part written, and where several parts of x are
// used these are added up. Parts that do not overlap are written into one tensor instead:
//
//   %3 = SetSubtensor(start=(0,))(%zeros, %a)         %3 = SetSubtensor(start=(0,))(%zeros, %a)
//   %5 = SetSubtensor(start=(1,))(%zeros2, %b)    ->  %6 = SetSubtensor(start=(1,))(%3, %b)
//   %6 = Elemwise(ADD)(%3, %5)
//
// Each such tensor is made of zeros of its own, which are written in place; shared ones would be
// copied and kept. Where the parts are all of it, they are joined instead, and no zeros written.
#include <optional>
#include <unordered_map>

#include "core/graph/pass.h"
#include "core/graph/passes/links.h"
#include "core/ops/creation/creation.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/indexing/indexing.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

// The elements begin ... end - 1 of one axis, which alone are not 0.
struct Part {
  std::int64_t axis, begin, end;
};

std::optional<Part> part_of(const BasicItems& items, const Shape& shape) {
  if (items.axis.size() != 1) return std::nullopt;
  const std::int64_t n = shape[static_cast<int>(items.axis[0])];
  const auto place = [&](std::int64_t i) {
    return std::clamp<std::int64_t>(i < 0 ? i + n : i, 0, n);
  };
  const std::int64_t start = items.start[0], stop = items.stop[0], step = items.step[0];
  if (step == 0) return Part{items.axis[0], place(start), place(start) + 1};
  if (step != 1) return std::nullopt;
  return Part{items.axis[0], start == kNoBound ? 0 : place(start),
              stop == kNoBound ? n : place(stop)};
}

class Joining {
 public:
  explicit Joining(Graph& graph) : graph_(graph), links_(graph) {}

  void run() {
    std::vector<Graph::Node> nodes;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      Graph::Node& node = graph_.nodes[n];
      if (const auto* op = attrs_if<SetSubtensor>(node)) {
        const auto part = part_of(*op, spec(node.in[0]).shape);
        if (part && is_zeros(node.in[0])) {
          parts_[node.out[0]] = {*part};
          node.in[0] = own_zeros(node.in[0], nodes);
        }
      } else if (const auto* sum = attrs_if<Elemwise>(node); sum && sum->mode == ElementMode::ADD) {
        if (!join(node, n, node.in[0], node.in[1])) join(node, n, node.in[1], node.in[0]);
      }
      nodes.push_back(node);
    }
    graph_.nodes = std::move(nodes);
    join_whole();
  }

 private:
  // A write into zeros, or into what an earlier such write gives.
  struct Write {
    Part part;
    ValueId value;
    bool keeps_axis;
  };

  // Puts a Concat in the place of writes that are all of a tensor.
  void join_whole() {
    links_ = Links(graph_);
    std::vector<Graph::Node> nodes;
    for (const Graph::Node& node : graph_.nodes) {
      if (!attrs_if<SetSubtensor>(node) || !join_writes(node, nodes)) nodes.push_back(node);
    }
    graph_.nodes = std::move(nodes);
  }

  bool join_writes(const Graph::Node& last, std::vector<Graph::Node>& nodes) {
    std::vector<Write> writes;
    const Graph::Node* node = &last;
    ValueId zeros = last.out[0];
    while (const auto* op = attrs_if<SetSubtensor>(*node)) {
      const Spec& whole = spec(node->in[0]);
      const auto part = part_of(*op, whole.shape);
      if (!part || node->in.size() != 2) return false;
      const bool keeps_axis = op->step[0] != 0;
      const Spec& value = spec(node->in[1]);
      Shape shape = whole.shape;
      shape[static_cast<int>(part->axis)] = part->end - part->begin;
      if (!keeps_axis) shape.erase(static_cast<int>(part->axis));
      if (value.shape != shape || value.dtype != whole.dtype) return false;
      writes.push_back({*part, node->in[1], keeps_axis});
      zeros = node->in[0];
      const std::size_t before = links_.maker[zeros];
      if (before == Links::kNone || links_.count(zeros) != 1) return false;
      node = &graph_.nodes[before];
    }
    if (!is_zeros(zeros) || writes.size() < 2) return false;
    // The axes of the tensor in memory.
    const int ndim = spec(last.out[0]).ndim();
    Dims pattern;
    for (int i = 0; i < ndim; ++i) pattern.push_back(i);
    if (const auto* turned = attrs_if<Dimshuffle>(*node)) {
      pattern = turned->pattern;
      node = &graph_.nodes[links_.maker[node->in[0]]];
    }
    if (!attrs_if<Fill>(*node)) return false;
    const Spec memory = spec(node->out[0]);
    const bool permutes = std::find(pattern.begin(), pattern.end(), -1) == pattern.end();
    if (memory.ndim() != ndim || !permutes) return false;

    std::sort(writes.begin(), writes.end(),
              [](const Write& a, const Write& b) { return a.part.begin < b.part.begin; });
    std::int64_t end = 0;
    for (const Write& w : writes) {
      if (w.part.axis != writes[0].part.axis || w.part.begin != end) return false;
      end = w.part.end;
    }
    const auto axis = static_cast<int>(writes[0].part.axis);
    if (end != spec(last.out[0]).shape[axis]) return false;

    Graph::Node join;
    const auto axis_in_memory = pattern[axis];
    join.op = make_op(Concat{axis_in_memory});
    for (const Write& w : writes) {
      Dimshuffle turn;
      turn.pattern = Dims::filled(ndim, 0);
      for (int i = 0; i < ndim; ++i) {
        const int left = w.keeps_axis || i < axis ? i : i == axis ? -1 : i - 1;
        turn.pattern[static_cast<int>(pattern[i])] = left;
      }
      Shape shape = memory.shape;
      shape[static_cast<int>(axis_in_memory)] = w.part.end - w.part.begin;
      join.in.push_back(add_node(nodes, make_op(turn), {w.value}, Spec(memory.dtype, shape)));
    }
    Dimshuffle back;
    back.pattern = pattern;
    join.out.push_back(graph_.add_value(memory, false));
    nodes.push_back(join);
    nodes.push_back({make_op(back), {join.out[0]}, {last.out[0]}});
    return true;
  }

  ValueId add_node(std::vector<Graph::Node>& nodes, OpRef op, SmallVector<ValueId, 4> in,
                   const Spec& made) {
    const ValueId id = graph_.add_value(made, false);
    nodes.push_back({std::move(op), std::move(in), {id}});
    return id;
  }

  const Spec& spec(ValueId id) const { return graph_.values[id].spec; }

  bool is_zeros(ValueId id) const {
    const std::size_t n = links_.maker[id];
    if (n == Links::kNone) return false;
    const Graph::Node& node = graph_.nodes[n];
    if (attrs_if<Dimshuffle>(node)) return is_zeros(node.in[0]);
    const auto* fill = attrs_if<Fill>(node);
    return fill && fill->value == 0 && node.in.empty();
  }

  // Zeros that nothing else takes.
  ValueId own_zeros(ValueId id, std::vector<Graph::Node>& nodes) {
    Graph::Node node = graph_.nodes[links_.maker[id]];
    if (!node.in.empty()) node.in[0] = own_zeros(node.in[0], nodes);
    const Graph::Entry entry = graph_.values[id];
    graph_.values.push_back(entry);
    const auto own = static_cast<ValueId>(graph_.values.size() - 1);
    node.out[0] = own;
    nodes.push_back(std::move(node));
    return own;
  }

  // Makes the sum of x and y, a part of zeros, a write of that part into x.
  bool join(Graph::Node& sum, std::size_t n, ValueId x, ValueId y) {
    const auto in_x = parts_.find(x), in_y = parts_.find(y);
    if (in_x == parts_.end() || in_y == parts_.end() || in_y->second.size() != 1 || x == y) {
      return false;
    }
    const Graph::Node& write = graph_.nodes[links_.maker[y]];
    if (!attrs_if<SetSubtensor>(write) || !links_.only_for(x, n) || !links_.only_for(y, n)) {
      return false;
    }
    if (spec(x).shape != spec(y).shape || spec(x).strides != spec(y).strides) return false;
    const Part& b = in_y->second[0];
    for (const Part& a : in_x->second) {
      if (a.axis != b.axis || (a.begin < b.end && b.begin < a.end)) return false;
    }
    std::vector<Part> both = in_x->second;
    both.push_back(b);
    sum.op = write.op;
    sum.in = {x, write.in[1]};
    parts_[sum.out[0]] = std::move(both);
    return true;
  }

  Graph& graph_;
  Links links_;
  std::unordered_map<ValueId, std::vector<Part>> parts_;  // of values that are 0 elsewhere
};

}  // namespace

void join_slices(Graph& graph) {
  Joining(graph).run();
  remove_dead_code(graph);
}

}  // namespace mge
