// Conversion of images between colour spaces.
#pragma once

#include <array>

#include "core/op/op.h"

namespace mge {

// (x) -> (y,), x of (N, H, W, C).
//
// Pixel by pixel, for uint8 and floats: GRAY is 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601). RGB2YUV
// and YUV2RGB have blue first, as the reference has: (B, G, R) <-> (Y, 0.492 (B - Y) + h,
// 0.877 (R - Y) + h) where h is 1/2, and 128 for uint8.
//
// From planes, for uint8: x of (N, 3 H / 2, W, 1) holds H rows of Y and then the chroma of 2 x 2
// blocks: NV12 as pairs U V, NV21 as pairs V U, YU12 as all U and then all V, YV12 the other way
// round. YCrCb2RGB and YCrCb2BGR read NV21.
struct CvtColor {
  enum class Mode : std::uint8_t {
    RGB2GRAY,
    RGB2YUV,
    YUV2RGB,
    GRAY2RGB,
    RGBA2RGB,
    RGBA2BGR,
    RGBA2GRAY,
    RGB2BGR,
    BGR2GRAY,
    BGR2RGB,
    YUV2GRAY_NV21,
    YUV2RGB_NV21,
    YUV2BGR_NV21,
    YUV2GRAY_NV12,
    YUV2RGB_NV12,
    YUV2BGR_NV12,
    YUV2GRAY_YV12,
    YUV2RGB_YV12,
    YUV2BGR_YV12,
    YUV2GRAY_YU12,
    YUV2RGB_YU12,
    YUV2BGR_YU12,
    YCrCb2RGB,
    YCrCb2BGR,
    BT601_YUV2RGB_NV21,
    BT601_YUV2BGR_NV21,
    BT601_YUV2RGB_NV12,
    BT601_YUV2BGR_NV12,
    BT601_YUV2RGB_YV12,
    BT601_YUV2BGR_YV12,
    BT601_YUV2RGB_YU12,
    BT601_YUV2BGR_YU12,
  };
  Mode mode = Mode::RGB2GRAY;
  static constexpr OpTraits traits{.name = "CvtColor"};
  static constexpr auto fields = field_list(field("mode", &CvtColor::mode));
};
template <>
struct EnumNames<CvtColor::Mode> {
  static constexpr auto names = std::to_array<const char*>({
      "RGB2GRAY",
      "RGB2YUV",
      "YUV2RGB",
      "GRAY2RGB",
      "RGBA2RGB",
      "RGBA2BGR",
      "RGBA2GRAY",
      "RGB2BGR",
      "BGR2GRAY",
      "BGR2RGB",
      "YUV2GRAY_NV21",
      "YUV2RGB_NV21",
      "YUV2BGR_NV21",
      "YUV2GRAY_NV12",
      "YUV2RGB_NV12",
      "YUV2BGR_NV12",
      "YUV2GRAY_YV12",
      "YUV2RGB_YV12",
      "YUV2BGR_YV12",
      "YUV2GRAY_YU12",
      "YUV2RGB_YU12",
      "YUV2BGR_YU12",
      "YCrCb2RGB",
      "YCrCb2BGR",
      "BT601_YUV2RGB_NV21",
      "BT601_YUV2BGR_NV21",
      "BT601_YUV2RGB_NV12",
      "BT601_YUV2BGR_NV12",
      "BT601_YUV2RGB_YV12",
      "BT601_YUV2BGR_YV12",
      "BT601_YUV2RGB_YU12",
      "BT601_YUV2BGR_YU12",
  });
};
Specs infer(const CvtColor& op, const Specs& in);
Values grad(const CvtColor& op, const GradArgs& g);
Keep keep(const CvtColor& op, std::uint32_t needs);
void kernel(const CvtColor& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(CvtColor);

}  // namespace mge
