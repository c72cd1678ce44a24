// Reductions over a set of axes. Without `axis`, all axes are reduced; with an empty one, none.
#pragma once

#include <array>
#include <optional>

#include "core/kernels/cpu/reduce.h"
#include "core/op/op.h"

namespace mge {

// SUM, PRODUCT and SUM_SQR of bool and of integers below 32 bits are int32; MEAN is float32 for all
// dtypes but float64. MAX and MIN raise where there is nothing to reduce, and NaN wins.
struct Reduce {
  enum class Mode : std::uint8_t { SUM, SUM_SQR, PRODUCT, MIN, MAX, MEAN };
  Mode mode = Mode::SUM;
  std::optional<Dims> axis{};
  bool keepdim = true;
  static constexpr OpTraits traits{.name = "Reduce", .fuse = Fuse::reduction};
  static constexpr auto fields =
      field_list(field("mode", &Reduce::mode), field("axis", &Reduce::axis),
                 field("keepdim", &Reduce::keepdim));
};
template <>
struct EnumNames<Reduce::Mode> {
  static constexpr auto names =
      std::to_array<const char*>({"SUM", "SUM_SQR", "PRODUCT", "MIN", "MAX", "MEAN"});
};
Specs infer(const Reduce& op, const Specs& in);
Values grad(const Reduce& op, const GradArgs& g);
Keep keep(const Reduce& op, std::uint32_t needs);
void kernel(const Reduce& op, CpuContext& context, Views in, MutViews out);
Values decompose_complex(const Reduce& op, const Values& in);
DECLARE_OP(Reduce);

// The population variance in two passes, or with `root` its square root, the standard deviation
// (gradient 0 where it is 0). float32 for all dtypes but float64.
struct Variance {
  std::optional<Dims> axis{};
  bool keepdim = true;
  bool root = false;
  static constexpr OpTraits traits{.name = "Variance", .amp = Amp::high, .fuse = Fuse::reduction};
  static constexpr auto fields =
      field_list(field("axis", &Variance::axis), field("keepdim", &Variance::keepdim),
                 field("root", &Variance::root));
};
Specs infer(const Variance& op, const Specs& in);
Values decompose(const Variance& op, const Values& in);
Values grad(const Variance& op, const GradArgs& g);
Keep keep(const Variance& op, std::uint32_t needs);
void kernel(const Variance& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(Variance);

// sqrt(sum(x^2)), whose squares neither overflow nor vanish in float32; gradient 0 at 0.
struct Norm2 {
  std::optional<Dims> axis{};
  bool keepdim = true;
  static constexpr OpTraits traits{.name = "Norm2", .amp = Amp::high, .fuse = Fuse::reduction};
  static constexpr auto fields =
      field_list(field("axis", &Norm2::axis), field("keepdim", &Norm2::keepdim));
};
Specs infer(const Norm2& op, const Specs& in);
Values decompose(const Norm2& op, const Values& in);
Values grad(const Norm2& op, const GradArgs& g);
Keep keep(const Norm2& op, std::uint32_t needs);
void kernel(const Norm2& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(Norm2);

// ---- as functions
// --------------------------------------------------------------------------------

Value sum(const Value& x, const Dims& axes, bool keepdims);
Value mean(const Value& x, const Dims& axes, bool keepdims);
Value reduce_max(const Value& x, const Dims& axes, bool keepdims);
Value reduce_min(const Value& x, const Dims& axes, bool keepdims);
Value sum_squares(const Value& x, const Dims& axes, bool keepdims);
Value variance(const Value& x, const Dims& axes, bool keepdims);
// All axes, to a 0-d tensor.
Value sum(const Value& x);
Value mean(const Value& x);

// ---- shared by the reductions, argmax and argmin
// -------------------------------------------------

// The axes that are reduced, normalized and sorted.
Dims reduced_axes(const char* op, const std::optional<Dims>& axis, int ndim);
// The output of reducing `in`; its memory format is what is left of the input's.
Spec reduced_spec(const Spec& in, const Dims& axes, bool keepdim, DType dtype);
// A kernel's output with the reduced axes at length 1.
MutView with_reduced_axes(const MutView& out, const Dims& axes, bool keepdim, int ndim);
// A mean is a sum that is divided at its end.
cpu::ReduceMode kernel_mode(Reduce::Mode mode);
// Raises ValueError where `in` has nothing to reduce for an output that exists.
void check_not_empty(const char* op, const Spec& in, const Spec& out);

}  // namespace mge
