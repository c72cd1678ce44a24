#include "core/ops/cumsum/cumsum.h"
#include "core/kernels/cpu/scan.h"

namespace mge {

void kernel(const Cumsum& op, CpuContext&, Views in, MutViews out) {
  const int axis = normalize_axis("Cumsum", op.axis, in[0].ndim());
  cpu::cumsum(in[0], axis, op.exclusive, op.reverse, out[0]);
}
REGISTER_KERNEL(Cumsum, cpu);

}  // namespace mge
