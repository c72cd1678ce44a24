#include "core/autodiff/tape.h"
#include "core/dispatch/dispatch.h"

namespace mge {
namespace {

// The tapes that follow an input; allocates only where one does.
std::vector<Tape*> tapes_that_follow(const Values& inputs) {
  std::vector<Tape*> following;
  for (Tape* tape : dispatch_state().tapes) {
    if (!tape->recording()) continue;
    for (const Value& v : inputs) {
      if (tape->follows(v)) {
        following.push_back(tape);
        break;
      }
    }
  }
  return following;
}

}  // namespace

void record_as(const OpRef& op, const Values& inputs, Values& outputs) {
  const std::vector<Tape*> following = tapes_that_follow(inputs);
  if (following.empty()) return;
  for (Value& out : outputs) out = out.detached();
  for (Tape* tape : following) tape->record(op, inputs, outputs);
}

Values apply_with_grad(const OpRef& op, Values inputs) {
  const OpType& type = *op->type;
  const bool differentiable =
      type.traits.differentiable && (!type.differentiable || type.differentiable(*op));
  if (!differentiable) return execute(op, inputs);

  const std::vector<Tape*> following = tapes_that_follow(inputs);
  if (following.empty()) return execute(op, inputs);
  if (goes_by_parts(*op, inputs)) return type.decompose_complex(*op, inputs);
  // An op without a rule is differentiated through its decomposition, which records itself.
  if (!type.grad) {
    if (!type.decompose) fail_runtime(op->name(), "has no gradient");
    return decompose_checked(*op, inputs);
  }
  Values operands = inputs;  // execute() may take a buffer over; the tape needs what was there
  Values outputs = execute(op, operands);
  for (Value& out : outputs) {
    // A view of everything may be its input itself; a tape needs an identity of its own.
    for (const Value& in : inputs) {
      if (out == in) out = out.detached();
    }
  }
  for (Tape* tape : following) tape->record(op, inputs, outputs);
  return outputs;
}

}  // namespace mge
