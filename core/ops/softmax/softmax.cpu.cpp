#include "core/ops/softmax/softmax.h"
#include "core/kernels/cpu/packed.h"
#include "core/ops/softmax/softmax.loops.h"

namespace mge {
namespace {

using cpu::SoftmaxKind;

// A dense tensor as memory sees it: what lies outside the axis, the axis, what lies inside.
cpu::AxisLayout layout_of(const Shape& shape, const Strides& strides, std::int64_t axis) {
  const int at = normalize_axis("Softmax", axis, shape.size());
  cpu::AxisLayout out{1, shape[at], 1};
  for (int i = 0; i < shape.size(); ++i) {
    if (i == at) continue;
    // An axis of one element may have any stride, and reduces nothing: all else is rows of it.
    const bool outside = shape[at] == 1 || strides[i] > strides[at];
    (outside ? out.outer : out.inner) *= shape[i];
  }
  return out;
}

void forward(SoftmaxKind kind, std::int64_t axis, const View& x, const MutView& y) {
  if (y.size() == 0) return;
  const cpu::Packed packed(x, y.dtype, y.strides);
  MGE_DISPATCH(softmax_forward)(kind, y.dtype, packed.data(), y.data,
                                layout_of(y.shape, y.strides, axis));
}

void backward(SoftmaxKind kind, std::int64_t axis, const View& dy, const View& y,
              const MutView& dx) {
  if (dx.size() == 0) return;
  const cpu::Packed g(dy, dx.dtype, dx.strides), out(y, dx.dtype, dx.strides);
  MGE_DISPATCH(softmax_backward)(kind, dx.dtype, g.data(), out.data(), nullptr, dx.data,
                                 layout_of(dx.shape, dx.strides, axis));
}

}  // namespace

void kernel(const Softmax& op, CpuContext&, Views in, MutViews out) {
  forward(SoftmaxKind::softmax, op.axis, in[0], out[0]);
}
REGISTER_KERNEL(Softmax, cpu);

void kernel(const SoftmaxBackward& op, CpuContext&, Views in, MutViews out) {
  backward(SoftmaxKind::softmax, op.axis, in[0], in[1], out[0]);
}
REGISTER_KERNEL(SoftmaxBackward, cpu);

void kernel(const LogSoftmax& op, CpuContext&, Views in, MutViews out) {
  forward(SoftmaxKind::logsoftmax, op.axis, in[0], out[0]);
}
REGISTER_KERNEL(LogSoftmax, cpu);

void kernel(const LogSoftmaxBackward& op, CpuContext&, Views in, MutViews out) {
  backward(SoftmaxKind::logsoftmax, op.axis, in[0], in[1], out[0]);
}
REGISTER_KERNEL(LogSoftmaxBackward, cpu);

void kernel(const LogSumExp& op, CpuContext&, Views in, MutViews out) {
  if (out[0].size() == 0) return;
  const View& x = in[0];
  const cpu::Packed packed(x);
  MGE_DISPATCH(softmax_forward)(SoftmaxKind::logsumexp, x.dtype, packed.data(), out[0].data,
                                layout_of(x.shape, row_major(x.shape), op.axis));
}
REGISTER_KERNEL(LogSumExp, cpu);

void kernel(const LogSumExpBackward& op, CpuContext&, Views in, MutViews out) {
  const MutView& dx = out[0];
  if (dx.size() == 0) return;
  const cpu::Packed dy(in[0], dx.dtype), y(in[1], dx.dtype), x(in[2], dx.dtype);
  MGE_DISPATCH(softmax_backward)(SoftmaxKind::logsumexp, dx.dtype, dy.data(), y.data(), x.data(),
                                 dx.data, layout_of(dx.shape, dx.strides, op.axis));
}
REGISTER_KERNEL(LogSumExpBackward, cpu);

}  // namespace mge
