// Elementwise ops that feed one another become one op that computes them block by block: each value
// is read from memory once, and only what others need is written.
//
// A group takes in an op and the maker of one of its operands where
//   - both give the same shape, and neither computes in complex numbers or 16-bit floats;
//   - the group needs no more operands and steps than the kernel takes, outputs among the operands;
//   - nothing outside of the group lies between two of its ops: it can run as one;
//   - they are no more than kReach ops apart: what lies far apart is not in a cache any more, and
//     bringing it together would keep memory for longer.
// A group that was found runs as one where its results are large, since it saves passes over
// memory, or where two of its values or more are never written, which saves more calls than its own
// costs. One op alone does where nothing but a reduction needs its result, which takes such a chain
// into itself (fuse_reductions.cpp).
#include <algorithm>
#include <unordered_map>

#include "core/graph/pass.h"
#include "core/kernels/cpu/reduce_program.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/fused/fused.h"
#include "core/ops/reduce/reduce.h"

namespace mge {
namespace {

constexpr std::size_t kReach = 256;
constexpr std::size_t kNone = ~std::size_t{0};
constexpr std::int64_t kLarge = 8192;  // elements

const Elemwise* as_elemwise(const Graph::Node& node) {
  return node.op->type == &op_type<Elemwise>() ? &detail::attrs<Elemwise>(*node.op) : nullptr;
}
const TypeCvt* as_conversion(const Graph::Node& node) {
  return node.op->type == &op_type<TypeCvt>() ? &detail::attrs<TypeCvt>(*node.op) : nullptr;
}

class Fusion {
 public:
  explicit Fusion(Graph& graph)
      : graph_(graph),
        maker_(graph.values.size(), kNone),
        users_(graph.values.size()),
        wanted_(graph.values.size()) {
    for (const ValueId id : graph.outputs) wanted_[id] = true;
    std::size_t random = kNone;
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      const Graph::Node& node = graph.nodes[n];
      for (const ValueId id : node.out) maker_[id] = n;
      for (const ValueId id : node.in) users_[id].push_back(n);
      group_of_.push_back(n);
      groups_.push_back({{n}, n, kNone});
      order_.push_back(n);
      if (!node.op->type->traits.random) continue;
      groups_.back().after = random;  // draws keep their order
      random = n;
    }
  }

  void run() {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!fusable(n)) continue;
      for (const ValueId id : graph_.nodes[n].in) {
        const std::size_t from = maker_[id];
        if (from != kNone && fusable(from) && shape_of(from) == shape_of(n)) join(from, n);
      }
    }
    std::vector<Graph::Node> nodes;
    nodes.reserve(graph_.nodes.size());
    for (const std::size_t g : order_) {
      if (g == kNone) continue;
      const Group& group = groups_[g];
      if (pays(group)) {
        nodes.push_back(fused(group));
      } else {
        for (const std::size_t n : group.nodes) nodes.push_back(graph_.nodes[n]);
      }
    }
    graph_.nodes = std::move(nodes);
  }

 private:
  // Ops that run as one. Its index is that of its first node; `place` is where it stands in order_.
  struct Group {
    std::vector<std::size_t> nodes;  // rising
    std::size_t place;
    std::size_t after;  // a node that it must follow although it takes nothing from it
  };

  const Shape& shape_of(std::size_t n) const {
    return graph_.values[graph_.nodes[n].out[0]].spec.shape;
  }

  bool fusable(std::size_t n) const {
    const Graph::Node& node = graph_.nodes[n];
    const Elemwise* op = as_elemwise(node);
    if (!op && !as_conversion(node)) return false;
    for (const ValueId id : node.in) {
      if (is_complex(graph_.values[id].spec.dtype)) return false;
    }
    if (is_complex(graph_.values[node.out[0]].spec.dtype)) return false;
    const bool low = is_low_float(graph_.values[node.in.back()].spec.dtype);
    if (op && low && op->mode != ElementMode::WHERE) return false;
    // A power that is one number takes a way of its own, if it is known when the op begins.
    const bool power = op && op->mode == ElementMode::POW;
    const bool made = power && maker_[node.in[1]] != kNone;
    return !(made && graph_.values[node.in[1]].spec.size() == 1);
  }

  bool used_outside(ValueId id, const Group& a, const Group& b) const {
    if (wanted_[id]) return true;
    return std::any_of(users_[id].begin(), users_[id].end(), [&](std::size_t n) {
      const Group* g = &groups_[group_of_[n]];
      return g != &a && g != &b;
    });
  }

  bool small_enough(const Group& a, const Group& b) const {
    if (a.nodes.size() + b.nodes.size() > cpu::kMaxProgramSteps) return false;
    std::vector<ValueId> inputs;
    std::size_t outputs = 0;
    for (const Group* g : {&a, &b}) {
      for (const std::size_t n : g->nodes) {
        for (const ValueId id : graph_.nodes[n].in) {
          const Group* from = maker_[id] == kNone ? nullptr : &groups_[group_of_[maker_[id]]];
          if (from != &a && from != &b) inputs.push_back(id);
        }
        outputs += used_outside(graph_.nodes[n].out[0], a, b);
      }
    }
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    return inputs.size() + outputs <= cpu::kMaxProgramOperands;
  }

  bool only_reduced(std::size_t n) const {
    const ValueId id = graph_.nodes[n].out[0];
    if (wanted_[id] || users_[id].size() != 1) return false;
    if (graph_.values[id].spec.size() < cpu::kReduceProgramPays) return false;
    return graph_.nodes[users_[id][0]].op->type == &op_type<Reduce>();
  }

  bool pays(const Group& group) const {
    const std::size_t n = group.nodes[0];
    if (group.nodes.size() == 1) return fusable(n) && only_reduced(n);
    if (graph_.values[graph_.nodes[n].out[0]].spec.size() >= kLarge) return true;
    const auto written = std::count_if(group.nodes.begin(), group.nodes.end(), [&](std::size_t n) {
      return used_outside(graph_.nodes[n].out[0], group, group);
    });
    return static_cast<std::ptrdiff_t>(group.nodes.size()) - written >= 2;
  }

  // Calls f with the groups that must run before g.
  template <class F>
  void each_before(std::size_t g, F&& f) const {
    for (const std::size_t n : groups_[g].nodes) {
      for (const ValueId id : graph_.nodes[n].in) {
        if (maker_[id] != kNone && group_of_[maker_[id]] != g) f(group_of_[maker_[id]]);
      }
    }
    if (groups_[g].after != kNone) f(group_of_[groups_[g].after]);
  }

  // Makes one group of those of two nodes, the first of which makes what the second takes, if that
  // may be. order_ stays an order in which groups can run.
  void join(std::size_t maker, std::size_t user) {
    const std::size_t a = group_of_[maker], b = group_of_[user];
    const std::size_t first = groups_[a].place, last = groups_[b].place;
    if (a == b || last - first > kReach || !small_enough(groups_[a], groups_[b])) return;
    // What b needs of the groups in between; it goes in front. Where some of it needs a, a and b
    // cannot run as one.
    std::vector<bool> needed(last - first + 1);
    std::vector<std::size_t> open{b};
    bool between = false;
    while (!open.empty() && !between) {
      const std::size_t g = open.back();
      open.pop_back();
      each_before(g, [&](std::size_t before) {
        const std::size_t place = groups_[before].place;
        if (before == a) between |= g != b;
        if (place <= first || needed[place - first]) return;
        needed[place - first] = true;
        open.push_back(before);
      });
    }
    if (between) return;

    std::vector<std::size_t> front, back;
    for (std::size_t place = first + 1; place < last; ++place) {
      if (order_[place] == kNone) continue;
      (needed[place - first] ? front : back).push_back(order_[place]);
    }
    std::vector<std::size_t>& nodes = groups_[a].nodes;
    for (const std::size_t n : groups_[b].nodes) group_of_[n] = a;
    nodes.insert(nodes.end(), groups_[b].nodes.begin(), groups_[b].nodes.end());
    std::sort(nodes.begin(), nodes.end());
    std::size_t place = first;
    const auto put = [&](std::size_t g) {
      order_[place] = g;
      groups_[g].place = place++;
    };
    for (const std::size_t g : front) put(g);
    put(a);
    for (const std::size_t g : back) put(g);
    while (place <= last) order_[place++] = kNone;
  }

  Graph::Node fused(const Group& group) const {
    cpu::ElementProgram program;
    Graph::Node out;
    std::unordered_map<ValueId, std::size_t> operand;
    for (const std::size_t n : group.nodes) {
      for (const ValueId id : graph_.nodes[n].in) {
        const bool inside = maker_[id] != kNone && &groups_[group_of_[maker_[id]]] == &group;
        if (inside || !operand.try_emplace(id, out.in.size()).second) continue;
        out.in.push_back(id);
        program.inputs.push_back(graph_.values[id].spec.dtype);
      }
    }
    for (const std::size_t n : group.nodes) {
      const Graph::Node& node = graph_.nodes[n];
      const ValueId result = node.out[0];
      cpu::ElementStep step;
      for (const ValueId id : node.in) step.in.push_back(static_cast<std::uint8_t>(operand[id]));
      step.converts = as_conversion(node) != nullptr;
      if (!step.converts) step.mode = as_elemwise(node)->mode;
      step.from = graph_.values[node.in.back()].spec.dtype;
      step.to = graph_.values[result].spec.dtype;
      if (used_outside(result, group, group)) {
        program.outputs.push_back(static_cast<std::uint8_t>(program.steps.size()));
        out.out.push_back(result);
      }
      operand[result] = program.inputs.size() + program.steps.size();
      program.steps.push_back(std::move(step));
    }
    out.op = make_op(FusedElementwise{text_of(program)});
    return out;
  }

  Graph& graph_;
  std::vector<std::size_t> maker_;               // by value: the node that makes it
  std::vector<std::vector<std::size_t>> users_;  // by value: the nodes that take it
  std::vector<bool> wanted_;                     // by value: an output of the graph
  std::vector<std::size_t> group_of_;            // by node
  std::vector<Group> groups_;                    // by node; those that were joined are left behind
  std::vector<std::size_t> order_;               // groups; kNone where one was taken away
};

}  // namespace

void fuse_elementwise(Graph& graph) { Fusion(graph).run(); }

}  // namespace mge
