#include "core/ops/group_norm/group_norm.h"
#include "core/ops/layer_norm/row_norm.h"

namespace mge {

void kernel(const GroupNorm& op, CpuContext&, Views in, MutViews out) {
  run_forward(plan(op, "GroupNorm", in[0].shape), in, out);
}
REGISTER_KERNEL(GroupNorm, cpu);

void kernel(const GroupNormBackward& op, CpuContext&, Views in, MutViews out) {
  run_backward(plan(op, "GroupNormBackward", in[1].shape), in, out);
}
REGISTER_KERNEL(GroupNormBackward, cpu);

}  // namespace mge
