#include "core/graph/program.h"

#include <algorithm>
#include <unordered_map>

#include "core/dispatch/dispatch.h"

namespace mge {

Program::Program(const Graph& graph, std::size_t begin, std::size_t end, std::vector<ValueId> live)
    : begin_(begin), end_(end), live_(std::move(live)), results_(live_) {
  // From the end: a node stays where one of its outputs is needed, or where it draws random
  // numbers, since the draws after it depend on it.
  std::vector<bool> needed(graph.values.size());
  for (const ValueId id : live_) needed[id] = true;
  for (std::size_t i = end; i-- > begin;) {
    const Graph::Node& node = graph.nodes[i];
    const bool wanted =
        node.op->type->traits.random ||
        std::any_of(node.out.begin(), node.out.end(), [&](ValueId id) { return bool{needed[id]}; });
    if (!wanted) continue;
    for (const ValueId id : node.in) needed[id] = true;
    steps_.push_back({node.op, node.in, node.out, {}, {}});
  }
  std::reverse(steps_.begin(), steps_.end());
  merge_equal_steps();
  find_last_uses(graph);
}

// Common subexpressions: a step that computes what an earlier one did is left out, and its outputs
// stand for the earlier ones. Values are immutable, so that sharing them is safe.
void Program::merge_equal_steps() {
  std::unordered_map<ValueId, ValueId> stands_for;
  const auto resolved = [&](ValueId id) {
    const auto it = stands_for.find(id);
    return it == stands_for.end() ? id : it->second;
  };
  std::unordered_multimap<std::size_t, std::size_t> by_hash;
  std::vector<Step> kept;
  kept.reserve(steps_.size());
  for (Step& step : steps_) {
    std::size_t hash = step.op->hash();
    for (ValueId& id : step.in) {
      id = resolved(id);
      hash = hash * 1000003 + id;
    }
    bool merged = false;
    const auto [first, last] = by_hash.equal_range(hash);
    for (auto it = first; it != last && !merged; ++it) {
      const Step& other = kept[it->second];
      if (step.op->type->traits.random || !same_op(step.op, other.op)) continue;
      if (!std::equal(step.in.begin(), step.in.end(), other.in.begin(), other.in.end())) continue;
      for (std::size_t i = 0; i < step.out.size(); ++i) stands_for[step.out[i]] = other.out[i];
      merged = true;
    }
    if (merged) continue;
    by_hash.emplace(hash, kept.size());
    kept.push_back(std::move(step));
  }
  steps_ = std::move(kept);
  for (ValueId& id : results_) id = resolved(id);
}

void Program::find_last_uses(const Graph& graph) {
  made_.assign(graph.values.size(), false);
  for (const Step& step : steps_) {
    for (const ValueId id : step.out) made_[id] = true;
  }
  std::vector<bool> used(graph.values.size());
  for (const ValueId id : results_) used[id] = true;
  for (std::size_t s = steps_.size(); s-- > 0;) {
    Step& step = steps_[s];
    step.unused.resize(step.out.size());
    for (std::size_t i = 0; i < step.out.size(); ++i) step.unused[i] = !used[step.out[i]];
    step.last.resize(step.in.size());
    // The last of several places in one step comes first here.
    for (std::size_t i = step.in.size(); i-- > 0;) {
      step.last[i] = made_[step.in[i]] && !used[step.in[i]];
      used[step.in[i]] = true;
    }
  }
}

std::vector<Value> Program::run(const std::vector<Value>& env) const {
  PauseGrad pause;  // tapes have recorded these ops as they were called
  std::vector<Value> values(made_.size());
  for (const Step& step : steps_) {
    Values in(step.in.size());
    // Copies first: a value that is let go here may be there twice.
    for (std::size_t i = 0; i < in.size(); ++i) {
      const ValueId id = step.in[i];
      if (!step.last[i]) in[i] = made_[id] ? values[id] : env[id];
    }
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (step.last[i]) in[i] = std::move(values[step.in[i]]);
    }
    Values out = execute_now(step.op, in);
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (!step.unused[i]) values[step.out[i]] = std::move(out[i]);
    }
  }
  std::vector<Value> results;
  results.reserve(results_.size());
  for (const ValueId id : results_) results.push_back(made_[id] ? values[id] : env[id]);
  return results;
}

}  // namespace mge
