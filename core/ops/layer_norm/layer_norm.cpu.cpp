#include "core/ops/layer_norm/layer_norm.h"
#include "core/ops/layer_norm/row_norm.h"

namespace mge {

void kernel(const LayerNorm& op, CpuContext&, Views in, MutViews out) {
  run_forward(plan(op, "LayerNorm", in[0].shape), in, out);
}
REGISTER_KERNEL(LayerNorm, cpu);

void kernel(const LayerNormBackward& op, CpuContext&, Views in, MutViews out) {
  run_backward(plan(op, "LayerNormBackward", in[1].shape), in, out);
}
REGISTER_KERNEL(LayerNormBackward, cpu);

}  // namespace mge
