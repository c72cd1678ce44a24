#include "core/graph/liveness.h"

#include <algorithm>
#include <numeric>

#include "core/ops/optimizer_step/optimizer_step.h"
#include "core/ops/shape/shape.h"

namespace mge {

std::int64_t bytes_of(const Spec& spec) { return spec.size() * size_of(spec.dtype); }

bool is_view(const Graph& graph, const Graph::Node& node) {
  const OpType* type = node.op->type;
  if (type->traits.fuse != Fuse::view || node.in.empty()) return false;
  const Spec &in = graph.values[node.in[0]].spec, &out = graph.values[node.out[0]].spec;
  if (type == &op_type<Reshape>()) {
    return reshape_strides(in.shape, in.strides, out.shape).has_value();
  }
  if (type == &op_type<Contiguous>()) return is_row_major(in.shape, in.strides);
  return true;
}

Liveness::Liveness(const Graph& graph)
    : buffer_of(graph.values.size()), buffers(graph.values.size()), live(graph.nodes.size()) {
  std::iota(buffer_of.begin(), buffer_of.end(), ValueId{0});
  const std::size_t count = graph.nodes.size();
  for (std::size_t n = 0; n < count; ++n) {
    const Graph::Node& node = graph.nodes[n];
    const bool view = is_view(graph, node);
    for (const ValueId id : node.out) {
      if (view) {
        buffer_of[id] = buffer_of[node.in[0]];
      } else {
        buffers[id] = {bytes_of(graph.values[id].spec), n, n + 1};
      }
    }
    for (const ValueId id : node.in) buffers[buffer_of[id]].end = n + 1;
  }
  for (const ValueId id : graph.outputs) buffers[buffer_of[id]].end = count;
  for (std::size_t n = 0; n < count; ++n) {
    const Graph::Node& node = graph.nodes[n];
    // A step, and an elementwise op, write into an input that ends with them.
    const bool step = node.op->type == &op_type<OptimizerStep>();
    if (!step && node.op->type->traits.fuse != Fuse::elementwise) continue;
    for (std::size_t i = 0; i < node.out.size(); ++i) {
      Buffer& out = buffers[node.out[i]];
      for (std::size_t k = step ? kFirstStepped + i : 0; k < node.in.size(); ++k) {
        const ValueId from = buffer_of[node.in[k]];
        const bool same = bytes_of(graph.values[node.in[k]].spec) == out.bytes;
        const bool external = graph.values[from].external;
        if (!same || buffers[from].end != n + 1 || external != step) {
          if (step) break;
          continue;
        }
        if (external) {
          out.bytes = 0;
        } else {
          buffers[from].end = n;
        }
        break;
      }
    }
  }
  std::vector<std::int64_t> change(count + 1);
  for (const Buffer& b : buffers) {
    if (b.bytes == 0 || b.end <= b.begin) continue;
    change[b.begin] += b.bytes;
    change[b.end] -= b.bytes;
  }
  std::int64_t now = 0;
  for (std::size_t n = 0; n < count; ++n) live[n] = now += change[n];
  if (count > 0) {
    peak = static_cast<std::size_t>(std::max_element(live.begin(), live.end()) - live.begin());
  }
}

}  // namespace mge
