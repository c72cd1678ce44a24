// What passes need to compute with the constants of a graph.
#pragma once

#include <optional>

#include "core/dispatch/dispatch.h"
#include "core/graph/graph.h"
#include "core/ops/elementwise/elementwise.h"

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
// The only number of a real constant of one element.
inline std::optional<double> number_of(const Graph& graph, ValueId id) {
  const Value& v = constant_of(graph, id);
  if (!v || v.size() != 1 || is_complex(v.dtype())) return std::nullopt;
  const RunAtOnce at_once;
  return *cast(v, DType::float64).ptr<double>();
}

}  // namespace mge
