#include "core/graph/specializing.h"

#include <algorithm>
#include <cstring>

#include "core/graph/passes/links.h"
#include "core/ops/elementwise/elementwise.h"

namespace mge {
namespace {

constexpr std::uint64_t kMostPatience = 1u << 20;

std::vector<ValueId> captured_inputs(const Graph& graph) {
  std::vector<ValueId> out;
  for (const Graph::Node& node : graph.nodes) {
    for (const ValueId id : node.in) {
      if (graph.values[id].captured) out.push_back(id);
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// Whether passes have anything to do with these constants: a node of constants alone, a product
// with a matrix of them, or a number that scales a product, as the scores of attention are scaled.
bool may_gain(const Graph& graph) {
  const Links links(graph);
  const auto constant = [&](ValueId id) { return static_cast<bool>(graph.values[id].constant); };
  const auto made_by_product = [&](ValueId id) { return is_product(graph, links, id); };
  for (const Graph::Node& node : graph.nodes) {
    if (node.in.empty() || node.op->type->traits.random) continue;
    const bool contraction = node.op->type->traits.fuse == Fuse::contraction && node.in.size() > 1;
    if (contraction && (constant(node.in[1]) || constant(node.in[0]))) return true;
    if (std::all_of(node.in.begin(), node.in.end(), constant)) return true;
    const auto* function = attrs_if<Elemwise>(node);
    const bool scales = function && (function->mode == Elemwise::Mode::MUL ||
                                     function->mode == Elemwise::Mode::TRUE_DIV);
    if (scales && std::any_of(node.in.begin(), node.in.end(), constant) &&
        std::any_of(node.in.begin(), node.in.end(), made_by_product)) {
      return true;
    }
  }
  return false;
}

bool same_ops(const Graph& a, const Graph& b) {
  return std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(),
                    [](const auto& x, const auto& y) { return same_op(x.op, y.op); });
}

}  // namespace

SpecializingProgram::SpecializingProgram(Graph graph, const std::vector<Seen>& recorded)
    : graph_(std::move(graph)), general_(graph_), captured_(captured_inputs(graph_)) {
  last_.resize(captured_.size());
  same_.resize(captured_.size());
  if (recorded.empty()) return;
  for (std::size_t i = 0; i < captured_.size(); ++i) last_[i] = recorded[captured_[i]];
  calls_ = 1;
}

std::vector<Value> SpecializingProgram::run(std::vector<Value>& env, Profile* profile) const {
  const auto special = special_for(env);
  return special ? special->program.run(env, profile) : general_.run(env, profile);
}

// Dtypes and shapes are those of the record.
SpecializingProgram::Seen SpecializingProgram::seen(const Value& v) {
  Seen out;
  if (v.size() == 1 && size_of(v.dtype()) <= static_cast<std::int64_t>(sizeof out.number)) {
    std::memcpy(&out.number, v.view().data, static_cast<std::size_t>(size_of(v.dtype())));
  } else {
    out.value = v.impl();
  }
  return out;
}

std::shared_ptr<const SpecializingProgram::Special> SpecializingProgram::special_for(
    const std::vector<Value>& env) const {
  if (captured_.empty()) return nullptr;
  const std::lock_guard guard(lock_);
  if (special_) {
    bool same = true;
    for (std::size_t i = 0; same && i < special_->ids.size(); ++i) {
      const Value &now = env[special_->ids[i]], &held = special_->values[i];
      same = now == held || (held.size() == 1 && seen(now) == seen(held));
    }
    if (same) return special_;
    // Let go at once. Values that change now and then are worth less and less trouble.
    special_ = nullptr;
    patience_ = std::min(patience_ * 2, kMostPatience);
    calls_ = 0;
    next_try_ = patience_;
    std::fill(same_.begin(), same_.end(), 0);
  }
  for (std::size_t i = 0; i < captured_.size(); ++i) {
    const Seen now = seen(env[captured_[i]]);
    same_[i] = now == last_[i] ? same_[i] + 1 : 0;
    last_[i] = now;
  }
  if (++calls_ < next_try_) return nullptr;
  special_ = specialize(env);
  next_try_ = 2 * calls_;  // where there was nothing to gain
  return special_;
}

std::shared_ptr<const SpecializingProgram::Special> SpecializingProgram::specialize(
    const std::vector<Value>& env) const {
  std::vector<ValueId> ids;
  std::vector<Value> values;
  Graph graph = graph_;
  for (std::size_t i = 0; i < captured_.size(); ++i) {
    if (same_[i] + 1 < patience_) continue;
    const ValueId id = captured_[i];
    ids.push_back(id);
    values.push_back(env[id]);
    graph.values[id].constant = env[id];
  }
  if (ids.empty() || !may_gain(graph)) return nullptr;
  Program program(std::move(graph));
  if (same_ops(program.graph(), general_.graph())) return nullptr;
  return std::make_shared<const Special>(
      Special{std::move(ids), std::move(values), std::move(program)});
}

}  // namespace mge
