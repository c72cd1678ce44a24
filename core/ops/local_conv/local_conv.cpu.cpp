#include "core/ops/local_conv/local_conv.h"

#include "core/kernels/cpu/packed.h"
#include "core/ops/local_conv/local_conv.loops.h"

namespace mge {
namespace {

template <class T>
cpu::LocalLayout layout_of(const T& op, const Shape& x, const Shape& w) {
  return {.batch = x[0],
          .groups = w[0],
          .in = w[3],
          .out = w[6],
          .h = x[2],
          .w = x[3],
          .out_h = w[1],
          .out_w = w[2],
          .kernel_h = w[4],
          .kernel_w = w[5],
          .stride_h = op.stride_h,
          .stride_w = op.stride_w,
          .pad_h = op.pad_h,
          .pad_w = op.pad_w,
          .dilate_h = op.dilate_h,
          .dilate_w = op.dilate_w,
          .flip = op.mode == ConvMode::CONVOLUTION,
          .x_step = {},
          .y_step = {}};
}

// An operand of images: as it lies, or as a row-major copy in the dtype of the computation.
class Images {
 public:
  Images(const View& v, DType dtype, std::array<std::int64_t, 4>& step)
      : strides_(v.dtype == dtype ? v.strides : row_major(v.shape)), packed_(v, dtype, strides_) {
    std::copy(strides_.begin(), strides_.end(), step.begin());
  }
  const void* data() const { return packed_.data(); }

 private:
  Strides strides_;
  cpu::Packed packed_;
};

// A result in the dtype of the computation, rounded into the wanted one at the end.
class Result {
 public:
  Result(const MutView& wanted, DType dtype) : wanted_(wanted), view_(wanted) {
    if (wanted.dtype == dtype) return;
    scratch_.emplace(static_cast<std::size_t>(wanted.size() * size_of(dtype)));
    view_.data = scratch_->as<void>();
    view_.dtype = dtype;
  }
  void* data() const { return view_.data; }
  void clear() {
    const double zero = 0;
    cpu::copy(View{&zero, DType::float64, Shape{}, Strides{}}, view_);
  }
  void finish() {
    if (scratch_) cpu::copy(view_, wanted_);
  }

 private:
  MutView wanted_, view_;
  std::optional<Scratch> scratch_;
};

}  // namespace

void kernel(const GroupLocal& op, CpuContext&, Views in, MutViews out) {
  const MutView& y = out[0];
  if (y.size() == 0) return;
  const DType dtype = cpu::compute_dtype(y.dtype);
  cpu::LocalLayout at = layout_of(op, in[0].shape, in[1].shape);
  const Images x(in[0], dtype, at.x_step);
  const cpu::Packed weight(in[1], dtype);
  Result result(y, dtype);
  std::copy(y.strides.begin(), y.strides.end(), at.y_step.begin());
  MGE_DISPATCH(local_forward)(dtype, x.data(), weight.data(), result.data(), at);
  result.finish();
}
REGISTER_KERNEL(GroupLocal, cpu);

void kernel(const GroupLocalBackwardData& op, CpuContext&, Views in, MutViews out) {
  const MutView& dx = out[0];
  if (dx.size() == 0) return;
  const DType dtype = cpu::compute_dtype(dx.dtype);
  cpu::LocalLayout at = layout_of(op, dx.shape, in[0].shape);
  const cpu::Packed weight(in[0], dtype);
  const Images dy(in[1], dtype, at.y_step);
  Result result(dx, dtype);
  result.clear();
  std::copy(dx.strides.begin(), dx.strides.end(), at.x_step.begin());
  MGE_DISPATCH(local_backward_data)(dtype, weight.data(), dy.data(), result.data(), at);
  result.finish();
}
REGISTER_KERNEL(GroupLocalBackwardData, cpu);

void kernel(const GroupLocalBackwardFilter& op, CpuContext&, Views in, MutViews out) {
  const MutView& dw = out[0];
  if (dw.size() == 0) return;
  const DType dtype = cpu::compute_dtype(dw.dtype);
  cpu::LocalLayout at = layout_of(op, in[0].shape, dw.shape);
  const Images x(in[0], dtype, at.x_step), dy(in[1], dtype, at.y_step);
  Result result(dw, dtype);
  MGE_DISPATCH(local_backward_filter)(dtype, x.data(), dy.data(), result.data(), at);
  result.finish();
}
REGISTER_KERNEL(GroupLocalBackwardFilter, cpu);

}  // namespace mge
