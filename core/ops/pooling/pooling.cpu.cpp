#include "core/ops/pooling/pooling.h"
#include <algorithm>

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

// Windows over `large`, one for each position of `small`.
template <class Op>
cpu::PoolLayout layout_of(const Op& op, const Shape& large, const Shape& small,
                          bool channels_last) {
  return {.n = large[0],
          .c = large[1],
          .h = large[2],
          .w = large[3],
          .out_h = small[2],
          .out_w = small[3],
          .window_h = op.window_h,
          .window_w = op.window_w,
          .stride_h = op.stride_h,
          .stride_w = op.stride_w,
          .pad_h = op.pad_h,
          .pad_w = op.pad_w,
          .channels_last = channels_last,
          .count_padding = op.mode == PoolMode::AVERAGE};
}

Strides format(const Shape& shape, const cpu::PoolLayout& at) {
  return at.channels_last ? channels_last(shape) : row_major(shape);
}

// An index that comes from outside may hold anything.
void check_index(const char* op, const View& index, const cpu::Packed& packed,
                 const cpu::PoolLayout& at) {
  const std::int64_t n = index.size(), taps = at.taps();
  std::int64_t most = 0;
  bool negative = false;
  if (index.dtype == DType::uint8) {
    std::uint8_t top = 0;
    const std::uint8_t* ids = packed.as<std::uint8_t>();
    for (std::int64_t i = 0; i < n; ++i) top = std::max(top, ids[i]);
    most = top;
  } else {
    std::int32_t top = 0, bottom = 0;
    const std::int32_t* ids = packed.as<std::int32_t>();
    for (std::int64_t i = 0; i < n; ++i)
      top = std::max(top, ids[i]), bottom = std::min(bottom, ids[i]);
    most = top, negative = bottom < 0;
  }
  if (negative || most >= taps) {
    fail_index(op, "expected positions in [0, ", taps, ") of a window, got ", negative ? -1 : most);
  }
}

}  // namespace

void kernel(const Pooling& op, CpuContext&, Views in, MutViews out) {
  const View& x = in[0];
  const MutView& y = out[0];
  if (y.size() == 0) return;
  const cpu::PoolLayout at = layout_of(op, x.shape, y.shape, works_last(y, x));
  const cpu::Packed packed(x, x.dtype, format(x.shape, at));
  if (op.mode == PoolMode::MAX) {
    MGE_DISPATCH(max_pool)(x.dtype, packed.data(), y.data, out[1].data, at);
  } else {
    MGE_DISPATCH(average_pool)(x.dtype, packed.data(), y.data, at);
  }
}
REGISTER_KERNEL(Pooling, cpu);

void kernel(const PoolingBackward& op, CpuContext&, Views in, MutViews out) {
  const MutView& dx = out[0];
  if (dx.size() == 0) return;
  const cpu::PoolLayout at = layout_of(op, dx.shape, in[0].shape, works_last(dx, in.back()));
  const Strides small = format(in[0].shape, at);
  const cpu::Packed dy(in[0], dx.dtype, small);
  if (op.mode != PoolMode::MAX) {
    MGE_DISPATCH(average_pool_backward)(dx.dtype, dy.data(), dx.data, at);
    return;
  }
  const cpu::Packed index(in[1], in[1].dtype, small);
  check_index("PoolingBackward", in[1], index, at);
  MGE_DISPATCH(max_pool_backward)(dx.dtype, dy.data(), index.data(), dx.data, at);
}
REGISTER_KERNEL(PoolingBackward, cpu);

void kernel(const MaxPoolPick& op, CpuContext&, Views in, MutViews out) {
  const MutView& picked = out[0];
  if (picked.size() == 0) return;
  const cpu::PoolLayout at = layout_of(op, in[0].shape, picked.shape, works_last(picked, in[0]));
  const cpu::Packed g(in[0], picked.dtype, format(in[0].shape, at));
  const cpu::Packed index(in[1], in[1].dtype, format(in[1].shape, at));
  check_index("MaxPoolPick", in[1], index, at);
  MGE_DISPATCH(max_pool_pick)(picked.dtype, g.data(), index.data(), picked.data, at);
}
REGISTER_KERNEL(MaxPoolPick, cpu);

}  // namespace mge
