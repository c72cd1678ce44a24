#include "core/graph/graph.h"

#include <algorithm>
#include <sstream>

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
  for (Entry& entry : out.values) entry.external = true;
  for (const Node& node : out.nodes) {
    for (const ValueId id : node.out) out.values[id].external = false;
  }
  out.outputs = std::move(wanted);
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

std::string Graph::text() const {
  std::ostringstream out;
  const auto ids = [&](const auto& list) {
    for (std::size_t i = 0; i < list.size(); ++i) out << (i ? ", %" : "%") << list[i];
  };
  for (const Node& node : nodes) {
    ids(node.out);
    out << " = " << node.op->text() << "(";
    ids(node.in);
    out << ")  #";
    for (const ValueId id : node.out) {
      out << " " << values[id].spec.dtype << " " << values[id].spec.shape;
    }
    out << "\n";
  }
  return out.str();
}

}  // namespace mge
