#include "core/kernels/cpu/elementwise.h"

#include "core/kernels/cpu/copy.h"
#include "core/ops/elementwise/elementwise.h"

namespace mge {

void kernel(const Elemwise& op, CpuContext&, Views in, MutViews out) {
  cpu::elementwise(op.mode, in, out[0]);
}
REGISTER_KERNEL(Elemwise, cpu);

void kernel(const TypeCvt&, CpuContext&, Views in, MutViews out) { cpu::copy(in[0], out[0]); }
REGISTER_KERNEL(TypeCvt, cpu);

}  // namespace mge
