#include <algorithm>
#include <cstring>

#include "core/kernels/cpu/packed.h"
#include "core/kernels/cpu/parallel.h"
#include "core/ops/resize/resize.h"
#include "core/ops/resize/resize.loops.h"

namespace mge {
namespace {

using std::int64_t;

bool last(const View& v) { return !v.row_major() && is_channels_last(v.shape, v.strides); }

// Depth, height and width, with those that the shape lacks as 1.
std::array<int64_t, 3> spatial(const Shape& shape) {
  std::array<int64_t, 3> out{1, 1, 1};
  const int n = shape.size() - 2;
  for (int i = 0; i < n; ++i) out[static_cast<std::size_t>(3 - n + i)] = shape[2 + i];
  return out;
}

// Copies of elements of `W`'s width, for the dtypes whose values float arithmetic does not keep.
template <class W>
void copy_taps(const W* x, W* y, const cpu::Resample& at) {
  const AxisTaps &d = at.depth, &h = at.height, &w = at.width;
  const int64_t line = w.out * at.pitch;
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, line));
  cpu::parallel_for(at.images * d.out * h.out, grain, [&](int64_t begin, int64_t end) {
    const W* before = nullptr;
    for (int64_t r = begin; r < end; ++r) {
      const int64_t image = r / (d.out * h.out), od = r / h.out % d.out, oh = r % h.out;
      const int64_t id = d.index[static_cast<std::size_t>(od)];
      const int64_t ih = h.index[static_cast<std::size_t>(oh)];
      const W* from = x + ((image * d.in + id) * h.in + ih) * w.in * at.pitch;
      W* to = y + r * line;
      if (from == before) {
        std::memcpy(to, to - line, sizeof(W) * static_cast<std::size_t>(line));
        continue;
      }
      before = from;
      for (int64_t o = 0; o < w.out; ++o) {
        const W* pixel = from + w.index[static_cast<std::size_t>(o)] * at.pitch;
        for (int64_t c = 0; c < at.pitch; ++c) to[o * at.pitch + c] = pixel[c];
      }
    }
  });
}

struct Axes {
  std::array<AxisTaps, 3> taps;

  // From the shape `from` to the shape `to`.
  Axes(InterpolationMode mode, bool align_corners, const Shape& from, const Shape& to) {
    const auto in = spatial(from), out = spatial(to);
    for (std::size_t i = 0; i < 3; ++i) taps[i] = axis_taps(mode, in[i], out[i], align_corners);
  }
  cpu::Resample over(const Shape& shape, bool channels_last) const {
    return {.images = channels_last ? shape[0] : shape[0] * shape[1],
            .pitch = channels_last ? shape[1] : 1,
            .depth = taps[0],
            .height = taps[1],
            .width = taps[2]};
  }
};

void run(const View& x, const MutView& y, const Axes& axes, bool copies) {
  // An output of one channel or of one pixel is in both formats at once: the input decides.
  const bool channels = !y.row_major() || (last(x) && is_channels_last(y.shape, y.strides));
  const cpu::Packed packed(x, x.dtype, channels ? channels_last(x.shape) : row_major(x.shape));
  const cpu::Resample at = axes.over(x.shape, channels);
  if (copies) {
    visit_width(x.dtype,
                [&]<class W>(Tag<W>) { copy_taps(packed.as<W>(), static_cast<W*>(y.data), at); });
    return;
  }
  MGE_DISPATCH(resample)(x.dtype, packed.data(), y.data, at);
}

}  // namespace

void kernel(const Interpolate& op, CpuContext&, Views in, MutViews out) {
  const View& x = in[0];
  if (out[0].size() == 0) return;
  const Axes axes(op.mode, op.align_corners, x.shape, out[0].shape);
  run(x, out[0], axes, op.mode == InterpolationMode::NEAREST && x.dtype != DType::float32);
}
REGISTER_KERNEL(Interpolate, cpu);

void kernel(const InterpolateBackward& op, CpuContext&, Views in, MutViews out) {
  const View& dy = in[0];
  const MutView& dx = out[0];
  if (dx.size() == 0) return;
  Axes axes(op.mode, op.align_corners, dx.shape, dy.shape);
  for (AxisTaps& a : axes.taps) a = transposed(a);
  run(dy, dx, axes, false);
}
REGISTER_KERNEL(InterpolateBackward, cpu);

}  // namespace mge
