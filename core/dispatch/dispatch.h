// The layers that an op call walks: amp, grad, execute, each in a file of its own; a traced call
// stands in for execute. A layer that is off costs a comparison.
#pragma once

#include <vector>

#include "core/op/op.h"

namespace mge {

class Tape;
class TraceSession;

// A layer that sits above grad: sees every op and calls the next layer itself.
class Layer {
 public:
  virtual ~Layer() = default;
  virtual Values apply(const OpRef& op, Values inputs) = 0;
};

// What is active on this thread.
struct DispatchState {
  Layer* amp = nullptr;           // set by autocast
  TraceSession* trace = nullptr;  // set inside trace()
  std::vector<Tape*> tapes;
  int pause_grad = 0;                  // > 0: nothing is recorded
  bool prefer_decompositions = false;  // tests: no fused kernel where a composition defines the op
};
DispatchState& dispatch_state();
// How autocast treats this very op.
inline Amp amp_of(const Op& op) { return op.type->amp ? op.type->amp(op) : op.type->traits.amp; }

// apply() from below each layer.
Values apply_below_amp(const OpRef& op, Values inputs);
// The grad layer: records on every active tape that follows an input.
Values apply_with_grad(const OpRef& op, Values inputs);
// Records an op whose outputs are known already, as if it had just run. Outputs that a tape is to
// follow get an identity of their own.
void record_as(const OpRef& op, const Values& inputs, Values& outputs);
// Infers, allocates and runs, or leaves that to the traced call (core/graph/trace.h).
Values execute(const OpRef& op, Values& inputs);
// The same, at once.
Values execute_now(const OpRef& op, Values& inputs);
// Runs what a traced call on this thread has pending.
void flush_trace();
// Whether an op with these inputs is its decomposition on the parts of complex numbers. Raises
// TypeError for complex inputs that the op does not take.
bool goes_by_parts(const Op& op, const Values& inputs);
// The decomposition, after the op has checked its inputs.
Values decompose_checked(const Op& op, const Values& inputs);

// Nothing is recorded while one of these lives.
class PauseGrad {
 public:
  PauseGrad() { ++dispatch_state().pause_grad; }
  ~PauseGrad() { --dispatch_state().pause_grad; }
  PauseGrad(const PauseGrad&) = delete;
  PauseGrad& operator=(const PauseGrad&) = delete;
};

}  // namespace mge
