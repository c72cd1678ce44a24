// Optimizer steps: one pass over the memory of all parameters of a group, in one call.
//
// Each rule reads the parameter p, its gradient g and up to two state tensors a and b of p's shape,
// and writes p, a and b. Arithmetic is in float32, or in float64 for a float64 parameter; the state
// has that dtype, whatever the parameter's own is.
#pragma once

#include <array>
#include <span>

#include "core/op/op.h"

namespace mge {

enum class StepRule : std::uint8_t {
  sgd,           // p -= lr d;  d = g + weight_decay p here and below, unless said otherwise
  sgd_momentum,  // a = momentum a + d;  p -= lr a
  sgd_nesterov,  // a = momentum a + d;  p -= lr (d + momentum a)
  adam,          // a, b = means of d and d^2;  p -= lr a' / (sqrt(b') + eps), bias corrected
  adamw,         // the same with d = g, after p -= lr weight_decay p
  adagrad,       // a += d^2;  p -= lr / (1 + (step - 1) lr_decay) d / sqrt(a + eps)
  adadelta,  // a = mean of d^2;  u = d sqrt((b + eps) / (a + eps));  b = mean of u^2;  p -= lr u
  lamb,      // a, b = means of g and g^2;  u = a' / (sqrt(b') + eps) + weight_decay p;
             // p -= lr |p| / |u| u, with norms over the whole parameter
};

template <>
struct EnumNames<StepRule> {
  static constexpr auto names = std::to_array<const char*>(
      {"SGD", "SGD_MOMENTUM", "SGD_NESTEROV", "ADAM", "ADAMW", "ADAGRAD", "ADADELTA", "LAMB"});
};

struct StepOptions {
  StepRule rule = StepRule::sgd;
  double lr = 0;
  double momentum = 0;
  double weight_decay = 0;
  double beta1 = 0;  // Adam's; Adadelta's rho
  double beta2 = 0;
  double eps = 0;
  double lr_decay = 0;
  bool bias_correction = true;  // LAMB's: whether a' and b' are a and b corrected as Adam's are
  bool always_adapt = false;    // LAMB's: scale by |p| / |u| without weight decay too
};

// The number of state tensors that a rule has beside the count of steps.
int step_states(StepRule rule);
// Whether a rule keeps a count of steps.
bool step_counts(StepRule rule);

// One parameter: its value and state are replaced, in place where nobody else holds a buffer.
struct StepSlot {
  Value* param;
  Value grad;
  Value* state[2] = {nullptr, nullptr};
  Value* step = nullptr;  // 0-d, counts the steps taken before this one
  Value* low = nullptr;   // takes the new value of the parameter in its own dtype
};

// Takes one step for all slots. Raises, with nothing changed, where shapes or dtypes do not fit.
// A traced call records it, an OptimizerStep for each slot, unless the parameters are few and
// small.
void optimizer_step(const char* name, const StepOptions& options, std::span<const StepSlot> slots);

// The step of one parameter as an op.
//   (lr, grad, param, state ... [, step] [, low]) -> (param, state ... [, step] [, low])
// lr is a float64 number: a schedule changes it, and a traced call should not be recorded anew
// then. Each output stands in for an input from `param` on, in place where nobody else holds that
// one.
struct OptimizerStep {
  StepRule rule = StepRule::sgd;
  double momentum = 0, weight_decay = 0, beta1 = 0, beta2 = 0, eps = 0, lr_decay = 0;
  bool bias_correction = true, always_adapt = false;
  bool low = false;  // there is a copy of the parameter in a dtype of its own
  static constexpr OpTraits traits{.name = "OptimizerStep", .differentiable = false};
  static constexpr auto fields = field_list(
      field("rule", &OptimizerStep::rule), field("momentum", &OptimizerStep::momentum),
      field("weight_decay", &OptimizerStep::weight_decay), field("beta1", &OptimizerStep::beta1),
      field("beta2", &OptimizerStep::beta2), field("eps", &OptimizerStep::eps),
      field("lr_decay", &OptimizerStep::lr_decay),
      field("bias_correction", &OptimizerStep::bias_correction),
      field("always_adapt", &OptimizerStep::always_adapt), field("low", &OptimizerStep::low));
};
// The input that output 0 of an OptimizerStep stands in for; the others follow.
inline constexpr std::size_t kFirstStepped = 2;
Values execute(const OptimizerStep& op, Values& in);
DECLARE_OP(OptimizerStep);

}  // namespace mge
