#include "core/ops/detection/roi_pooling.h"

#include "core/ops/detection/roi_pooling.loops.h"
#include "core/ops/detection/rois.h"

namespace mge {
namespace {

using cpu::Packed;
using cpu::PixelBox;
using detection::Rois;
using detection::Staged;

// Half away from zero, and near enough that no sum or product below overflows.
std::int64_t pixel(double v) {
  constexpr double most = 1LL << 31;
  return static_cast<std::int64_t>(std::round(std::clamp(v, -most, most)));
}

template <class Op>
std::vector<PixelBox> boxes_of(const Op& op, const Rois& rois) {
  std::vector<PixelBox> out;
  out.reserve(static_cast<std::size_t>(rois.count));
  for (std::size_t k = 0; k < rois.image.size(); ++k) {
    double side[4];
    bool nan = false;
    for (std::size_t i = 0; i < 4; ++i) {
      side[i] = rois.box[4 * k + i] * op.scale;
      nan |= std::isnan(side[i]);
    }
    if (nan) {
      out.push_back({-1, 0, 0, 1, 1});
      continue;
    }
    const std::int64_t x = pixel(side[0]), y = pixel(side[1]);
    out.push_back({rois.image[k], x, y, std::max<std::int64_t>(pixel(side[2]) - x + 1, 1),
                   std::max<std::int64_t>(pixel(side[3]) - y + 1, 1)});
  }
  return out;
}

template <class Op>
cpu::RoiPoolLayout layout_of(const Op& op, const Shape& image, const std::vector<PixelBox>& boxes) {
  return {.n = image[0],
          .c = image[1],
          .h = image[2],
          .w = image[3],
          .rois = static_cast<std::int64_t>(boxes.size()),
          .out_h = op.pooled_height,
          .out_w = op.pooled_width,
          .box = boxes.data()};
}

Packed pack(const View& v, DType dtype) { return Packed(v, dtype, channels_last(v.shape)); }

}  // namespace

void kernel(const ROIPooling& op, CpuContext&, Views in, MutViews out) {
  const auto boxes = boxes_of(op, detection::read_rois("ROIPooling", in[1], in[0].shape[0]));
  if (out[0].size() == 0) return;
  const cpu::RoiPoolLayout at = layout_of(op, in[0].shape, boxes);
  const DType dtype = cpu::compute_dtype(in[0].dtype);
  const Packed x = pack(in[0], dtype);
  const Staged y(out[0], dtype, channels_last(out[0].shape));
  if (op.mode == RoiMode::AVERAGE) {
    MGE_DISPATCH(roi_pool_average)(dtype, x.data(), y.data(), at);
  } else {
    MGE_DISPATCH(roi_pool_max)(dtype, x.data(), y.data(), out[1].ptr<std::int32_t>(), at);
  }
  y.finish();
}
REGISTER_KERNEL(ROIPooling, cpu);

void kernel(const ROIPoolingBackward& op, CpuContext&, Views in, MutViews out) {
  const auto boxes =
      boxes_of(op, detection::read_rois("ROIPoolingBackward", in[1], op.input_shape[0]));
  if (out[0].size() == 0) return;
  const cpu::RoiPoolLayout at = layout_of(op, op.input_shape, boxes);
  const DType dtype = cpu::compute_dtype(in[0].dtype);
  const Packed dy = pack(in[0], dtype);
  const Staged dx(out[0], dtype, channels_last(out[0].shape));
  if (op.mode == RoiMode::AVERAGE) {
    MGE_DISPATCH(roi_pool_average_backward)(dtype, dy.data(), dx.data(), at);
  } else {
    const Packed index = pack(in[2], DType::int32);
    MGE_DISPATCH(roi_pool_max_backward)(dtype, dy.data(), index.as<std::int32_t>(), dx.data(), at);
  }
  dx.finish();
}
REGISTER_KERNEL(ROIPoolingBackward, cpu);

void kernel(const ROIPoolingPick& op, CpuContext&, Views in, MutViews out) {
  const auto boxes = boxes_of(op, detection::read_rois("ROIPoolingPick", in[1], in[0].shape[0]));
  if (out[0].size() == 0) return;
  const cpu::RoiPoolLayout at = layout_of(op, in[0].shape, boxes);
  const DType dtype = cpu::compute_dtype(in[0].dtype);
  const Packed x = pack(in[0], dtype), index = pack(in[2], DType::int32);
  const Staged y(out[0], dtype, channels_last(out[0].shape));
  MGE_DISPATCH(roi_pool_pick)(dtype, x.data(), index.as<std::int32_t>(), y.data(), at);
  y.finish();
}
REGISTER_KERNEL(ROIPoolingPick, cpu);

}  // namespace mge
