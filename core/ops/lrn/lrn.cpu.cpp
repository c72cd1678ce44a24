#include "core/ops/lrn/lrn.h"

#include "core/kernels/cpu/packed.h"
#include "core/ops/lrn/lrn.loops.h"

namespace mge {
namespace {

template <class T>
cpu::LrnLayout layout_of(const T& op, const MutView& y) {
  const bool last = !y.row_major();
  const std::int64_t pixels = y.shape[2] * y.shape[3];
  return {.outer = last ? y.shape[0] * pixels : y.shape[0],
          .channels = y.shape[1],
          .inner = last ? 1 : pixels,
          .half = std::min(op.n / 2, y.shape[1]),
          .k = op.k,
          .alpha = op.alpha,
          .beta = op.beta};
}

}  // namespace

void kernel(const LRN& op, CpuContext&, Views in, MutViews out) {
  const MutView& y = out[0];
  if (y.size() == 0) return;
  const cpu::Packed x(in[0], y.dtype, y.strides);
  MGE_DISPATCH(lrn)(y.dtype, x.data(), y.data, layout_of(op, y));
}
REGISTER_KERNEL(LRN, cpu);

void kernel(const LRNBackward& op, CpuContext&, Views in, MutViews out) {
  const MutView& dx = out[0];
  if (dx.size() == 0) return;
  const cpu::Packed dy(in[0], dx.dtype, dx.strides), x(in[1], dx.dtype, dx.strides);
  MGE_DISPATCH(lrn_backward)(dx.dtype, dy.data(), x.data(), dx.data, layout_of(op, dx));
}
REGISTER_KERNEL(LRNBackward, cpu);

}  // namespace mge
