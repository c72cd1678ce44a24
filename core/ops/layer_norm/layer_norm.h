// Layer norm: over the last normalized_dim axes.
#pragma once

#include "core/op/op.h"

namespace mge {

struct RowNorm;

// (x) or, where affine, (x, weight, bias) with one value for each normalised element
// -> (y, mean, rstd), y = (x - mean) * rstd * weight + bias, rstd = 1 / sqrt(var + eps).
struct LayerNorm {
  bool affine = true;
  double eps = 1e-5;
  std::int64_t normalized_dim = 1;
  static constexpr OpTraits traits{.name = "LayerNorm", .amp = Amp::high, .fuse = Fuse::reduction};
  static constexpr auto fields =
      field_list(field("affine", &LayerNorm::affine), field("eps", &LayerNorm::eps),
                 field("normalized_dim", &LayerNorm::normalized_dim));
};
Specs infer(const LayerNorm& op, const Specs& in);
Values decompose(const LayerNorm& op, const Values& in);
Values grad(const LayerNorm& op, const GradArgs& g);
Keep keep(const LayerNorm& op, std::uint32_t needs);
void kernel(const LayerNorm& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(LayerNorm);

// (dy, x, mean, rstd) -> (dx,), or with weight at the end -> (dx, dweight, dbias).
struct LayerNormBackward {
  bool affine = true;
  double eps = 1e-5;
  std::int64_t normalized_dim = 1;
  static constexpr OpTraits traits{
      .name = "LayerNormBackward", .amp = Amp::high, .fuse = Fuse::reduction};
  static constexpr auto fields =
      field_list(field("affine", &LayerNormBackward::affine), field("eps", &LayerNormBackward::eps),
                 field("normalized_dim", &LayerNormBackward::normalized_dim));
};
Specs infer(const LayerNormBackward& op, const Specs& in);
Values decompose(const LayerNormBackward& op, const Values& in);
void kernel(const LayerNormBackward& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(LayerNormBackward);

// The rows of x; raises where normalized_dim does not fit.
RowNorm plan(const LayerNorm& op, const char* name, const Shape& x);
RowNorm plan(const LayerNormBackward& op, const char* name, const Shape& x);

}  // namespace mge
