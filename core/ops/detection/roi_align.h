// RoI align (He et al., "Mask R-CNN", 2017): each box is cut into pooled_height x pooled_width
// bins, and each bin is the mean or the maximum of sample_height x sample_width points of it, read
// from the image between its pixels. Outside of the image are zeros.
#pragma once

#include <array>

#include "core/op/op.h"

namespace mge {

enum class RoiMode : std::uint8_t { MAX, AVERAGE };
template <>
struct EnumNames<RoiMode> {
  static constexpr auto names = std::to_array<const char*>({"MAX", "AVERAGE"});
};
// The only format of images that these ops take.
enum class NchwFormat : std::uint8_t { NCHW };
template <>
struct EnumNames<NchwFormat> {
  static constexpr auto names = std::to_array<const char*>({"NCHW"});
};

// (x of (N, C, H, W), rois of (K, 5)) -> y of (K, C, pooled_height, pooled_width), channels-last in
// memory. Boxes are multiplied by spatial_scale, then `offset` is taken off. 0 samples: one a
// pixel, ceil(size of a bin) of them. A box with a coordinate that is not finite gives NaN. MAX has
// a second output, int32: which sample each maximum came from, -1 for the zeros outside.
#define MGE_ROI_ALIGN_MEMBERS                       \
  RoiMode mode = RoiMode::MAX;                      \
  NchwFormat format = NchwFormat::NCHW;             \
  double spatial_scale = 1.0, offset = 0.0;         \
  std::int64_t pooled_height = 1, pooled_width = 1; \
  std::int64_t sample_height = 2, sample_width = 2;
#define MGE_ROI_ALIGN_FIELDS(T)                                                                    \
  field("mode", &T::mode), field("format", &T::format), field("spatial_scale", &T::spatial_scale), \
      field("offset", &T::offset), field("pooled_height", &T::pooled_height),                      \
      field("pooled_width", &T::pooled_width), field("sample_height", &T::sample_height),          \
      field("sample_width", &T::sample_width)

struct ROIAlign {
  MGE_ROI_ALIGN_MEMBERS
  static constexpr OpTraits traits{.name = "ROIAlign", .fuse = Fuse::reduction};
  static constexpr auto fields = field_list(MGE_ROI_ALIGN_FIELDS(ROIAlign));
};
Specs infer(const ROIAlign& op, const Specs& in);
Values grad(const ROIAlign& op, const GradArgs& g);
Keep keep(const ROIAlign& op, std::uint32_t needs);
void kernel(const ROIAlign& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(ROIAlign);

// (dy, rois[, index]) -> the gradient of x, of input_shape, channels-last in memory. Linear in dy.
struct ROIAlignBackward {
  MGE_ROI_ALIGN_MEMBERS
  Dims input_shape;
  static constexpr OpTraits traits{.name = "ROIAlignBackward", .fuse = Fuse::reduction};
  static constexpr auto fields = field_list(MGE_ROI_ALIGN_FIELDS(ROIAlignBackward),
                                            field("input_shape", &ROIAlignBackward::input_shape));
};
Specs infer(const ROIAlignBackward& op, const Specs& in);
Values grad(const ROIAlignBackward& op, const GradArgs& g);
Keep keep(const ROIAlignBackward& op, std::uint32_t needs);
void kernel(const ROIAlignBackward& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(ROIAlignBackward);

// (x, rois, index) -> the samples of x that index names: what MAX does once the maxima are known,
// and so what ROIAlignBackward does the other way round.
struct ROIAlignPick {
  MGE_ROI_ALIGN_MEMBERS
  static constexpr OpTraits traits{.name = "ROIAlignPick", .fuse = Fuse::reduction};
  static constexpr auto fields = field_list(MGE_ROI_ALIGN_FIELDS(ROIAlignPick));
};
Specs infer(const ROIAlignPick& op, const Specs& in);
Values grad(const ROIAlignPick& op, const GradArgs& g);
Keep keep(const ROIAlignPick& op, std::uint32_t needs);
void kernel(const ROIAlignPick& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(ROIAlignPick);

}  // namespace mge
