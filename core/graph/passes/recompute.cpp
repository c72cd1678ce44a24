#include <algorithm>
#include <optional>
#include <unordered_map>

#include "core/graph/liveness.h"
#include "core/graph/pass.h"
#include "core/ops/elementwise/rules.h"
#include "core/ops/fused/fused.h"

namespace mge {
namespace {

// What computing values again may cost, as bytes read and written, of what the whole graph reads
// and writes. Networks spend more time in products than in moving memory, so it is less of the
// time.
constexpr double kMostCost = 0.10;
// And of one value: times its own size.
constexpr double kMostCostOfValue = 8;
// A peak that is so much of what it was is low enough.
constexpr double kLowPeak = 0.8;
// Longer chains are not worth it, and looking for them takes time.
constexpr std::size_t kLongestChain = 12;
// Smaller buffers make no peak.
constexpr std::int64_t kSmallest = 16 << 10;

// Ops that do little more than move memory. Those without inputs only write.
bool is_cheap(const Graph::Node& node) {
  const OpTraits& t = node.op->type->traits;
  const bool moves_memory = node.in.empty() || t.fuse == Fuse::elementwise ||
                            t.fuse == Fuse::view || t.fuse == Fuse::reduction;
  return moves_memory && !t.random && !t.by_contents;
}

// Heavy functions that a node computes of each element.
int heavy_steps(const Graph::Node& node) {
  if (node.op->type == &op_type<Elemwise>()) {
    return elemwise_rule(detail::attrs<Elemwise>(*node.op).mode).heavy;
  }
  if (node.op->type != &op_type<FusedElementwise>()) return 0;
  const auto program = program_of(detail::attrs<FusedElementwise>(*node.op));
  const auto& steps = program->steps;
  return static_cast<int>(std::count_if(steps.begin(), steps.end(), [](const auto& step) {
    return !step.converts && elemwise_rule(step.mode).heavy;
  }));
}

// Bytes that a node reads and writes. Reductions go over their input twice; a heavy function counts
// as another four passes over its result.
std::int64_t traffic(const Graph& graph, const Graph::Node& node) {
  if (is_view(graph, node)) return 0;
  std::int64_t bytes = 0;
  for (const ValueId id : node.in) bytes += bytes_of(graph.values[id].spec);
  if (node.op->type->traits.fuse == Fuse::reduction) bytes *= 2;
  for (const ValueId id : node.out) bytes += bytes_of(graph.values[id].spec);
  return bytes + 4 * heavy_steps(node) * bytes_of(graph.values[node.out[0]].spec);
}

// A buffer that is there at the peak only for nodes that come long after.
struct Candidate {
  ValueId buffer = 0;
  std::size_t at = 0;                // the first node that uses it after the peak
  std::vector<std::size_t> chain;    // the nodes to run again before that one, in order
  std::int64_t bytes = 0, cost = 0;  // saved at the peak; moved by the chain
  double price() const { return static_cast<double>(cost) / static_cast<double>(bytes); }
};

class Search {
 public:
  explicit Search(const Graph& graph) : graph_(graph), liveness_(graph) {
    made_.resize(graph.values.size(), kOutside);
    uses_.resize(graph.values.size());
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      for (const ValueId id : graph.nodes[n].out) made_[id] = n;
      for (const ValueId id : graph.nodes[n].in) {
        uses_[liveness_.buffer_of[id]].push_back({n, id});
      }
    }
    for (const ValueId id : graph.outputs) asked_for_.push_back(liveness_.buffer_of[id]);
    std::sort(asked_for_.begin(), asked_for_.end());
  }

  std::int64_t peak() const { return liveness_.live[liveness_.peak]; }

  // The one that costs least for each byte that it saves.
  std::optional<Candidate> best() const {
    std::optional<Candidate> best;
    for (ValueId b = 0; b < liveness_.buffers.size(); ++b) {
      const std::optional<Candidate> c = candidate(b);
      if (c && c->price() <= kMostCostOfValue &&
          (!best || c->price() < best->price() ||
           (c->price() == best->price() && c->bytes > best->bytes))) {
        best = c;
      }
    }
    return best;
  }

  // The values of the buffer that nodes from `at` on use.
  std::vector<ValueId> late(ValueId buffer, std::size_t at) const {
    std::vector<ValueId> out;
    for (const auto& [n, id] : uses_[buffer]) {
      if (n >= at && std::find(out.begin(), out.end(), id) == out.end()) out.push_back(id);
    }
    return out;
  }

 private:
  static constexpr std::size_t kOutside = ~std::size_t{0};

  std::optional<Candidate> candidate(ValueId b) const {
    const Liveness::Buffer& buffer = liveness_.buffers[b];
    const std::size_t peak = liveness_.peak;
    if (buffer.bytes < kSmallest || buffer.begin >= peak || buffer.end <= peak + 1) return {};
    if (std::binary_search(asked_for_.begin(), asked_for_.end(), b)) return {};
    Candidate c{b, kOutside, {}, buffer.bytes, 0};
    for (const auto& [n, id] : uses_[b]) {
      if (n == peak) return {};
      if (n > peak) c.at = std::min(c.at, n);
    }
    if (c.at == kOutside) return {};
    for (const ValueId id : late(b, c.at)) {
      if (!rebuild(id, b, c.at, c.chain)) return {};
    }
    std::sort(c.chain.begin(), c.chain.end());
    for (const std::size_t n : c.chain) c.cost += traffic(graph_, graph_.nodes[n]);
    return c;
  }

  // Adds the nodes that compute a value from what is there at `at` anyway.
  bool rebuild(ValueId id, ValueId without, std::size_t at, std::vector<std::size_t>& chain) const {
    const std::size_t n = made_[id];
    if (n == kOutside) return true;
    if (std::find(chain.begin(), chain.end(), n) != chain.end()) return true;
    if (chain.size() >= kLongestChain || !is_cheap(graph_.nodes[n])) return false;
    chain.push_back(n);
    for (const ValueId in : graph_.nodes[n].in) {
      const ValueId b = liveness_.buffer_of[in];
      const Liveness::Buffer& buffer = liveness_.buffers[b];
      const bool there = graph_.values[b].external || (b != without && buffer.end > at);
      if (!there && !rebuild(in, without, at, chain)) return false;
    }
    return true;
  }

  const Graph& graph_;
  Liveness liveness_;
  std::vector<std::size_t> made_;                                   // by value: the node
  std::vector<std::vector<std::pair<std::size_t, ValueId>>> uses_;  // by buffer, in order
  std::vector<ValueId> asked_for_;
};

// Runs the chain again before node `at`; what comes from there on takes its results.
void insert(Graph& graph, const Candidate& c, const std::vector<ValueId>& late) {
  std::unordered_map<ValueId, ValueId> again;
  std::vector<Graph::Node> nodes;
  for (const std::size_t n : c.chain) {
    Graph::Node node = graph.nodes[n];
    for (ValueId& id : node.in) {
      if (const auto it = again.find(id); it != again.end()) id = it->second;
    }
    for (ValueId& id : node.out) {
      const Spec spec = graph.values[id].spec;
      id = again[id] = graph.add_value(spec, false);
    }
    nodes.push_back(std::move(node));
  }
  for (std::size_t n = c.at; n < graph.nodes.size(); ++n) {
    for (ValueId& id : graph.nodes[n].in) {
      if (std::find(late.begin(), late.end(), id) != late.end()) id = again.at(id);
    }
  }
  graph.nodes.insert(graph.nodes.begin() + static_cast<std::ptrdiff_t>(c.at),
                     std::make_move_iterator(nodes.begin()), std::make_move_iterator(nodes.end()));
}

}  // namespace

// As long as a buffer waits at the peak for nodes long after it, the cheapest such is let go and
// its value computed again where it is needed, from what is there anyway. The same kernels run on
// the same numbers, so that results are the same to the last bit.
void recompute_cheap_values(Graph& graph) {
  double budget = 0;
  for (const Graph::Node& node : graph.nodes) {
    budget += kMostCost * static_cast<double>(traffic(graph, node));
  }
  double enough = 0;
  for (std::size_t most = graph.nodes.size(); most > 0; --most) {
    std::optional<Candidate> c;
    std::vector<ValueId> late;
    {
      const Search search(graph);
      const auto peak = static_cast<double>(search.peak());
      if (enough == 0) enough = kLowPeak * peak;
      if (peak <= enough) return;
      c = search.best();
      if (!c) return;
      late = search.late(c->buffer, c->at);
    }
    budget -= static_cast<double>(c->cost);
    if (budget < 0) return;
    insert(graph, *c, late);
  }
}

}  // namespace mge
