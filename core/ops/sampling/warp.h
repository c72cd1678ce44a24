// The warps under their public names: each is a Sample (sample.h) at positions that a map or a
// matrix gives. Sizes of outputs are integer tensors (height, width).
#pragma once

#include "core/ops/sampling/sample.h"

namespace mge {

// (x, map) -> (y,).
struct Remap {
  InterpolationMode imode = InterpolationMode::LINEAR;
  BorderMode border_type = BorderMode::REPLICATE;
  ImageFormat format = ImageFormat::NHWC;
  double scalar = 0;
  static constexpr OpTraits traits{.name = "Remap"};
  static constexpr auto fields =
      field_list(field("imode", &Remap::imode), field("border_type", &Remap::border_type),
                 field("format", &Remap::format), field("scalar", &Remap::scalar));
};
Values execute(const Remap& op, Values& in);
Values decompose(const Remap& op, const Values& in);
DECLARE_OP(Remap);

// (x, mat, size) -> (y,), mat of (N, 2, 3): y at (i, j) is x at mat (j, i, 1).
struct WarpAffine {
  InterpolationMode imode = InterpolationMode::LINEAR;
  BorderMode border_mode = BorderMode::REPLICATE;
  double border_val = 0;
  ImageFormat format = ImageFormat::NHWC;
  static constexpr OpTraits traits{.name = "WarpAffine", .by_contents = true};
  static constexpr auto fields = field_list(
      field("imode", &WarpAffine::imode), field("border_mode", &WarpAffine::border_mode),
      field("border_val", &WarpAffine::border_val), field("format", &WarpAffine::format));
};
Values execute(const WarpAffine& op, Values& in);
Values decompose(const WarpAffine& op, const Values& in);
DECLARE_OP(WarpAffine);

#define MGE_WARP_FIELDS(T)                                             \
  InterpolationMode imode = InterpolationMode::LINEAR;                 \
  BorderMode bmode = BorderMode::REPLICATE;                            \
  ImageFormat format = ImageFormat::NCHW;                              \
  double border_val = 0;                                               \
  static constexpr OpTraits traits{.name = #T, .by_contents = true};   \
  static constexpr auto fields =                                       \
      field_list(field("imode", &T::imode), field("bmode", &T::bmode), \
                 field("format", &T::format), field("border_val", &T::border_val))

// (x, mat, size) or (x, mat, image, size) -> (y,), mat of (M, 3, 3); `image` names the image that
// each matrix warps.
struct WarpPerspective {
  MGE_WARP_FIELDS(WarpPerspective);
};
Values execute(const WarpPerspective& op, Values& in);
Values decompose(const WarpPerspective& op, const Values& in);
DECLARE_OP(WarpPerspective);

// (mat, dy, x) or (mat, image, dy, x) -> (dx,); of x only the shape counts.
struct WarpPerspectiveBackwardData {
  MGE_WARP_FIELDS(WarpPerspectiveBackwardData);
};
Values execute(const WarpPerspectiveBackwardData& op, Values& in);
Values decompose(const WarpPerspectiveBackwardData& op, const Values& in);
DECLARE_OP(WarpPerspectiveBackwardData);

// (x, mat, dy) or (x, mat, image, dy) -> (dmat,).
struct WarpPerspectiveBackwardMat {
  MGE_WARP_FIELDS(WarpPerspectiveBackwardMat);
};
Values execute(const WarpPerspectiveBackwardMat& op, Values& in);
Values decompose(const WarpPerspectiveBackwardMat& op, const Values& in);
DECLARE_OP(WarpPerspectiveBackwardMat);

#undef MGE_WARP_FIELDS

}  // namespace mge
