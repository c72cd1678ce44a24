// Convolutions that see only the pixels of their own region.
#pragma once

#include "core/ops/convolution/convolution.h"

namespace mge {

// (x, weight, rin, rout) -> y: a convolution in which the output at p takes the input at q only
// where rin[q] == rout[p]. x is (N, C, H, W), rin (N, H, W), rout (N, OH, OW), of an integer dtype;
// weights (out, in, kh, kw) or (groups, out / groups, in / groups, kh, kw). What is left out does
// not count, NaN included. Depthwise convolutions have a kernel of their own; others are a matrix
// product of masked windows. Not lowered by autocast: its inputs are of two kinds.
struct RegionRestrictedConvolution {
  MGE_CONV_2D_MEMBERS
  static constexpr OpTraits traits{.name = "RegionRestrictedConvolution",
                                   .fuse = Fuse::contraction};
  static constexpr auto fields = field_list(MGE_CONV_2D_FIELDS(RegionRestrictedConvolution));
};

// (weight, dy, rin, rout) -> the gradient of an x of the spatial size of rin.
struct RegionRestrictedConvolutionBackwardData {
  MGE_CONV_2D_MEMBERS
  static constexpr OpTraits traits{.name = "RegionRestrictedConvolutionBackwardData",
                                   .fuse = Fuse::contraction};
  static constexpr auto fields =
      field_list(MGE_CONV_2D_FIELDS(RegionRestrictedConvolutionBackwardData));
};

// (x, dy, rin, rout) -> the gradient of a weight of `weight_shape`.
struct RegionRestrictedConvolutionBackwardFilter {
  MGE_CONV_2D_MEMBERS
  Dims weight_shape;
  static constexpr OpTraits traits{.name = "RegionRestrictedConvolutionBackwardFilter",
                                   .fuse = Fuse::contraction};
  static constexpr auto fields =
      field_list(MGE_CONV_2D_FIELDS(RegionRestrictedConvolutionBackwardFilter),
                 field("weight_shape", &RegionRestrictedConvolutionBackwardFilter::weight_shape));
};

#define MGE_DECLARE_REGION_CONV(T)                                       \
  Specs infer(const T& op, const Specs& in);                             \
  Values decompose(const T& op, const Values& in);                       \
  Values grad(const T& op, const GradArgs& g);                           \
  Keep keep(const T& op, std::uint32_t needs);                           \
  bool fits(const T& op, const Specs& in);                               \
  void kernel(const T& op, CpuContext& context, Views in, MutViews out); \
  DECLARE_OP(T)
MGE_DECLARE_REGION_CONV(RegionRestrictedConvolution);
MGE_DECLARE_REGION_CONV(RegionRestrictedConvolutionBackwardData);
MGE_DECLARE_REGION_CONV(RegionRestrictedConvolutionBackwardFilter);
#undef MGE_DECLARE_REGION_CONV

}  // namespace mge
