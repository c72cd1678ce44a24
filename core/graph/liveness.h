// Which buffers of a graph are alive when: what passes that save memory look at.
//
// Sizes and views are those of the record. Where kernels decide otherwise when they run, a plan
// made from this is a worse plan, not a wrong one.
#pragma once

#include <vector>

#include "core/graph/graph.h"

namespace mge {

struct Liveness {
  // Memory that one or several values (views) share, by the id of the first of them.
  struct Buffer {
    std::int64_t bytes = 0;          // 0 for what comes from outside
    std::size_t begin = 0, end = 0;  // the nodes during which it is there: begin ... end - 1
  };
  std::vector<ValueId> buffer_of;  // by value
  std::vector<Buffer> buffers;     // by value; that of a view is empty
  std::vector<std::int64_t> live;  // by node: bytes while it runs
  std::size_t peak = 0;            // the node with the most

  explicit Liveness(const Graph& graph);
};

// Whether the outputs of a node are views of its first input.
bool is_view(const Graph& graph, const Graph::Node& node);
// Bytes of the elements of a value.
std::int64_t bytes_of(const Spec& spec);

}  // namespace mge
