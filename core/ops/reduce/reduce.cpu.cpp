#include "core/ops/reduce/reduce.h"

namespace mge {
cpu::ReduceMode kernel_mode(Reduce::Mode mode) {
  using enum Reduce::Mode;
  switch (mode) {
    case SUM:
    case MEAN:
      return cpu::ReduceMode::sum;
    case SUM_SQR:
      return cpu::ReduceMode::sum_squares;
    case PRODUCT:
      return cpu::ReduceMode::product;
    case MAX:
      return cpu::ReduceMode::max;
    case MIN:
      return cpu::ReduceMode::min;
  }
  fail_value("Reduce", "unknown mode");
}

void kernel(const Reduce& op, CpuContext&, Views in, MutViews out) {
  const Dims axes = reduced_axes("Reduce", op.axis, in[0].ndim());
  const MutView to = with_reduced_axes(out[0], axes, op.keepdim, in[0].ndim());
  cpu::reduce(kernel_mode(op.mode), {.mean = op.mode == Reduce::Mode::MEAN}, in[0], to);
}
REGISTER_KERNEL(Reduce, cpu);

void kernel(const Variance& op, CpuContext&, Views in, MutViews out) {
  const Dims axes = reduced_axes("Variance", op.axis, in[0].ndim());
  cpu::variance(op.root, in[0], with_reduced_axes(out[0], axes, op.keepdim, in[0].ndim()));
}
REGISTER_KERNEL(Variance, cpu);

void kernel(const Norm2& op, CpuContext&, Views in, MutViews out) {
  const Dims axes = reduced_axes("Norm2", op.axis, in[0].ndim());
  cpu::reduce(cpu::ReduceMode::sum_squares, {.root = true}, in[0],
              with_reduced_axes(out[0], axes, op.keepdim, in[0].ndim()));
}
REGISTER_KERNEL(Norm2, cpu);

}  // namespace mge
