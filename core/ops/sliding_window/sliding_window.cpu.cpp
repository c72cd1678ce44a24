#include "core/ops/sliding_window/sliding_window.h"
#include "core/kernels/cpu/packed.h"
#include "core/ops/sliding_window/sliding_window.loops.h"

namespace mge {
namespace {

// Lines of windows are read along the width: where images or channels lie closer together than
// anything inside them, a row-major copy is better.
bool reads_well(const View& windows) {
  const auto size = [&](int i) {
    return windows.shape[i] > 1 ? std::abs(windows.strides[i]) : std::int64_t{1} << 62;
  };
  const std::int64_t inner = std::min({size(2), size(3), size(4), size(5)});
  return inner <= std::min(size(0), size(1));
}

}  // namespace

void kernel(const SlidingWindowTranspose& op, CpuContext&, Views in, MutViews out) {
  const MutView& y = out[0];
  if (y.size() == 0) return;
  const View& x = in[0];
  cpu::WindowLayout at{.images = y.shape[0],
                       .channels = y.shape[1],
                       .h = y.shape[2],
                       .w = y.shape[3],
                       .out_h = x.shape[2],
                       .out_w = x.shape[3],
                       .window_h = x.shape[4],
                       .window_w = x.shape[5],
                       .stride_h = op.stride_h,
                       .stride_w = op.stride_w,
                       .pad_h = op.pad_h,
                       .pad_w = op.pad_w,
                       .dilate_h = op.dilate_h,
                       .dilate_w = op.dilate_w,
                       .step = {}};
  const bool as_it_is = x.dtype == y.dtype && reads_well(x);
  const Strides strides = as_it_is ? x.strides : row_major(x.shape);
  const cpu::Packed windows(x, y.dtype, strides);
  std::copy(strides.begin(), strides.end(), at.step.begin());
  MGE_DISPATCH(add_windows)(y.dtype, windows.data(), y.data, at);
}
REGISTER_KERNEL(SlidingWindowTranspose, cpu);

}  // namespace mge
