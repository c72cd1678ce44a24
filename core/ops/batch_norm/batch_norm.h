// Batch norm over all axes but axis 1 of (N, C, ...).
#pragma once

#include <array>

#include "core/op/op.h"

namespace mge {

enum class BatchNormMode : std::uint8_t { TRAINING, INFERENCE };
template <>
struct EnumNames<BatchNormMode> {
  static constexpr auto names = std::to_array<const char*>({"TRAINING", "INFERENCE"});
};

// y = (x - mean) / sqrt(var + epsilon) * scale + bias.
//
// INFERENCE: (x, scale, bias, running_mean, running_var) -> (y,)
// TRAINING:  (x, scale, bias) -> (y, mean, rstd), or with running_mean and running_var after them
//            -> (y, mean, rstd, new running_mean, new running_var), where
//            new = (1 - avg_factor) * running + avg_factor * batch, the variance of the batch being
//            the unbiased one. mean and rstd = 1 / sqrt(var + epsilon) are (C,), in float32
//            (float64 for float64).
// Parameters and running statistics hold C values in any float dtype and shape.
struct BatchNorm {
  BatchNormMode fwd_mode = BatchNormMode::TRAINING;
  double epsilon = 1e-5;
  double avg_factor = 0.1;
  // Autocast lowers x alone: parameters and statistics keep their digits.
  static constexpr OpTraits traits{
      .name = "BatchNorm", .amp = Amp::low, .amp_inputs = 1, .fuse = Fuse::reduction};
  static constexpr auto fields =
      field_list(field("fwd_mode", &BatchNorm::fwd_mode), field("epsilon", &BatchNorm::epsilon),
                 field("avg_factor", &BatchNorm::avg_factor));
};
Specs infer(const BatchNorm& op, const Specs& in);
Values decompose(const BatchNorm& op, const Values& in);
Values grad(const BatchNorm& op, const GradArgs& g);
Keep keep(const BatchNorm& op, std::uint32_t needs);
void kernel(const BatchNorm& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(BatchNorm);

// (dy, x, scale, mean, rstd or, in INFERENCE, the variance) -> (dx, dscale, dbias); the last two
// have the shape and dtype of scale. In TRAINING, mean and rstd are those of x.
struct BatchNormBackward {
  BatchNormMode fwd_mode = BatchNormMode::TRAINING;
  double epsilon = 1e-5;
  static constexpr OpTraits traits{.name = "BatchNormBackward", .fuse = Fuse::reduction};
  static constexpr auto fields = field_list(field("fwd_mode", &BatchNormBackward::fwd_mode),
                                            field("epsilon", &BatchNormBackward::epsilon));
};
Specs infer(const BatchNormBackward& op, const Specs& in);
Values decompose(const BatchNormBackward& op, const Values& in);
void kernel(const BatchNormBackward& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(BatchNormBackward);

// Channels-last where x is (and is not row-major as well), else row-major.
Strides image_strides(const Spec& x);

}  // namespace mge
