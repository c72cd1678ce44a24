#include "core/ops/fused/fused_reduce.h"

#include "core/kernels/cpu/reduce_program.h"

namespace mge {

void kernel(const FusedReduce& op, CpuContext&, Views in, MutViews out) {
  Specs specs;
  for (const View& v : in) specs.push_back(Spec(v.dtype, v.shape, v.strides));
  const Spec made = infer(op.chain(), specs)[0];
  const Dims axes = reduced_axes("FusedReduce", op.axis, made.ndim());
  cpu::reduce_program(*program_of(op.chain()), kernel_mode(op.mode), op.mode == Reduce::Mode::MEAN,
                      in, made.shape, made.strides,
                      with_reduced_axes(out[0], axes, op.keepdim, made.ndim()));
}
REGISTER_KERNEL(FusedReduce, cpu);

}  // namespace mge
