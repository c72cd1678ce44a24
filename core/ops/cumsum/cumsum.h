// Running sums along an axis.
#pragma once

#include "core/op/op.h"

namespace mge {

// y[i] = x[0] + ... + x[i]; `exclusive` leaves x[i] out, `reverse` starts at the end. Keeps the
// dtype; floats accumulate in float64, integers wrap.
struct Cumsum {
  std::int64_t axis = 0;
  bool exclusive = false;
  bool reverse = false;
  static constexpr OpTraits traits{.name = "Cumsum"};
  static constexpr auto fields =
      field_list(field("axis", &Cumsum::axis), field("exclusive", &Cumsum::exclusive),
                 field("reverse", &Cumsum::reverse));
};
Specs infer(const Cumsum& op, const Specs& in);
Values grad(const Cumsum& op, const GradArgs& g);
Keep keep(const Cumsum& op, std::uint32_t needs);
void kernel(const Cumsum& op, CpuContext& context, Views in, MutViews out);
Values decompose_complex(const Cumsum& op, const Values& in);
DECLARE_OP(Cumsum);

}  // namespace mge
