// Group norm: over each of `group` equal groups of channels of (N, C, ...), and all that follows.
// With as many groups as channels it is instance norm.
#pragma once

#include "core/op/op.h"

namespace mge {

struct RowNorm;

// (x) or, where affine, (x, weight, bias) with one value for each channel
// -> (y, mean, rstd), y = (x - mean) * rstd * weight + bias; mean and rstd are (N, group).
struct GroupNorm {
  bool affine = true;
  double eps = 1e-5;
  std::int64_t group = 1;
  static constexpr OpTraits traits{.name = "GroupNorm", .amp = Amp::high, .fuse = Fuse::reduction};
  static constexpr auto fields =
      field_list(field("affine", &GroupNorm::affine), field("eps", &GroupNorm::eps),
                 field("group", &GroupNorm::group));
};
Specs infer(const GroupNorm& op, const Specs& in);
Values decompose(const GroupNorm& op, const Values& in);
Values grad(const GroupNorm& op, const GradArgs& g);
Keep keep(const GroupNorm& op, std::uint32_t needs);
void kernel(const GroupNorm& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(GroupNorm);

// (dy, x, mean, rstd) -> (dx,), or with weight at the end -> (dx, dweight, dbias).
struct GroupNormBackward {
  bool affine = true;
  double eps = 1e-5;
  std::int64_t group = 1;
  static constexpr OpTraits traits{
      .name = "GroupNormBackward", .amp = Amp::high, .fuse = Fuse::reduction};
  static constexpr auto fields =
      field_list(field("affine", &GroupNormBackward::affine), field("eps", &GroupNormBackward::eps),
                 field("group", &GroupNormBackward::group));
};
Specs infer(const GroupNormBackward& op, const Specs& in);
Values decompose(const GroupNormBackward& op, const Values& in);
void kernel(const GroupNormBackward& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(GroupNormBackward);

// The rows of x; raises where the groups do not divide the channels.
RowNorm plan(const GroupNorm& op, const char* name, const Shape& x);
RowNorm plan(const GroupNormBackward& op, const char* name, const Shape& x);

}  // namespace mge
