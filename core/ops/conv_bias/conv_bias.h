// Convolutions with what follows them: a bias, a residual and an activation.
#pragma once

#include "core/ops/convolution/convolution.h"

namespace mge {

enum class NonlineMode : std::uint8_t { IDENTITY, RELU, SIGMOID, H_SWISH };
template <>
struct EnumNames<NonlineMode> {
  static constexpr auto names =
      std::to_array<const char*>({"IDENTITY", "RELU", "SIGMOID", "H_SWISH"});
};

// (x, weight[, bias[, z]]) -> activation(convolution(x, weight) + bias + z). The bias holds a
// number for each channel, or is an image that is broadcast to the result; z has the shape of the
// result. `dtype` may only name the dtype that the convolution has.
struct ConvBias {
  MGE_CONV_2D_MEMBERS
  NonlineMode nonlineMode = NonlineMode::IDENTITY;
  std::optional<DType> dtype{};
  static constexpr OpTraits traits{.name = "ConvBias", .amp = Amp::low, .fuse = Fuse::contraction};
  static constexpr auto fields =
      field_list(MGE_CONV_2D_FIELDS(ConvBias), field("nonlineMode", &ConvBias::nonlineMode),
                 field("dtype", &ConvBias::dtype));
};
Specs infer(const ConvBias& op, const Specs& in);
Values execute(const ConvBias& op, Values& in);
Values decompose(const ConvBias& op, const Values& in);
DECLARE_OP(ConvBias);

// The same with weights of each sample's own: (N, out, in, kh, kw), in groups (N, groups,
// out / groups, in / groups, kh, kw).
struct BatchConvBias {
  MGE_CONV_2D_MEMBERS
  NonlineMode nonlineMode = NonlineMode::IDENTITY;
  std::optional<DType> dtype{};
  static constexpr OpTraits traits{
      .name = "BatchConvBias", .amp = Amp::low, .fuse = Fuse::contraction};
  static constexpr auto fields = field_list(MGE_CONV_2D_FIELDS(BatchConvBias),
                                            field("nonlineMode", &BatchConvBias::nonlineMode),
                                            field("dtype", &BatchConvBias::dtype));
};
Specs infer(const BatchConvBias& op, const Specs& in);
Values decompose(const BatchConvBias& op, const Values& in);
DECLARE_OP(BatchConvBias);

}  // namespace mge
