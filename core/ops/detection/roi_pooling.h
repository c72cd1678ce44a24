// RoI pooling (Girshick, "Fast R-CNN", 2015): each box, rounded to whole pixels, is cut into bins
// whose maximum or mean is taken.
#pragma once

#include "core/op/op.h"
#include "core/ops/detection/roi_align.h"

namespace mge {

// (x of (N, C, H, W), rois of (K, 5)) -> y of (K, C, pooled_height, pooled_width),
// channels-last in memory. Coordinates are multiplied by `scale` and rounded half away from zero;
// both ends belong to the box, which is at least one pixel large. A bin outside of the image is 0,
// a box with a coordinate that is NaN gives NaN. MAX has a second output, int32: the pixel
// (row * W + column) of each maximum, -1 where there is none.
#define MGE_ROI_POOLING_MEMBERS \
  RoiMode mode = RoiMode::MAX;  \
  double scale = 1.0;           \
  std::int64_t pooled_height = 1, pooled_width = 1;
#define MGE_ROI_POOLING_FIELDS(T)                                                                \
  field("mode", &T::mode), field("scale", &T::scale), field("pooled_height", &T::pooled_height), \
      field("pooled_width", &T::pooled_width)

struct ROIPooling {
  MGE_ROI_POOLING_MEMBERS
  static constexpr OpTraits traits{.name = "ROIPooling", .fuse = Fuse::reduction};
  static constexpr auto fields = field_list(MGE_ROI_POOLING_FIELDS(ROIPooling));
};
Specs infer(const ROIPooling& op, const Specs& in);
Values grad(const ROIPooling& op, const GradArgs& g);
Keep keep(const ROIPooling& op, std::uint32_t needs);
void kernel(const ROIPooling& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(ROIPooling);

// (dy, rois[, index]) -> the gradient of x, of input_shape, channels-last in memory. Linear in dy.
struct ROIPoolingBackward {
  MGE_ROI_POOLING_MEMBERS
  Dims input_shape;
  static constexpr OpTraits traits{.name = "ROIPoolingBackward", .fuse = Fuse::reduction};
  static constexpr auto fields = field_list(MGE_ROI_POOLING_FIELDS(ROIPoolingBackward),
                                            field("input_shape", &ROIPoolingBackward::input_shape));
};
Specs infer(const ROIPoolingBackward& op, const Specs& in);
Values grad(const ROIPoolingBackward& op, const GradArgs& g);
Keep keep(const ROIPoolingBackward& op, std::uint32_t needs);
void kernel(const ROIPoolingBackward& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(ROIPoolingBackward);

// (x, rois, index) -> the pixels of x that index names; what MAX does once the maxima are known.
struct ROIPoolingPick {
  MGE_ROI_POOLING_MEMBERS
  static constexpr OpTraits traits{.name = "ROIPoolingPick", .fuse = Fuse::reduction};
  static constexpr auto fields = field_list(MGE_ROI_POOLING_FIELDS(ROIPoolingPick));
};
Specs infer(const ROIPoolingPick& op, const Specs& in);
Values grad(const ROIPoolingPick& op, const GradArgs& g);
Keep keep(const ROIPoolingPick& op, std::uint32_t needs);
void kernel(const ROIPoolingPick& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(ROIPoolingPick);

}  // namespace mge
