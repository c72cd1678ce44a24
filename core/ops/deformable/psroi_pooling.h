// Deformable RoI pooling (Dai et al., "Deformable Convolutional Networks", 2017): the means of the
// bins of boxes, each of which is moved by a share of its box's size.
#pragma once

#include "core/op/op.h"

namespace mge {

// (x (N, C, H, W), rois (K, 5), trans (K, 2, h, w)) -> y (K, C, pooled_h, pooled_w), channels-last
// in memory. Corners of boxes are rounded, half away from zero, and multiplied by spatial_scale;
// pixels reach half a pixel around their centres. Bin (i, j) is moved right by trans_std * trans[k,
// 0, i', j'] box widths and down by trans_std * trans[k, 1, i', j'] box heights with i' = i h /
// pooled_h; (h, w) is (part_size, part_size) or (pooled_h, pooled_w). It is the mean of those of
// sample_per_part^2 points that lie on the image, or 0. A box that is not finite gives NaN.
#define MGE_PSROI_MEMBERS                  \
  bool no_trans = true;                    \
  double spatial_scale = 1, trans_std = 1; \
  std::int64_t pooled_h = 1, pooled_w = 1, part_size = 1, sample_per_part = 1;
#define MGE_PSROI_FIELDS(T)                                                   \
  field("no_trans", &T::no_trans), field("spatial_scale", &T::spatial_scale), \
      field("trans_std", &T::trans_std), field("pooled_h", &T::pooled_h),     \
      field("pooled_w", &T::pooled_w), field("part_size", &T::part_size),     \
      field("sample_per_part", &T::sample_per_part)

struct DeformablePSROIPooling {
  MGE_PSROI_MEMBERS
  static constexpr OpTraits traits{.name = "DeformablePSROIPooling", .fuse = Fuse::reduction};
  static constexpr auto fields = field_list(MGE_PSROI_FIELDS(DeformablePSROIPooling));
};
Specs infer(const DeformablePSROIPooling& op, const Specs& in);
Values grad(const DeformablePSROIPooling& op, const GradArgs& g);
Keep keep(const DeformablePSROIPooling& op, std::uint32_t needs);
void kernel(const DeformablePSROIPooling& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(DeformablePSROIPooling);

// (x, rois, trans, dy) -> the gradients of x and trans. Not differentiable again.
struct DeformablePSROIPoolingBackward {
  MGE_PSROI_MEMBERS
  static constexpr OpTraits traits{.name = "DeformablePSROIPoolingBackward",
                                   .fuse = Fuse::reduction};
  static constexpr auto fields = field_list(MGE_PSROI_FIELDS(DeformablePSROIPoolingBackward));
};
Specs infer(const DeformablePSROIPoolingBackward& op, const Specs& in);
Values grad(const DeformablePSROIPoolingBackward& op, const GradArgs& g);
void kernel(const DeformablePSROIPoolingBackward& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(DeformablePSROIPoolingBackward);

}  // namespace mge
