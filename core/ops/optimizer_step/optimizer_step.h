// Optimizer steps: one pass over the memory of all parameters of a group, in one call.
//
// Each rule reads the parameter p, its gradient g and up to two state tensors a and b of p's shape,
// and writes p, a and b. Arithmetic is in float32, or in float64 for a float64 parameter; the state
// has that dtype, whatever the parameter's own is.
#pragma once

#include <span>

#include "core/tensor/value.h"

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
void optimizer_step(const char* name, const StepOptions& options, std::span<const StepSlot> slots);

}  // namespace mge
