// Layer norm over any run of axes.
#pragma once

#include "core/op/op.h"

namespace mge {

// (x) or, where affine, (x, weight, bias) of the sizes of the axes from axis_start up to, and
// without, axis_end -> (y, mean, rstd); these have the shape of x without those axes.
struct GeneralNorm {
  bool affine = true;
  double eps = 1e-5;
  std::int64_t axis_start = 0;
  std::int64_t axis_end = 0;
  static constexpr OpTraits traits{
      .name = "GeneralNorm", .amp = Amp::high, .fuse = Fuse::reduction};
  static constexpr auto fields = field_list(
      field("affine", &GeneralNorm::affine), field("eps", &GeneralNorm::eps),
      field("axis_start", &GeneralNorm::axis_start), field("axis_end", &GeneralNorm::axis_end));
};
Specs infer(const GeneralNorm& op, const Specs& in);
Values decompose(const GeneralNorm& op, const Values& in);
DECLARE_OP(GeneralNorm);

}  // namespace mge
