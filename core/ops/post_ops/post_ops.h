// Convolutions and fully connected layers with all that follows them in inference, as one kernel:
// passes (core/graph/passes/fuse_post_ops.cpp) make these of ops that carry the gradients.
#pragma once

#include "core/kernels/cpu/onednn.h"
#include "core/ops/convolution/convolution.h"
#include "core/ops/elementwise/elementwise.h"

namespace mge {

// Where a residual is added: to the argument of the activation, or to its result.
enum class Residual : std::uint8_t { NONE, BEFORE_ACTIVATION, AFTER_ACTIVATION };
template <>
struct EnumNames<Residual> {
  static constexpr auto names =
      std::to_array<const char*>({"NONE", "BEFORE_ACTIVATION", "AFTER_ACTIVATION"});
};

// `activation` is an elementwise mode; `alpha` and `beta` are the slope of PRELU and the bounds of
// CLIP; its result is multiplied with `scale`, and `shift` is added. `bias` says whether the third
// input is one; a residual is the last input.
#define MGE_POST_OP_MEMBERS                   \
  std::optional<Elemwise::Mode> activation{}; \
  double alpha = 0, beta = 0;                 \
  double scale = 1, shift = 0;                \
  bool bias = false;                          \
  Residual residual = Residual::NONE;
#define MGE_POST_OP_FIELDS(T)                                                              \
  field("activation", &T::activation), field("alpha", &T::alpha), field("beta", &T::beta), \
      field("scale", &T::scale), field("shift", &T::shift), field("bias", &T::bias),       \
      field("residual", &T::residual)

// (x, weight[, bias][, z]) -> activation(convolution(x, weight) + bias + z), or with
// AFTER_ACTIVATION activation(convolution(x, weight) + bias) + z. The bias is (C,) or
// (1, C, 1, 1), z has the shape and dtype of the result.
struct FusedConvolution {
  MGE_CONV_2D_MEMBERS
  MGE_POST_OP_MEMBERS
  static constexpr OpTraits traits{
      .name = "FusedConvolution", .fuse = Fuse::contraction, .differentiable = false};
  static constexpr auto fields =
      field_list(MGE_CONV_2D_FIELDS(FusedConvolution), MGE_POST_OP_FIELDS(FusedConvolution));
};
Specs infer(const FusedConvolution& op, const Specs& in);
Values execute(const FusedConvolution& op, Values& in);
Values decompose(const FusedConvolution& op, const Values& in);
DECLARE_OP(FusedConvolution);

// (x, weight[, bias][, z]), alike, for x @ weight.T.
struct FusedLinear {
  MGE_POST_OP_MEMBERS
  static constexpr OpTraits traits{
      .name = "FusedLinear", .fuse = Fuse::contraction, .differentiable = false};
  static constexpr auto fields = field_list(MGE_POST_OP_FIELDS(FusedLinear));
};
Specs infer(const FusedLinear& op, const Specs& in);
Values execute(const FusedLinear& op, Values& in);
Values decompose(const FusedLinear& op, const Values& in);
DECLARE_OP(FusedLinear);

}  // namespace mge
