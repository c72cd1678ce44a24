// Positions of the largest and the smallest element along a set of axes.
#pragma once

#include <optional>

#include "core/op/op.h"

namespace mge {

// int32: the position of the first largest element, counted in row-major order of the reduced axes
// (all of them without `axis`); a NaN counts as larger than all numbers. Raises where there is
// nothing to reduce.
struct Argmax {
  std::optional<Dims> axis{};
  bool keepdim = true;
  static constexpr OpTraits traits{.name = "Argmax", .differentiable = false};
  static constexpr auto fields =
      field_list(field("axis", &Argmax::axis), field("keepdim", &Argmax::keepdim));
};
Specs infer(const Argmax& op, const Specs& in);
void kernel(const Argmax& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(Argmax);

// The same for the smallest; a NaN counts as smaller than all numbers.
struct Argmin {
  std::optional<Dims> axis{};
  bool keepdim = true;
  static constexpr OpTraits traits{.name = "Argmin", .differentiable = false};
  static constexpr auto fields =
      field_list(field("axis", &Argmin::axis), field("keepdim", &Argmin::keepdim));
};
Specs infer(const Argmin& op, const Specs& in);
void kernel(const Argmin& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(Argmin);

}  // namespace mge
