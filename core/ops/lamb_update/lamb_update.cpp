#include "core/ops/lamb_update/lamb_update.h"

#include "core/ops/optimizer_step/optimizer_step.h"
#include "core/tensor/fill.h"

namespace mge {

Values execute(const LAMBUpdate& op, Values& in) {
  if (in.size() != 4) {
    fail_type("LAMBUpdate", "expected (exp_avg, exp_avg_sq, param, grad), got ", in.size(),
              " inputs");
  }
  StepOptions options{.rule = StepRule::lamb};
  options.lr = op.lr;
  options.weight_decay = op.weight_decay;
  options.beta1 = op.beta_1;
  options.beta2 = op.beta_2;
  options.eps = op.eps;
  options.bias_correction = op.bias_correction;
  options.always_adapt = op.always_adapt;
  Spec count(DType::float64, {});
  count.device = in[2].device();
  Value before = full(count, op.step - 1);
  Values out{std::move(in[0]), std::move(in[1]), std::move(in[2])};
  StepSlot slot{&out[2], in[3], {&out[0], &out[1]}, &before};
  optimizer_step("LAMBUpdate", options, {&slot, 1});
  return out;
}

REGISTER_OP(LAMBUpdate);

}  // namespace mge
