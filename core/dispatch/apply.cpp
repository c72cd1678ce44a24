#include "core/dispatch/dispatch.h"

namespace mge {

DispatchState& dispatch_state() {
  static thread_local DispatchState state;
  return state;
}

Values apply(const OpRef& op, Values inputs) {
  DispatchState& s = dispatch_state();
  if (s.amp) [[unlikely]]
    return s.amp->apply(op, std::move(inputs));
  return apply_below_amp(op, std::move(inputs));
}

Values apply_below_amp(const OpRef& op, Values inputs) {
  const DispatchState& s = dispatch_state();
  if (!s.tapes.empty() && s.pause_grad == 0) return apply_with_grad(op, std::move(inputs));
  return execute(op, inputs);
}

}  // namespace mge
