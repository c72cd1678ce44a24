#include "core/ops/argreduce/argreduce.h"
#include "core/kernels/cpu/reduce.h"
#include "core/ops/reduce/reduce.h"

namespace mge {
namespace {

template <class Op>
void run(const Op& op, bool largest, const View& in, const MutView& out) {
  const Dims axes = reduced_axes(Op::traits.name, op.axis, in.ndim());
  cpu::arg_reduce(largest, in, with_reduced_axes(out, axes, op.keepdim, in.ndim()));
}

}  // namespace

void kernel(const Argmax& op, CpuContext&, Views in, MutViews out) { run(op, true, in[0], out[0]); }
REGISTER_KERNEL(Argmax, cpu);

void kernel(const Argmin& op, CpuContext&, Views in, MutViews out) {
  run(op, false, in[0], out[0]);
}
REGISTER_KERNEL(Argmin, cpu);

}  // namespace mge
