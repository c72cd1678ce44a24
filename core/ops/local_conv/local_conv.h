// Convolutions with weights of their own at each position ("locally connected" layers).
#pragma once

#include "core/ops/convolution/convolution.h"

namespace mge {

// (x, weight) of (N, C, H, W) and (groups, OH, OW, C / groups, kh, kw, out / groups)
// -> (N, out, OH, OW). Floats; 16-bit ones accumulate in float32. Comes out channels-last. The
// field `sparse` says nothing here: the weight always names its groups.
struct GroupLocal {
  MGE_CONV_2D_MEMBERS
  static constexpr OpTraits traits{
      .name = "GroupLocal", .amp = Amp::promote, .fuse = Fuse::contraction};
  static constexpr auto fields = field_list(MGE_CONV_2D_FIELDS(GroupLocal));
};
Specs infer(const GroupLocal& op, const Specs& in);
Values grad(const GroupLocal& op, const GradArgs& g);
Keep keep(const GroupLocal& op, std::uint32_t needs);
void kernel(const GroupLocal& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(GroupLocal);

// (weight, dy) -> the gradient of an x of the spatial size `output_size`.
struct GroupLocalBackwardData {
  MGE_CONV_2D_MEMBERS
  Dims output_size;
  static constexpr OpTraits traits{
      .name = "GroupLocalBackwardData", .amp = Amp::promote, .fuse = Fuse::contraction};
  static constexpr auto fields =
      field_list(MGE_CONV_2D_FIELDS(GroupLocalBackwardData),
                 field("output_size", &GroupLocalBackwardData::output_size));
};
Specs infer(const GroupLocalBackwardData& op, const Specs& in);
Values grad(const GroupLocalBackwardData& op, const GradArgs& g);
Keep keep(const GroupLocalBackwardData& op, std::uint32_t needs);
void kernel(const GroupLocalBackwardData& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(GroupLocalBackwardData);

// (x, dy) -> the gradient of a weight of `weight_shape`.
struct GroupLocalBackwardFilter {
  MGE_CONV_2D_MEMBERS
  Dims weight_shape;
  static constexpr OpTraits traits{
      .name = "GroupLocalBackwardFilter", .amp = Amp::promote, .fuse = Fuse::contraction};
  static constexpr auto fields =
      field_list(MGE_CONV_2D_FIELDS(GroupLocalBackwardFilter),
                 field("weight_shape", &GroupLocalBackwardFilter::weight_shape));
};
Specs infer(const GroupLocalBackwardFilter& op, const Specs& in);
Values grad(const GroupLocalBackwardFilter& op, const GradArgs& g);
Keep keep(const GroupLocalBackwardFilter& op, std::uint32_t needs);
void kernel(const GroupLocalBackwardFilter& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(GroupLocalBackwardFilter);

}  // namespace mge
