#include "core/graph/program.h"

#include <optional>

#include <algorithm>

#include "core/dispatch/dispatch.h"
#include "core/dispatch/kernel.h"
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
    plan.mine = plan.last;
    for (std::size_t i = 0; i < node.in.size(); ++i) {
      if (std::count(node.in.begin(), node.in.end(), node.in[i]) > 1) plan.mine[i] = false;
    }
  }
  plan_kernels();
}

void Program::plan_kernels() {
  std::vector<bool> known(graph_.values.size());
  for (const Graph::Entry& entry : graph_.values) {
    expected_.push_back(entry.constant ? entry.constant.spec() : entry.spec);
  }
  for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
    const Graph::Node& node = graph_.nodes[n];
    Specs in;
    for (const ValueId id : node.in) {
      in.push_back(expected_[id]);
      const Graph::Entry& entry = graph_.values[id];
      if (entry.external && !entry.constant && !known[id]) outside_.push_back(id);
      known[id] = true;
    }
    Specs out = kernel_outputs(*node.op, in);
    if (out.size() != node.out.size()) continue;
    for (std::size_t i = 0; i < out.size(); ++i) expected_[node.out[i]] = out[i];
    plan_[n].out = std::move(out);
  }
}

bool Program::as_expected(const std::vector<Value>& env, std::span<const ValueId> ids) const {
  return std::all_of(ids.begin(), ids.end(),
                     [&](ValueId id) { return same_spec(env[id].spec(), expected_[id]); });
}

// As planned, on the values where they are.
Values Program::run_kernel(std::size_t n, std::vector<Value>& env) const {
  const Graph::Node& node = graph_.nodes[n];
  const Plan& plan = plan_[n];
  SmallVector<const Value*, 4> in(node.in.size());
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = &get(env, node.in[i]);
  // The outputs are the pending values that a traced call has given out, where there are such.
  Values out(node.out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    Value& given = env[node.out[i]];
    const bool fits = given && !given.impl()->storage && same_spec(given.spec(), plan.out[i]);
    out[i] = fits ? std::move(given) : Value::pending(plan.out[i]);
  }
  execute_kernel(*node.op, in, plan.mine, out);
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (plan.last[i]) env[node.in[i]] = {};
  }
  return out;
}

Values Program::run_op(std::size_t n, std::vector<Value>& env) const {
  const Graph::Node& node = graph_.nodes[n];
  const Plan& plan = plan_[n];
  Values in(node.in.size());
  // Copies first: a value that is let go here may be there twice.
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!plan.last[i]) in[i] = get(env, node.in[i]);
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (plan.last[i]) in[i] = std::move(env[node.in[i]]);
  }
  try {
    return execute_now(node.op, in);
  } catch (...) {
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (plan.last[i]) env[node.in[i]] = std::move(in[i]);
    }
    throw;
  }
}

// An error says where the user's code called the op: it surfaces elsewhere, after other ops were
// called.
Values Program::run_node(std::size_t n, std::vector<Value>& env, bool planned,
                         Profile* profile) const {
  const Graph::Node& node = graph_.nodes[n];
  try {
    const auto start = profile ? Profile::Clock::now() : Profile::Clock::time_point{};
    Values out = planned ? run_kernel(n, env) : run_op(n, env);
    if (profile) {
      Specs takes, gives;
      for (const ValueId id : node.in) takes.push_back(graph_.values[id].spec);
      for (const Value& v : out) gives.push_back(v.spec());
      profile->add(node.op, std::move(takes), std::move(gives), start, node.place);
    }
    return out;
  } catch (const Error& e) {
    if (!node.place) throw;
    throw Error(e.kind(), str(e.what(), " (called at ", node.place, ")"));
  }
}

std::vector<Value> Program::run(std::vector<Value>& env, Profile* profile) const {
  PauseGrad pause;  // tapes have recorded these ops as they were called
  std::optional<PlannedRun> memory;
  if (long_) memory.emplace(*memory_);
  env.resize(graph_.values.size());
  // Values may come in another memory format than they are expected in. What follows from them is
  // then found out anew.
  bool expected = as_expected(env, outside_) && !dispatch_state().prefer_decompositions;
  for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
    const Graph::Node& node = graph_.nodes[n];
    const Plan& plan = plan_[n];
    const bool planned = expected && !plan.out.empty();
    Values out = run_node(n, env, planned, profile);
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (expected && !planned) expected = same_spec(out[i].spec(), expected_[node.out[i]]);
      if (!plan.unused[i]) env[node.out[i]] = std::move(out[i]);
    }
  }
  std::vector<Value> results;
  results.reserve(graph_.outputs.size());
  for (const ValueId id : graph_.outputs) results.push_back(get(env, id));
  return results;
}

}  // namespace mge
