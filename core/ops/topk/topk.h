// The k largest or smallest elements along the last axis.
#pragma once

#include "core/op/op.h"

namespace mge {

// x -> (values, int32 positions), size k along the last axis, best first. Equal elements come in
// their order in x; NaN is larger than every number. With kth_only, only the k-th of them, and the
// axis goes.
struct TopK {
  std::int64_t k = 1;
  bool descending = true;
  bool kth_only = false;
  static constexpr OpTraits traits{.name = "TopK"};
  static constexpr auto fields =
      field_list(field("k", &TopK::k), field("descending", &TopK::descending),
                 field("kth_only", &TopK::kth_only));
};
Specs infer(const TopK& op, const Specs& in);
Values grad(const TopK& op, const GradArgs& g);
Keep keep(const TopK& op, std::uint32_t needs);
void kernel(const TopK& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(TopK);

}  // namespace mge
