#include <algorithm>

#include "core/graph/pass.h"
#include "core/graph/passes/constants.h"

namespace mge {
namespace {

// Of the elements that are there; a view may show one many times.
std::size_t bytes_of(const Value& v) {
  auto bytes = static_cast<std::size_t>(size_of(v.dtype()));
  for (int i = 0; i < v.ndim(); ++i) {
    if (v.strides()[i] != 0) bytes *= static_cast<std::size_t>(v.shape()[i]);
  }
  return bytes;
}

// A result is kept for as long as the program lives: one that is much larger than what it is made
// of, such as a repeated row, is better made in each run.
constexpr std::size_t kFreeBytes = 1 << 20;
constexpr std::size_t kMostGrowth = 4;

bool worth_keeping(const Graph& graph, const Graph::Node& node, const Values& made) {
  std::size_t from = 0, to = 0;
  for (const ValueId id : node.in) from += bytes_of(constant_of(graph, id));
  for (const Value& v : made) to += v.unique() ? bytes_of(v) : 0;  // a view holds nothing new
  return to <= kFreeBytes + kMostGrowth * from;
}

bool same_result(const Graph& graph, const Graph::Node& node, const Values& made) {
  if (made.size() != node.out.size()) return false;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const Spec& want = graph.values[node.out[i]].spec;
    if (made[i].dtype() != want.dtype || made[i].shape() != want.shape) return false;
  }
  return true;
}

}  // namespace

void fold_constants(Graph& graph) {
  std::vector<Graph::Node> kept;
  kept.reserve(graph.nodes.size());
  for (Graph::Node& node : graph.nodes) {
    const bool fixed = !node.in.empty() && !node.op->type->traits.random &&
                       std::all_of(node.in.begin(), node.in.end(),
                                   [&](ValueId id) { return is_constant(graph, id); });
    if (fixed) {
      const RunAtOnce at_once;
      Values in;
      for (const ValueId id : node.in) in.push_back(constant_of(graph, id));
      const Values made = execute_now(node.op, in);
      if (same_result(graph, node, made) && worth_keeping(graph, node, made)) {
        for (std::size_t i = 0; i < made.size(); ++i) {
          Graph::Entry& entry = graph.values[node.out[i]];
          entry.external = true;
          // What the constants know of a traced call or a tape is not this value's.
          entry.constant = made[i].detached();
          entry.spec = made[i].spec();
        }
        continue;
      }
    }
    kept.push_back(std::move(node));
  }
  graph.nodes = std::move(kept);
}

}  // namespace mge
