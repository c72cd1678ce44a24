// What a gradient scaler does to gradients: multiplies them, and tells whether all came out finite.
#pragma once

#include "core/op/op.h"

namespace mge {

// (x, ...) -> (x * scale, ..., flag): the flag is a 0-d int32, 1 where any result is infinite or
// NaN.
struct CheckNonFinite {
  double scale = 1;
  static constexpr OpTraits traits{.name = "CheckNonFinite", .differentiable = false};
  static constexpr auto fields = field_list(field("scale", &CheckNonFinite::scale));
};
Specs infer(const CheckNonFinite& op, const Specs& in);
Values decompose(const CheckNonFinite& op, const Values& in);
// Writes over inputs that nobody else holds.
Values execute(const CheckNonFinite& op, Values& in);
DECLARE_OP(CheckNonFinite);

}  // namespace mge
