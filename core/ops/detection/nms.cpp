#include "core/ops/detection/nms.h"

#include <cmath>
#include <limits>

namespace mge {

Specs infer(const NMSKeep& op, const Specs& in) {
  if (in.size() != 1) fail_type("NMSKeep", "expected 1 input, got ", in.size());
  const Spec& boxes = in[0];
  if (boxes.ndim() != 3 || boxes.shape[2] != 4) {
    fail_value("NMSKeep", "expected boxes of (B, N, 4), got shape ", boxes.shape);
  }
  if (!is_float(boxes.dtype)) {
    fail_type("NMSKeep", "expected boxes of a float dtype, got ", boxes.dtype);
  }
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (boxes.shape[1] > most) {
    fail_value("NMSKeep", "expected less than 2^31 boxes, got ", boxes.shape[1]);
  }
  if (op.max_output < 0 || op.max_output > most) {
    fail_value("NMSKeep", "expected max_output of 0 to 2^31 - 1, got ", op.max_output);
  }
  if (std::isnan(op.iou_thresh)) fail_value("NMSKeep", "expected a threshold, got NaN");
  const Shape kept{boxes.shape[0], op.max_output};
  count(kept);
  return {Spec(DType::int32, kept), Spec(DType::int32, {boxes.shape[0]})};
}

REGISTER_OP(NMSKeep);

}  // namespace mge
