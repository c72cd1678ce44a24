// Instance norm: each channel of each image on its own. Group norm with a group for each channel.
#pragma once

#include <array>

#include "core/op/op.h"

namespace mge {

enum class InstanceNormFormat : std::uint8_t { nchw };
template <>
struct EnumNames<InstanceNormFormat> {
  static constexpr std::array<const char*, 1> names{"NCHW"};
};

// (x) or, where affine, (x, weight, bias) with one value for each channel
// -> (y, mean, rstd) of (N, C, ...); mean and rstd are (N, C).
struct InstanceNorm {
  bool affine = true;
  double eps = 1e-5;
  std::int64_t group = 1;  // there for its name: every channel is a group
  InstanceNormFormat format = InstanceNormFormat::nchw;
  static constexpr OpTraits traits{
      .name = "InstanceNorm", .amp = Amp::high, .fuse = Fuse::reduction};
  static constexpr auto fields =
      field_list(field("affine", &InstanceNorm::affine), field("eps", &InstanceNorm::eps),
                 field("group", &InstanceNorm::group), field("format", &InstanceNorm::format));
};
Specs infer(const InstanceNorm& op, const Specs& in);
Values decompose(const InstanceNorm& op, const Values& in);
DECLARE_OP(InstanceNorm);

}  // namespace mge
