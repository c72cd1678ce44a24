// Non-maximum suppression.
#pragma once

#include "core/op/op.h"

namespace mge {

// boxes (B, N, 4) of x1, y1, x2, y2, best first in each group -> (kept (B, max_output), count
// (B,)), both int32. A box is kept unless its intersection over union with one that is kept already
// is above iou_thresh. After the last position that is kept, it is repeated to the end of its row.
struct NMSKeep {
  double iou_thresh = 0;
  std::int64_t max_output = 0;
  static constexpr OpTraits traits{.name = "NMSKeep", .differentiable = false};
  static constexpr auto fields = field_list(field("iou_thresh", &NMSKeep::iou_thresh),
                                            field("max_output", &NMSKeep::max_output));
};
Specs infer(const NMSKeep& op, const Specs& in);
void kernel(const NMSKeep& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(NMSKeep);

}  // namespace mge
