// A step of LAMB as an op; the optimizer itself steps all its parameters in one call.
#pragma once

#include "core/op/op.h"

namespace mge {

// (exp_avg, exp_avg_sq, param, grad) -> the first three after the step; `step` counts from 1.
struct LAMBUpdate {
  double beta_1 = 1;
  double beta_2 = 1;
  double step = 1;
  double lr = 1;
  double weight_decay = 1;
  double eps = 1;
  bool bias_correction = true;
  bool always_adapt = false;
  static constexpr OpTraits traits{.name = "LAMBUpdate", .differentiable = false};
  static constexpr auto fields =
      field_list(field("beta_1", &LAMBUpdate::beta_1), field("beta_2", &LAMBUpdate::beta_2),
                 field("step", &LAMBUpdate::step), field("lr", &LAMBUpdate::lr),
                 field("weight_decay", &LAMBUpdate::weight_decay), field("eps", &LAMBUpdate::eps),
                 field("bias_correction", &LAMBUpdate::bias_correction),
                 field("always_adapt", &LAMBUpdate::always_adapt));
};
Values execute(const LAMBUpdate& op, Values& in);
DECLARE_OP(LAMBUpdate);

}  // namespace mge
