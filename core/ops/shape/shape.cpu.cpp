#include "core/ops/shape/shape.h"
#include "core/kernels/cpu/concat.h"

namespace mge {

void kernel(const Concat& op, CpuContext&, Views in, MutViews out) {
  cpu::concat(in, out[0], normalize_axis("Concat", op.axis, out[0].ndim()));
}
REGISTER_KERNEL(Concat, cpu);

void kernel(const Stack& op, CpuContext&, Views in, MutViews out) {
  const int axis = normalize_axis("Stack", op.axis, out[0].ndim());
  std::vector<View> parts(in.begin(), in.end());
  for (View& v : parts) {
    v.shape.insert(axis, 1);
    v.strides.insert(axis, 1);
  }
  cpu::concat(parts, out[0], axis);
}
REGISTER_KERNEL(Stack, cpu);

}  // namespace mge
