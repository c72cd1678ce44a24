#include "core/graph/graph.h"

#include <algorithm>
#include <cstring>

#include "core/kernels/cpu/copy.h"

namespace mge {
namespace {

template <class T>
bool same(const T& a, const T& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace

Graph Graph::part(std::size_t begin, std::size_t end, std::vector<ValueId> wanted) const {
  Graph out;
  const auto at = [this](std::size_t i) { return nodes.begin() + static_cast<std::ptrdiff_t>(i); };
  out.nodes.assign(at(begin), at(end));
  out.values = values;
  out.outputs = std::move(wanted);
  // What nothing here uses belongs to nobody.
  for (Entry& entry : out.values) entry.external = false;
  for (const Node& node : out.nodes) {
    for (const ValueId id : node.in) out.values[id].external = true;
  }
  for (const ValueId id : out.outputs) out.values[id].external = true;
  for (const Node& node : out.nodes) {
    for (const ValueId id : node.out) out.values[id].external = false;
  }
  return out;
}

Graph Graph::prefix(std::size_t count) const {
  Graph out;
  out.nodes.assign(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(count));
  // Ids are given in the order of the nodes, so the values of these are the first ones.
  const std::size_t next = count == 0 ? 0
                                      : std::size_t{*std::max_element(out.nodes.back().out.begin(),
                                                                      out.nodes.back().out.end())} +
                                            1;
  out.values.assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(next));
  return out;
}

bool Graph::begins_like(const Graph& other, std::size_t count) const {
  if (nodes.size() < count) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const Node &a = nodes[i], &b = other.nodes[i];
    if (!same_op(a.op, b.op) || !same(a.in, b.in) || !same(a.out, b.out)) return false;
    for (const ValueId id : a.out) {
      if (values[id].spec.shape != other.values[id].spec.shape) return false;
    }
  }
  return true;
}

Graph Graph::renumbered(const std::vector<ValueId>& keep, std::vector<ValueId>& to) const {
  to.assign(values.size(), kNoValue);
  Graph out;
  const auto take = [&](ValueId id) {
    if (to[id] != kNoValue) return;
    to[id] = static_cast<ValueId>(out.values.size());
    out.values.push_back(values[id]);
  };
  std::vector<bool> wanted(values.size());
  for (const Node& node : nodes) {
    for (const ValueId id : node.in) wanted[id] = true;
  }
  for (const ValueId id : outputs) wanted[id] = true;
  for (const ValueId id : keep) {
    if (values[id].external) take(id);
  }
  for (ValueId id = 0; id < values.size(); ++id) {
    if (wanted[id] && values[id].external) take(id);
  }
  for (const Node& node : nodes) {
    for (const ValueId id : node.out) take(id);
  }
  out.nodes = nodes;
  for (Node& node : out.nodes) {
    for (ValueId& id : node.in) id = to[id];
    for (ValueId& id : node.out) id = to[id];
  }
  for (const ValueId id : outputs) out.outputs.push_back(to[id]);
  return out;
}

namespace {

Value row_major_copy(const Value& v) {
  if (v.row_major()) return v;
  const Value out = Value::empty(v.dtype(), v.shape(), v.device());
  cpu::copy(v.view(), out.mut());
  return out;
}

bool same_contents(const Value& a, const Value& b) {
  if (!a || !b) return !a && !b;
  if (a.impl() == b.impl()) return true;
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const Value x = row_major_copy(a), y = row_major_copy(b);
  const auto bytes = static_cast<std::size_t>(x.size() * size_of(x.dtype()));
  return bytes == 0 || std::memcmp(x.view().data, y.view().data, bytes) == 0;
}

bool same_entry(const Graph::Entry& a, const Graph::Entry& b) {
  return a.external == b.external && a.spec.dtype == b.spec.dtype && a.spec.shape == b.spec.shape &&
         a.spec.strides == b.spec.strides && a.spec.device == b.spec.device &&
         same_contents(a.constant, b.constant);
}

// By id: what comes from outside or is made by a node.
std::vector<bool> in_use(const Graph& g) {
  std::vector<bool> out(g.values.size());
  for (std::size_t id = 0; id < g.values.size(); ++id) out[id] = g.values[id].external;
  for (const Graph::Node& node : g.nodes) {
    for (const ValueId id : node.out) out[id] = true;
  }
  return out;
}

}  // namespace

bool operator==(const Graph& a, const Graph& b) {
  if (a.nodes.size() != b.nodes.size() || a.outputs != b.outputs) return false;
  for (std::size_t i = 0; i < a.nodes.size(); ++i) {
    const Graph::Node &x = a.nodes[i], &y = b.nodes[i];
    if (!same_op(x.op, y.op) || !same(x.in, y.in) || !same(x.out, y.out)) return false;
  }
  std::vector<bool> in_a = in_use(a), in_b = in_use(b);
  const std::size_t n = std::max(in_a.size(), in_b.size());
  in_a.resize(n);
  in_b.resize(n);
  if (in_a != in_b) return false;
  for (std::size_t id = 0; id < n; ++id) {
    if (in_a[id] && !same_entry(a.values[id], b.values[id])) return false;
  }
  return true;
}

}  // namespace mge
