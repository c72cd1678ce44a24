// All windows of an image as a tensor, and the sum of such windows into an image.
#pragma once

#include "core/op/op.h"

namespace mge {

#define MGE_WINDOW_MEMBERS                 \
  std::int64_t pad_h = 0, pad_w = 0;       \
  std::int64_t stride_h = 1, stride_w = 1; \
  std::int64_t dilate_h = 1, dilate_w = 1; \
  std::int64_t window_h = 3, window_w = 3;
#define MGE_WINDOW_FIELDS(T)                                                             \
  field("pad_h", &T::pad_h), field("pad_w", &T::pad_w), field("stride_h", &T::stride_h), \
      field("stride_w", &T::stride_w), field("dilate_h", &T::dilate_h),                  \
      field("dilate_w", &T::dilate_w), field("window_h", &T::window_h),                  \
      field("window_w", &T::window_w)

// (x) of (N, C, H, W) -> (N, C, OH, OW, window_h, window_w):
// y[n, c, i, j, a, b] = x[n, c, i stride_h - pad_h + a dilate_h, ...], zeros outside of x. A view
// of x, or of a copy with the padding: windows that overlap share memory.
struct Images2Neibs {
  MGE_WINDOW_MEMBERS
  static constexpr OpTraits traits{.name = "Images2Neibs", .fuse = Fuse::view};
  static constexpr auto fields = field_list(MGE_WINDOW_FIELDS(Images2Neibs));
};
Specs infer(const Images2Neibs& op, const Specs& in);
Values execute(const Images2Neibs& op, Values& in);
Values grad(const Images2Neibs& op, const GradArgs& g);
Keep keep(const Images2Neibs& op, std::uint32_t needs);
DECLARE_OP(Images2Neibs);

// (windows) -> (N, C, out_h, out_w): each pixel is the sum of all elements of windows that lie on
// it. Floats and integers; 8- and 16-bit integers add up in int32, which is the result.
struct SlidingWindowTranspose {
  std::int64_t out_h = 0, out_w = 0;
  MGE_WINDOW_MEMBERS
  static constexpr OpTraits traits{.name = "SlidingWindowTranspose"};
  static constexpr auto fields = field_list(field("out_h", &SlidingWindowTranspose::out_h),
                                            field("out_w", &SlidingWindowTranspose::out_w),
                                            MGE_WINDOW_FIELDS(SlidingWindowTranspose));
};
Specs infer(const SlidingWindowTranspose& op, const Specs& in);
Values grad(const SlidingWindowTranspose& op, const GradArgs& g);
Keep keep(const SlidingWindowTranspose& op, std::uint32_t needs);
void kernel(const SlidingWindowTranspose& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(SlidingWindowTranspose);

}  // namespace mge
