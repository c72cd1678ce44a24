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
  double root_scale;  // Adam, LAMB: 1 / sqrt(1 - beta2^step)
  double mean_scale;  // LAMB: 1 / (1 - beta1^step); Adam has it in lr
};

// Sums of squares of a parameter and of its LAMB update.
struct LambNorms {
  double param = 0, update = 0;
};

MGE_DECLARE_SIMD(void, optimizer_step_f32,
                 (StepRule rule, const StepNumbers& numbers, const StepSpan& span));
MGE_DECLARE_SIMD(void, optimizer_step_f64,
                 (StepRule rule, const StepNumbers& numbers, const StepSpan& span));

// LAMB takes two passes: the moments and norms first, the parameter then, with lr times the ratio
// of the norms as `numbers.lr`. The second reads the moments that the first wrote.
MGE_DECLARE_SIMD(LambNorms, lamb_moments_f32, (const StepNumbers& numbers, const StepSpan& span));
MGE_DECLARE_SIMD(LambNorms, lamb_moments_f64, (const StepNumbers& numbers, const StepSpan& span));
MGE_DECLARE_SIMD(void, lamb_update_f32, (const StepNumbers& numbers, const StepSpan& span));
MGE_DECLARE_SIMD(void, lamb_update_f64, (const StepNumbers& numbers, const StepSpan& span));

}  // namespace mge::cpu
