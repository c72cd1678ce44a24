#include "core/graph/pass.h"

namespace mge {

void optimize(Graph& graph) {
  remove_dead_code(graph);
  merge_common_subexpressions(graph);
}

}  // namespace mge
