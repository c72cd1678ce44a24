// What the loops of optimizer steps see.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/ops/optimizer_step/optimizer_step.h"

namespace mge::cpu {

// Some or all elements of one parameter. An output may be its input's own buffer.
struct StepSpan {
  const void* param_in;
  void* param;
  DType param_dtype;
  const void* grad;
  DType grad_dtype;
  const void* state_in[2];
  void* state[2];
  std::int64_t count;
};

// The numbers of a rule, as far as it needs them.
struct StepNumbers {
  double lr;  // times what depends on the step
  double momentum;
  double weight_decay;  // AdamW: the share of p that goes, lr weight_decay
  double beta1, beta2;
  double eps;
  double root_scale;  // Adam: 1 / sqrt(1 - beta2^step)
};

MGE_DECLARE_SIMD(void, optimizer_step_f32,
                 (StepRule rule, const StepNumbers& numbers, const StepSpan& span));
MGE_DECLARE_SIMD(void, optimizer_step_f64,
                 (StepRule rule, const StepNumbers& numbers, const StepSpan& span));

}  // namespace mge::cpu
