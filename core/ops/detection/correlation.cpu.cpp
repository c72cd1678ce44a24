#include "core/ops/detection/correlation.h"

#include <cstring>

#include "core/ops/detection/correlation.loops.h"
#include "core/ops/detection/rois.h"

namespace mge {
namespace {

template <class Op>
cpu::CorrelationLayout layout_of(const Op& op, const Shape& image, const Shape& out) {
  return {.n = image[0],
          .c = image[1],
          .h = image[2] + 2 * op.pad_size,
          .w = image[3] + 2 * op.pad_size,
          .out_h = out[2],
          .out_w = out[3],
          .kernel = op.kernel_size,
          .stride = op.stride1,
          .reach = op.max_displacement / op.stride2,
          .step = op.stride2,
          .border = op.max_displacement,
          .multiply = op.is_multiply};
}

Shape padded_shape(const cpu::CorrelationLayout& at) { return {at.n, at.c, at.h, at.w}; }

// The part of a padded image that is the image.
MutView inner(void* data, DType dtype, const cpu::CorrelationLayout& at, const Shape& image) {
  const Strides strides = channels_last(padded_shape(at));
  const std::int64_t pad = (at.h - image[2]) / 2;
  char* first = static_cast<char*>(data) + pad * (strides[2] + strides[3]) * size_of(dtype);
  return {first, dtype, image, strides};
}

std::size_t padded_bytes(DType dtype, const cpu::CorrelationLayout& at) {
  return static_cast<std::size_t>(count(padded_shape(at)) * size_of(dtype));
}

// A copy of an image with zeros around it.
class Padded {
 public:
  Padded(const View& image, DType dtype, const cpu::CorrelationLayout& at)
      : scratch_(padded_bytes(dtype, at)) {
    if (image.size() == 0) return;
    if (at.h != image.shape[2] || at.w != image.shape[3]) {
      std::memset(scratch_.as<void>(), 0, padded_bytes(dtype, at));
    }
    cpu::copy(image, inner(scratch_.as<void>(), dtype, at, image.shape));
  }
  const void* data() const { return scratch_.as<void>(); }

 private:
  Scratch scratch_;
};

}  // namespace

void kernel(const Correlation& op, CpuContext&, Views in, MutViews out) {
  const MutView& y = out[0];
  if (y.size() == 0) return;
  const cpu::CorrelationLayout at = layout_of(op, in[0].shape, y.shape);
  const DType dtype = cpu::compute_dtype(y.dtype);
  const Padded a(in[0], dtype, at), b(in[1], dtype, at);
  const detection::Staged result(y, dtype, row_major(y.shape));
  MGE_DISPATCH(correlate)(dtype, a.data(), b.data(), result.data(), at);
  result.finish();
}
REGISTER_KERNEL(Correlation, cpu);

void kernel(const CorrelationBackward& op, CpuContext&, Views in, MutViews out) {
  const MutView& to = out[0];
  if (to.size() == 0) return;
  const cpu::CorrelationLayout at = layout_of(op, to.shape, in[0].shape);
  const DType dtype = cpu::compute_dtype(to.dtype);
  const Padded a(in[1], dtype, at), b(in[2], dtype, at);
  const cpu::Packed dy(in[0], dtype, channels_last(in[0].shape));
  const Scratch result(padded_bytes(dtype, at));
  MGE_DISPATCH(correlate_backward)
  (dtype, dy.data(), a.data(), b.data(), result.as<void>(), op.second, at);
  cpu::copy(inner(result.as<void>(), dtype, at, to.shape), to);
}
REGISTER_KERNEL(CorrelationBackward, cpu);

}  // namespace mge
