#include "core/ops/detection/roi_align.h"

#include "core/ops/detection/roi_align.loops.h"
#include "core/ops/detection/rois.h"

namespace mge {
namespace {

using cpu::Packed;
using detection::Rois;
using detection::Staged;

template <class Op>
cpu::RoiAlignLayout layout_of(const Op& op, const Shape& image, const Rois& rois) {
  // Which sample has the maximum is kept in int32.
  const double most =
      (2.0 * static_cast<double>(image[2]) + 1024) * (2.0 * static_cast<double>(image[3]) + 1024);
  const bool dense = op.sample_height == 0 || op.sample_width == 0;
  if (op.mode == RoiMode::MAX && dense && most > static_cast<double>(detection::kMostSize)) {
    fail_value(Op::traits.name, "an image of shape ", image, " is too large to sample densely");
  }
  return {.n = image[0],
          .c = image[1],
          .h = image[2],
          .w = image[3],
          .rois = rois.count,
          .out_h = op.pooled_height,
          .out_w = op.pooled_width,
          .samples_h = op.sample_height,
          .samples_w = op.sample_width,
          .scale = op.spatial_scale,
          .offset = op.offset,
          .image = rois.image.data(),
          .box = rois.box.data()};
}

Packed pack(const View& v, DType dtype) { return Packed(v, dtype, channels_last(v.shape)); }

}  // namespace

void kernel(const ROIAlign& op, CpuContext&, Views in, MutViews out) {
  const Rois rois = detection::read_rois("ROIAlign", in[1], in[0].shape[0]);
  const cpu::RoiAlignLayout at = layout_of(op, in[0].shape, rois);
  if (out[0].size() == 0) return;
  const DType dtype = cpu::compute_dtype(in[0].dtype);
  const Packed x = pack(in[0], dtype);
  const Staged y(out[0], dtype, channels_last(out[0].shape));
  if (op.mode == RoiMode::AVERAGE) {
    MGE_DISPATCH(roi_align_average)(dtype, x.data(), y.data(), at);
  } else {
    MGE_DISPATCH(roi_align_max)(dtype, x.data(), y.data(), out[1].ptr<std::int32_t>(), at);
  }
  y.finish();
}
REGISTER_KERNEL(ROIAlign, cpu);

void kernel(const ROIAlignBackward& op, CpuContext&, Views in, MutViews out) {
  const Rois rois = detection::read_rois("ROIAlignBackward", in[1], op.input_shape[0]);
  const cpu::RoiAlignLayout at = layout_of(op, op.input_shape, rois);
  if (out[0].size() == 0) return;
  const DType dtype = cpu::compute_dtype(in[0].dtype);
  const Packed dy = pack(in[0], dtype);
  const Staged dx(out[0], dtype, channels_last(out[0].shape));
  if (op.mode == RoiMode::AVERAGE) {
    MGE_DISPATCH(roi_align_average_backward)(dtype, dy.data(), dx.data(), at);
  } else {
    const Packed index = pack(in[2], DType::int32);
    MGE_DISPATCH(roi_align_max_backward)(dtype, dy.data(), index.as<std::int32_t>(), dx.data(), at);
  }
  dx.finish();
}
REGISTER_KERNEL(ROIAlignBackward, cpu);

void kernel(const ROIAlignPick& op, CpuContext&, Views in, MutViews out) {
  const Rois rois = detection::read_rois("ROIAlignPick", in[1], in[0].shape[0]);
  const cpu::RoiAlignLayout at = layout_of(op, in[0].shape, rois);
  if (out[0].size() == 0) return;
  const DType dtype = cpu::compute_dtype(in[0].dtype);
  const Packed x = pack(in[0], dtype), index = pack(in[2], DType::int32);
  const Staged y(out[0], dtype, channels_last(out[0].shape));
  MGE_DISPATCH(roi_align_pick)(dtype, x.data(), index.as<std::int32_t>(), y.data(), at);
  y.finish();
}
REGISTER_KERNEL(ROIAlignPick, cpu);

}  // namespace mge
