#include "core/ops/fused/fused.h"

namespace mge {

void kernel(const FusedElementwise& op, CpuContext&, Views in, MutViews out) {
  cpu::run_program(*program_of(op), in, out);
}
REGISTER_KERNEL(FusedElementwise, cpu);

}  // namespace mge
