#include "core/kernels/cpu/reduce.h"

#include "core/ops/reduce/reduce.h"

namespace mge {

void kernel(const Reduce& op, CpuContext&, Views in, MutViews out) {
  using enum Reduce::Mode;
  const Dims axes = reduced_axes("Reduce", op.axis, in[0].ndim());
  const MutView to = with_reduced_axes(out[0], axes, op.keepdim, in[0].ndim());
  switch (op.mode) {
    case SUM:
      return cpu::reduce(cpu::ReduceMode::sum, {}, in[0], to);
    case MEAN:
      return cpu::reduce(cpu::ReduceMode::sum, {.mean = true}, in[0], to);
    case SUM_SQR:
      return cpu::reduce(cpu::ReduceMode::sum_squares, {}, in[0], to);
    case PRODUCT:
      return cpu::reduce(cpu::ReduceMode::product, {}, in[0], to);
    case MAX:
      return cpu::reduce(cpu::ReduceMode::max, {}, in[0], to);
    case MIN:
      return cpu::reduce(cpu::ReduceMode::min, {}, in[0], to);
  }
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
