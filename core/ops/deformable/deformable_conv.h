// Deformable convolution, second version (Zhu et al., "Deformable ConvNets v2", 2018): every tap of
// every output reads the input at a place of its own, between pixels, and is scaled by a mask.
#pragma once

#include "core/op/op.h"
#include "core/ops/convolution/convolution.h"

namespace mge {

// (x (N, C, H, W), weight (O, C, kh, kw) or (g, O / g, C / g, kh, kw), offset (N, 2 d kh kw, H',
// W'), mask (N, d kh kw, H', W')) -> y (N, O, H', W'), channels-last in memory. The channels of x
// fall into d parts with offsets and masks of their own; channels 2 k and 2 k + 1 of `offset` are
// how many rows and columns tap k % (kh kw) of part k / (kh kw) is moved. Around x are zeros.
struct DeformableConv {
  MGE_CONV_2D_MEMBERS
  static constexpr OpTraits traits{
      .name = "DeformableConv", .amp = Amp::promote, .fuse = Fuse::contraction};
  static constexpr auto fields = field_list(MGE_CONV_2D_FIELDS(DeformableConv));
};
Specs infer(const DeformableConv& op, const Specs& in);
Values grad(const DeformableConv& op, const GradArgs& g);
Keep keep(const DeformableConv& op, std::uint32_t needs);
void kernel(const DeformableConv& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(DeformableConv);

// (x, weight, offset, mask, dy) -> the gradients of the first four. Not differentiable again.
struct DeformableConvBackward {
  MGE_CONV_2D_MEMBERS
  static constexpr OpTraits traits{
      .name = "DeformableConvBackward", .amp = Amp::promote, .fuse = Fuse::contraction};
  static constexpr auto fields = field_list(MGE_CONV_2D_FIELDS(DeformableConvBackward));
};
Specs infer(const DeformableConvBackward& op, const Specs& in);
Values grad(const DeformableConvBackward& op, const GradArgs& g);
void kernel(const DeformableConvBackward& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(DeformableConvBackward);

}  // namespace mge
