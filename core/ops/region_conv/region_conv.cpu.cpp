#include "core/ops/region_conv/region_conv.h"

#include "core/kernels/cpu/packed.h"
#include "core/ops/region_conv/region_conv.loops.h"

namespace mge {
namespace {

using std::int64_t;

// The weights (C, 1, 1, kh, kw) seen as (kh, kw, C), as a correlation has them.
template <class V>
V by_taps(const V& w, ConvMode mode) {
  V out = w;
  out.shape = {w.shape[3], w.shape[4], w.shape[0]};
  out.strides = {w.strides[3], w.strides[4], w.strides[0]};
  if (mode == ConvMode::CROSS_CORRELATION) return out;
  const int64_t start = (w.shape[3] - 1) * w.strides[3] + (w.shape[4] - 1) * w.strides[4];
  const auto bytes = start * size_of(w.dtype);
  if constexpr (std::is_same_v<V, View>) {
    out.data = static_cast<const char*>(w.data) + bytes;
  } else {
    out.data = static_cast<char*>(w.data) + bytes;
  }
  out.strides[0] = -out.strides[0], out.strides[1] = -out.strides[1];
  return out;
}

// What the kernels have in common: the layout, and the regions as int64.
struct Problem {
  cpu::Packed rin, rout;
  cpu::RegionLayout at;

  template <class T>
  Problem(const T& op, const Shape& x, const Shape& y, const Shape& w, Views in)
      : rin(in[2], DType::int64),
        rout(in[3], DType::int64),
        at{.batch = x[0],
           .channels = x[1],
           .h = x[2],
           .w = x[3],
           .out_h = y[2],
           .out_w = y[3],
           .kernel_h = w[3],
           .kernel_w = w[4],
           .stride_h = op.stride_h,
           .stride_w = op.stride_w,
           .pad_h = op.pad_h,
           .pad_w = op.pad_w,
           .dilate_h = op.dilate_h,
           .dilate_w = op.dilate_w,
           .rin = rin.as<int64_t>(),
           .rout = rout.as<int64_t>()} {}
};

cpu::Packed image(const View& v, DType dtype) {
  return cpu::Packed(v, dtype, channels_last(v.shape));
}

// Where a kernel writes: `out` itself, or a buffer of the dtype of the computation.
class Buffer {
 public:
  Buffer(const MutView& out, DType dtype, const Strides& strides) : out_(out), buffer_(out) {
    if (out.dtype == dtype && cpu::same_layout(out.shape, out.strides, strides)) return;
    scratch_.emplace(static_cast<std::size_t>(out.size() * size_of(dtype)));
    buffer_ = {scratch_->as<void>(), dtype, out.shape, strides};
  }
  void* data() const { return buffer_.data; }
  void finish() {
    if (scratch_) cpu::copy(buffer_, out_);
  }

 private:
  MutView out_, buffer_;
  std::optional<Scratch> scratch_;
};

}  // namespace

void kernel(const RegionRestrictedConvolution& op, CpuContext&, Views in, MutViews out) {
  const MutView& y = out[0];
  if (y.size() == 0) return;
  const DType dtype = cpu::compute_dtype(y.dtype);
  const Problem p(op, in[0].shape, y.shape, in[1].shape, in);
  const cpu::Packed x = image(in[0], dtype), weight(by_taps(in[1], op.mode), dtype);
  Buffer buffer(y, dtype, channels_last(y.shape));
  MGE_DISPATCH(region_forward)(dtype, x.data(), weight.data(), buffer.data(), p.at);
  buffer.finish();
}
REGISTER_KERNEL(RegionRestrictedConvolution, cpu);

void kernel(const RegionRestrictedConvolutionBackwardData& op, CpuContext&, Views in,
            MutViews out) {
  const MutView& dx = out[0];
  if (dx.size() == 0) return;
  const DType dtype = cpu::compute_dtype(dx.dtype);
  const Problem p(op, dx.shape, in[1].shape, in[0].shape, in);
  const cpu::Packed weight(by_taps(in[0], op.mode), dtype), dy = image(in[1], dtype);
  Buffer buffer(dx, dtype, channels_last(dx.shape));
  MGE_DISPATCH(region_backward_data)(dtype, weight.data(), dy.data(), buffer.data(), p.at);
  buffer.finish();
}
REGISTER_KERNEL(RegionRestrictedConvolutionBackwardData, cpu);

void kernel(const RegionRestrictedConvolutionBackwardFilter& op, CpuContext&, Views in,
            MutViews out) {
  const MutView& dw = out[0];
  if (dw.size() == 0) return;
  const DType dtype = cpu::compute_dtype(dw.dtype);
  const Problem p(op, in[0].shape, in[1].shape, dw.shape, in);
  const cpu::Packed x = image(in[0], dtype), dy = image(in[1], dtype);
  const MutView taps = by_taps(dw, op.mode);
  Buffer buffer(taps, dtype, row_major(taps.shape));
  MGE_DISPATCH(region_backward_filter)(dtype, x.data(), dy.data(), buffer.data(), p.at);
  buffer.finish();
}
REGISTER_KERNEL(RegionRestrictedConvolutionBackwardFilter, cpu);

}  // namespace mge
