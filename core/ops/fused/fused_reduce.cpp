#include "core/ops/fused/fused_reduce.h"

namespace mge {

Specs infer(const FusedReduce& op, const Specs& in) {
  const Specs made = infer(op.chain(), in);
  if (made.size() != 1) {
    fail_value("FusedReduce", "expected a program of 1 output, got ", made.size(), " of '",
               op.program, "'");
  }
  const DType dtype = made[0].dtype;
  const bool sum = op.mode == Reduce::Mode::SUM;
  const bool extreme = op.mode == Reduce::Mode::MAX || op.mode == Reduce::Mode::MIN;
  if (!is_float(dtype) && !sum && !extreme) {
    fail_type("FusedReduce", "expected floats, or a sum, maximum or minimum, got ", dtype);
  }
  return infer(op.reduce(), made);
}

Values decompose(const FusedReduce& op, const Values& in) {
  return apply(make_op(op.reduce()), apply(make_op(op.chain()), in));
}

REGISTER_OP(FusedReduce);

}  // namespace mge
