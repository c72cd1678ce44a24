// Random numbers. Every op takes its counters from the generator `handle` when it runs, so that a
// recorded op draws anew each time. None but Dropout and ShuffleRNG has a gradient.
#pragma once

#include "core/op/op.h"
#include "core/ops/random/state.h"

namespace mge {

#define MGE_RANDOM_SOURCE(T)                                                         \
  field("shape", &T::shape), field("dtype", &T::dtype), field("device", &T::device), \
      field("handle", &T::handle)

// () -> numbers in [low, high)
struct UniformRNG {
  Dims shape{};
  DType dtype = DType::float32;
  Device device{};
  std::int64_t handle = kGlobalGenerator;
  double low = 0, high = 1;
  static constexpr OpTraits traits{.name = "UniformRNG", .differentiable = false, .random = true};
  static constexpr auto fields =
      field_list(MGE_RANDOM_SOURCE(UniformRNG), field("low", &UniformRNG::low),
                 field("high", &UniformRNG::high));
};
Specs infer(const UniformRNG& op, const Specs& in);
void kernel(const UniformRNG& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(UniformRNG);

// () -> normally distributed numbers
struct GaussianRNG {
  Dims shape{};
  DType dtype = DType::float32;
  Device device{};
  std::int64_t handle = kGlobalGenerator;
  double mean = 0, std = 1;
  static constexpr OpTraits traits{.name = "GaussianRNG", .differentiable = false, .random = true};
  static constexpr auto fields =
      field_list(MGE_RANDOM_SOURCE(GaussianRNG), field("mean", &GaussianRNG::mean),
                 field("std", &GaussianRNG::std));
};
Specs infer(const GaussianRNG& op, const Specs& in);
void kernel(const GaussianRNG& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(GaussianRNG);

#undef MGE_RANDOM_SOURCE

// () -> 0, ..., n - 1 in a random order, in any number dtype that holds them
struct PermutationRNG {
  std::int64_t n = 0;
  DType dtype = DType::int32;
  Device device{};
  std::int64_t handle = kGlobalGenerator;
  static constexpr OpTraits traits{
      .name = "PermutationRNG", .differentiable = false, .random = true};
  static constexpr auto fields = field_list(
      field("n", &PermutationRNG::n), field("dtype", &PermutationRNG::dtype),
      field("device", &PermutationRNG::device), field("handle", &PermutationRNG::handle));
};
Specs infer(const PermutationRNG& op, const Specs& in);
void kernel(const PermutationRNG& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(PermutationRNG);

// x -> (x with its rows along axis 0 in a random order, the int32 rows that they were)
struct ShuffleRNG {
  std::int64_t handle = kGlobalGenerator;
  static constexpr OpTraits traits{.name = "ShuffleRNG", .random = true};
  static constexpr auto fields = field_list(field("handle", &ShuffleRNG::handle));
};
Specs infer(const ShuffleRNG& op, const Specs& in);
Values grad(const ShuffleRNG& op, const GradArgs& g);
Keep keep(const ShuffleRNG& op, std::uint32_t needs);
void kernel(const ShuffleRNG& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(ShuffleRNG);

// Parameters that are not positive (and finite) raise ValueError.
// rate -> Poisson distributed numbers, in rate's shape and dtype
struct PoissonRNG {
  std::int64_t handle = kGlobalGenerator;
  static constexpr OpTraits traits{
      .name = "PoissonRNG", .amp = Amp::promote, .differentiable = false, .random = true};
  static constexpr auto fields = field_list(field("handle", &PoissonRNG::handle));
};
Specs infer(const PoissonRNG& op, const Specs& in);
void kernel(const PoissonRNG& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(PoissonRNG);

// (shape, scale), of one shape and dtype -> gamma distributed numbers
struct GammaRNG {
  std::int64_t handle = kGlobalGenerator;
  static constexpr OpTraits traits{
      .name = "GammaRNG", .amp = Amp::promote, .differentiable = false, .random = true};
  static constexpr auto fields = field_list(field("handle", &GammaRNG::handle));
};
Specs infer(const GammaRNG& op, const Specs& in);
void kernel(const GammaRNG& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(GammaRNG);

// (alpha, beta), of one shape and dtype -> beta distributed numbers
struct BetaRNG {
  std::int64_t handle = kGlobalGenerator;
  static constexpr OpTraits traits{
      .name = "BetaRNG", .amp = Amp::promote, .differentiable = false, .random = true};
  static constexpr auto fields = field_list(field("handle", &BetaRNG::handle));
};
Specs infer(const BetaRNG& op, const Specs& in);
void kernel(const BetaRNG& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(BetaRNG);

// x -> (y, bool mask): each element is dropped with probability drop_prob, and what stays is
// divided by 1 - drop_prob.
struct Dropout {
  double drop_prob = 0;
  std::int64_t handle = kGlobalGenerator;
  static constexpr OpTraits traits{.name = "Dropout", .random = true};
  static constexpr auto fields =
      field_list(field("drop_prob", &Dropout::drop_prob), field("handle", &Dropout::handle));
};
Specs infer(const Dropout& op, const Specs& in);
Values grad(const Dropout& op, const GradArgs& g);
Keep keep(const Dropout& op, std::uint32_t needs);
void kernel(const Dropout& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(Dropout);

// (x, mask) -> mask ? x / (1 - drop_prob) : 0: what Dropout computes once its mask is drawn
struct DropoutMask {
  double drop_prob = 0;
  static constexpr OpTraits traits{.name = "DropoutMask"};
  static constexpr auto fields = field_list(field("drop_prob", &DropoutMask::drop_prob));
};
Specs infer(const DropoutMask& op, const Specs& in);
Values grad(const DropoutMask& op, const GradArgs& g);
Keep keep(const DropoutMask& op, std::uint32_t needs);
void kernel(const DropoutMask& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(DropoutMask);

}  // namespace mge
