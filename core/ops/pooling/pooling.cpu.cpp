#include "core/ops/pooling/pooling.h"
#include "core/kernels/cpu/packed.h"
#include "core/ops/pooling/pooling.loops.h"

namespace mge {
namespace {

bool last(const View& v) { return !v.row_major() && is_channels_last(v.shape, v.strides); }

// Whether to work channels-last, given an output and the input that it takes its format from. An
// output of one channel or of 1 x 1 is both at once, and then the input decides.
bool works_last(const MutView& out, const View& like) {
  return !out.row_major() || (last(like) && is_channels_last(out.shape, out.strides));
}

// Windows over an x of this shape.
template <class Op>
cpu::PoolLayout layout_of(const Op& op, const Shape& x, const Shape& y, bool channels_last) {
  return {.n = x[0],
          .c = x[1],
          .h = x[2],
          .w = x[3],
          .out_h = y[2],
          .out_w = y[3],
          .window_h = op.window_h,
          .window_w = op.window_w,
          .stride_h = op.stride_h,
          .stride_w = op.stride_w,
          .pad_h = op.pad_h,
          .pad_w = op.pad_w,
          .channels_last = channels_last,
          .count_padding = op.mode == PoolMode::AVERAGE};
}

Strides format(const Shape& shape, bool last) {
  return last ? channels_last(shape) : row_major(shape);
}

}  // namespace

void kernel(const Pooling& op, CpuContext&, Views in, MutViews out) {
  const View& x = in[0];
  const MutView& y = out[0];
  if (y.size() == 0) return;
  const cpu::PoolLayout at = layout_of(op, x.shape, y.shape, works_last(y, x));
  const cpu::Packed packed(x, x.dtype, format(x.shape, at.channels_last));
  if (op.mode == PoolMode::MAX) {
    MGE_DISPATCH(max_pool)(x.dtype, packed.data(), y.data, at);
  } else {
    MGE_DISPATCH(average_pool)(x.dtype, packed.data(), y.data, at);
  }
}
REGISTER_KERNEL(Pooling, cpu);

void kernel(const PoolingBackward& op, CpuContext&, Views in, MutViews out) {
  const MutView& dx = out[0];
  if (dx.size() == 0) return;
  const cpu::PoolLayout at = layout_of(op, dx.shape, in[0].shape, works_last(dx, in[0]));
  const Strides small = format(in[0].shape, at.channels_last);
  const cpu::Packed dy(in[0], dx.dtype, small);
  if (op.mode != PoolMode::MAX) {
    MGE_DISPATCH(average_pool_backward)(dx.dtype, dy.data(), dx.data, at);
    return;
  }
  const cpu::Packed x(in[1], dx.dtype, dx.strides), y(in[2], dx.dtype, small);
  MGE_DISPATCH(max_pool_backward)(dx.dtype, dy.data(), x.data(), y.data(), dx.data, at);
}
REGISTER_KERNEL(PoolingBackward, cpu);

void kernel(const MaxPoolPick& op, CpuContext&, Views in, MutViews out) {
  const MutView& picked = out[0];
  if (picked.size() == 0) return;
  const cpu::PoolLayout at = layout_of(op, in[1].shape, picked.shape, works_last(picked, in[1]));
  const Strides large = format(in[1].shape, at.channels_last);
  const cpu::Packed g(in[0], picked.dtype, large), x(in[1], picked.dtype, large);
  const cpu::Packed y(in[2], picked.dtype, picked.strides);
  MGE_DISPATCH(max_pool_pick)(picked.dtype, g.data(), x.data(), y.data(), picked.data, at);
}
REGISTER_KERNEL(MaxPoolPick, cpu);

}  // namespace mge
