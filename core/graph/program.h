// A graph, ready to run: optimized, and with every value let go after its last use.
#pragma once

#include <vector>

#include "core/graph/graph.h"

namespace mge {

class Program {
 public:
  explicit Program(Graph graph);

  // The outputs of the graph, in order. `env` holds by id what comes from outside.
  std::vector<Value> run(const std::vector<Value>& env) const;
  // What runs.
  const Graph& graph() const { return graph_; }

 private:
  struct Plan {                   // of a node
    SmallVector<bool, 4> last;    // this is the last use of input i, and it is ours to let go
    SmallVector<bool, 4> unused;  // nothing uses output i
  };

  Graph graph_;
  std::vector<Plan> plan_;
};

}  // namespace mge
