#include "core/kernels/cpu/sort.h"

#include "core/ops/sort/sort.h"

namespace mge {

void kernel(const Argsort& op, CpuContext&, Views in, MutViews out) {
  cpu::sort(in[0], op.order == Argsort::Order::DESCENDING, out[0], out[1]);
}
REGISTER_KERNEL(Argsort, cpu);

}  // namespace mge
