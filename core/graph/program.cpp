#include "core/graph/program.h"

#include "core/dispatch/dispatch.h"
#include "core/graph/pass.h"

namespace mge {
namespace {

// Elements in and out of the ops of a program that takes some 50 us. To hand Python's lock over
// costs 0.1 us, and milliseconds where another thread takes it.
constexpr std::int64_t kLong = 1 << 17;

std::int64_t elements(const Graph& graph) {
  std::int64_t count = 0;
  for (const Graph::Node& node : graph.nodes) {
    for (const ValueId id : node.in) count += graph.values[id].spec.size();
    for (const ValueId id : node.out) count += graph.values[id].spec.size();
  }
  return count;
}

}  // namespace

Program::Program(Graph graph) : graph_(std::move(graph)) {
  optimize(graph_);
  long_ = elements(graph_) >= kLong;
  std::vector<bool> used(graph_.values.size());
  for (const ValueId id : graph_.outputs) used[id] = true;
  plan_.resize(graph_.nodes.size());
  for (std::size_t n = graph_.nodes.size(); n-- > 0;) {
    const Graph::Node& node = graph_.nodes[n];
    Plan& plan = plan_[n];
    plan.unused.resize(node.out.size());
    for (std::size_t i = 0; i < node.out.size(); ++i) plan.unused[i] = !used[node.out[i]];
    plan.last.resize(node.in.size());
    // The last of several places in one node comes first here.
    for (std::size_t i = node.in.size(); i-- > 0;) {
      const ValueId id = node.in[i];
      plan.last[i] = !graph_.values[id].constant && !used[id];
      used[id] = true;
    }
  }
}

// An error says where the user's code called the op: it surfaces elsewhere, after other ops were
// called.
Values Program::run_node(const Graph::Node& node, Values& in, Profile* profile) const {
  try {
    if (!profile) return execute_now(node.op, in);
    const auto start = Profile::Clock::now();
    Values out = execute_now(node.op, in);
    Specs takes, gives;
    for (const ValueId id : node.in) takes.push_back(graph_.values[id].spec);
    for (const Value& v : out) gives.push_back(v.spec());
    profile->add(node.op, std::move(takes), std::move(gives), start);
    return out;
  } catch (const Error& e) {
    if (!node.place) throw;
    throw Error(e.kind(), str(e.what(), " (called at ", node.place, ")"));
  }
}

std::vector<Value> Program::run(std::vector<Value>& env, Profile* profile) const {
  PauseGrad pause;  // tapes have recorded these ops as they were called
  env.resize(graph_.values.size());
  const auto get = [&](ValueId id) -> const Value& {
    const Value& constant = graph_.values[id].constant;
    return constant ? constant : env[id];
  };
  for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
    const Graph::Node& node = graph_.nodes[n];
    const Plan& plan = plan_[n];
    Values in(node.in.size());
    // Copies first: a value that is let go here may be there twice.
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (!plan.last[i]) in[i] = get(node.in[i]);
    }
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (plan.last[i]) in[i] = std::move(env[node.in[i]]);
    }
    Values out;
    try {
      out = run_node(node, in, profile);
    } catch (...) {
      for (std::size_t i = 0; i < in.size(); ++i) {
        if (plan.last[i]) env[node.in[i]] = std::move(in[i]);
      }
      throw;
    }
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (!plan.unused[i]) env[node.out[i]] = std::move(out[i]);
    }
  }
  std::vector<Value> results;
  results.reserve(graph_.outputs.size());
  for (const ValueId id : graph_.outputs) results.push_back(get(id));
  return results;
}

}  // namespace mge
