// A stretch of a graph, ready to run: without what nobody asks for and what is computed twice, and
// with every value let go after its last use.
#pragma once

#include <vector>

#include "core/graph/graph.h"

namespace mge {

class Program {
 public:
  // Nodes begin ... end - 1 of the graph, for the values in `live`, sorted.
  Program(const Graph& graph, std::size_t begin, std::size_t end, std::vector<ValueId> live);

  bool computes(std::size_t begin, std::size_t end, const std::vector<ValueId>& live) const {
    return begin == begin_ && end == end_ && live == live_;
  }
  // The values of live(), in order. `env` holds by id what comes from outside the stretch.
  std::vector<Value> run(const std::vector<Value>& env) const;
  std::size_t size() const { return steps_.size(); }

 private:
  struct Step {
    OpRef op;
    SmallVector<ValueId, 4> in, out;
    SmallVector<bool, 4> last;    // this is the last use of input i, and it is ours to let go
    SmallVector<bool, 4> unused;  // nothing uses output i
  };
  void merge_equal_steps();
  void find_last_uses(const Graph& graph);

  std::size_t begin_, end_;
  std::vector<ValueId> live_;
  std::vector<ValueId> results_;  // what stands for each of live_
  std::vector<Step> steps_;
  std::vector<bool> made_;  // by id: a step of this program makes it
};

}  // namespace mge
