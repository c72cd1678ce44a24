#include "core/graph/program.h"

#include <optional>

#include <algorithm>

#include "core/dispatch/dispatch.h"
#include "core/dispatch/kernel.h"
#include "core/graph/pass.h"
#include "core/graph/passes/links.h"
#include "core/ops/indexing/indexing.h"
#include "core/ops/shape/shape.h"

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

// What a node gives that only looks at its input under other strides; nothing for others.
std::optional<Spec> look_of(const Graph::Node& node, const Spec& in, const Shape& out) {
  if (node.in.size() != 1) return std::nullopt;
  const bool looks = attrs_if<Dimshuffle>(node) || attrs_if<AddAxis>(node) ||
                     attrs_if<RemoveAxis>(node) || attrs_if<Subtensor>(node) ||
                     (attrs_if<Reshape>(node) && reshape_strides(in.shape, in.strides, out));
  if (!looks) return std::nullopt;
  // One element stands for all: none is read.
  Values one{Value::empty(in.dtype, Shape{}, in.device).alias(in.shape, in.strides)};
  return node.op->type->execute(*node.op, one)[0].spec();
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
  plan_parts();
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
    if (!in.empty()) {
      const auto look = look_of(node, in[0], expected_[node.out[0]].shape);
      if (look) expected_[node.out[0]] = *look;
    }
    if (out.size() != node.out.size()) continue;
    for (std::size_t i = 0; i < out.size(); ++i) expected_[node.out[i]] = out[i];
    plan_[n].out = std::move(out);
  }
}

// What only a Concat takes, as it is or with its axes in another order, is written into the place
// that it has there, if the kernel can.
void Program::plan_parts() {
  const Links links(graph_);
  for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
    const Graph::Node& node = graph_.nodes[n];
    const Concat* concat = attrs_if<Concat>(node);
    if (!concat || plan_[n].out.empty()) continue;
    const Spec whole = plan_[n].out[0];
    const auto axis =
        static_cast<int>(concat->axis < 0 ? concat->axis + whole.ndim() : concat->axis);
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < node.in.size(); ++i) {
      const std::int64_t from = offset;
      offset += expected_[node.in[i]].shape[axis] * whole.strides[axis];
      // Backwards through views to the kernel that makes the part.
      SmallVector<ValueId, 4> ids;
      SmallVector<Strides, 4> strides;
      ValueId id = node.in[i];
      Strides at = whole.strides;
      std::size_t maker = n;
      while (true) {
        ids.push_back(id);
        strides.push_back(at);
        maker = links.maker[id];
        if (maker == Links::kNone || links.count(id) != 1) break;
        const Dimshuffle* turn = attrs_if<Dimshuffle>(graph_.nodes[maker]);
        if (!turn) break;
        id = graph_.nodes[maker].in[0];
        Strides before = Strides::filled(expected_[id].ndim(), 1);
        for (int k = 0; k < turn->pattern.size(); ++k) {
          if (turn->pattern[k] >= 0) {
            before[static_cast<int>(turn->pattern[k])] = at[k];
          } else {
            strides.back()[k] = 1;  // of a new axis
          }
        }
        at = before;
      }
      if (maker == Links::kNone || links.count(id) != 1) continue;
      Plan& plan = plan_[maker];
      const Graph::Node& made_by = graph_.nodes[maker];
      const bool fits = !plan.out.empty() && made_by.op->type->traits.strided_outputs &&
                        expected_[id].dtype == whole.dtype && expected_[id].size() > 0;
      if (!fits) continue;
      plan.into.resize(made_by.out.size());
      for (std::size_t k = 0; k < made_by.out.size(); ++k) {
        if (made_by.out[k] != id) continue;
        plan.into[k] = {node.out[0], from};
        plan.out[k].strides = at;
      }
      for (std::size_t k = 0; k < ids.size(); ++k) expected_[ids[k]].strides = strides[k];
    }
  }
}

bool Program::as_expected(const std::vector<Value>& env, std::span<const ValueId> ids) const {
  return std::all_of(ids.begin(), ids.end(),
                     [&](ValueId id) { return same_spec(env[id].spec(), expected_[id]); });
}

// As planned, on the values where they are.
Values Program::run_kernel(std::size_t n, std::vector<Value>& env, Wholes& wholes) const {
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
  const auto whole = [&](ValueId id) {
    return std::find_if(wholes.begin(), wholes.end(), [&](const auto& w) { return w.first == id; });
  };
  for (std::size_t i = 0; i < plan.into.size(); ++i) {
    const Part& part = plan.into[i];
    if (part.whole == kNoValue) continue;
    auto at = whole(part.whole);
    if (at == wholes.end()) {
      at = wholes.emplace(at, part.whole, Value::empty(expected_[part.whole]));
    }
    out[i] = at->second.alias(plan.out[i].shape, plan.out[i].strides, part.offset);
  }
  if (const auto at = whole(node.out[0]); at != wholes.end()) {
    out[0].impl()->storage = at->second.impl()->storage;
    out[0].impl()->data = at->second.impl()->data;
    wholes.erase(at);
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
Values Program::run_node(std::size_t n, std::vector<Value>& env, Wholes& wholes, bool planned,
                         Profile* profile) const {
  const Graph::Node& node = graph_.nodes[n];
  try {
    const auto start = profile ? Profile::Clock::now() : Profile::Clock::time_point{};
    Values out = planned ? run_kernel(n, env, wholes) : run_op(n, env);
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
  Wholes wholes;
  // Values may come in another memory format than they are expected in. What follows from them is
  // then found out anew.
  bool expected = as_expected(env, outside_) && !dispatch_state().prefer_decompositions;
  for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
    const Graph::Node& node = graph_.nodes[n];
    const Plan& plan = plan_[n];
    const bool planned = expected && !plan.out.empty();
    Values out = run_node(n, env, wholes, planned, profile);
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
