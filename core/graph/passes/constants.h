// What passes need to compute with the constants of a graph.
#pragma once

#include "core/dispatch/dispatch.h"
#include "core/graph/graph.h"

namespace mge {

// Ops run at once while one of these lives: no tape, no autocast and no traced call sees them.
class RunAtOnce {
 public:
  RunAtOnce() : amp_(dispatch_state().amp), trace_(dispatch_state().trace) {
    dispatch_state().amp = nullptr;
    dispatch_state().trace = nullptr;
  }
  ~RunAtOnce() {
    dispatch_state().amp = amp_;
    dispatch_state().trace = trace_;
  }
  RunAtOnce(const RunAtOnce&) = delete;
  RunAtOnce& operator=(const RunAtOnce&) = delete;

 private:
  Layer* amp_;
  TraceSession* trace_;
  PauseGrad pause_;
};

inline const Value& constant_of(const Graph& graph, ValueId id) {
  return graph.values[id].constant;
}
inline bool is_constant(const Graph& graph, ValueId id) {
  return static_cast<bool>(constant_of(graph, id));
}
inline ValueId add_constant(Graph& graph, const Value& value) {
  const ValueId id = graph.add_value(value.spec(), true);
  graph.values[id].constant = value;
  return id;
}

}  // namespace mge
