#include "core/graph/pass.h"

#include "core/graph/verify.h"

namespace mge {
namespace {

struct Pass {
  const char* name;
  void (*run)(Graph&);
};

// In the order in which they run.
constexpr Pass kPasses[] = {
    {"remove_dead_code", remove_dead_code},
    {"merge_common_subexpressions", merge_common_subexpressions},
    {"fold_constants", fold_constants},
    {"simplify", simplify},
    {"remove_dead_code", remove_dead_code},
    {"fold_scales_into_weights", fold_scales_into_weights},
    {"simplify", simplify},  // views that a batch norm stood between
    {"fuse_post_ops", fuse_post_ops},
    {"take_fast_gelu", take_fast_gelu},
    {"fuse_attention", fuse_attention},
    {"join_slices", join_slices},
    {"fuse_elementwise", fuse_elementwise},
    {"fuse_reductions", fuse_reductions},
    // After the merging, which would undo it; before updates, so that they wait for all readers.
    {"recompute_cheap_values", recompute_cheap_values},
    {"update_early", update_early},
    {"let_go_of_unused_constants", let_go_of_unused_constants},
};

}  // namespace

void optimize(Graph& graph) {
  for (const Pass& pass : kPasses) {
    pass.run(graph);
    if (verifies_passes()) verify(graph, ErrorKind::runtime, pass.name);
  }
}

}  // namespace mge
