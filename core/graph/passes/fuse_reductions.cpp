// A reduction takes the chain of elementwise ops before it into its own op, which computes the
// chain's values block by block and never writes them, where
//   - nothing else needs these values;
//   - they leave the caches, and are far more than the results, which are added up once more for
//   each block;
//   - the chain lies near: bringing it to the reduction keeps its operands for longer.
#include <algorithm>

#include "core/graph/pass.h"
#include "core/kernels/cpu/reduce_program.h"
#include "core/ops/fused/fused_reduce.h"

namespace mge {
namespace {

constexpr std::size_t kReach = 256;
constexpr std::size_t kNone = ~std::size_t{0};
constexpr std::int64_t kFold = 64;  // values for each result

bool takes(const Reduce& op, DType dtype) {
  using enum Reduce::Mode;
  if (dtype == DType::float32 || dtype == DType::float64) return true;
  return !is_low_float(dtype) && (op.mode == SUM || op.mode == MAX || op.mode == MIN);
}

}  // namespace

void fuse_reductions(Graph& graph) {
  std::vector<std::size_t> maker(graph.values.size(), kNone);
  std::vector<int> uses(graph.values.size());
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const ValueId id : graph.nodes[n].out) maker[id] = n;
    for (const ValueId id : graph.nodes[n].in) ++uses[id];
  }
  for (const ValueId id : graph.outputs) ++uses[id];

  std::vector<bool> gone(graph.nodes.size());
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    Graph::Node& node = graph.nodes[n];
    if (node.op->type != &op_type<Reduce>()) continue;
    const std::size_t from = maker[node.in[0]];
    if (from == kNone || n - from > kReach || uses[node.in[0]] != 1) continue;
    const Graph::Node& chain = graph.nodes[from];
    if (chain.op->type != &op_type<FusedElementwise>() || chain.out.size() != 1) continue;
    const Reduce& reduce = detail::attrs<Reduce>(*node.op);
    const Spec& values = graph.values[node.in[0]].spec;
    const Spec& results = graph.values[node.out[0]].spec;
    if (!takes(reduce, values.dtype) || values.size() < cpu::kReduceProgramPays ||
        results.size() > values.size() / kFold) {
      continue;
    }
    const auto& program = detail::attrs<FusedElementwise>(*chain.op).program;
    node.op = make_op(FusedReduce{program, reduce.mode, reduce.axis, reduce.keepdim});
    node.in = chain.in;
    gone[from] = true;
  }
  std::size_t n = 0;
  std::erase_if(graph.nodes, [&](const Graph::Node&) { return gone[n++]; });
}

}  // namespace mge
