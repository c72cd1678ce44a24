#include "core/ops/instance_norm/instance_norm.h"

#include <algorithm>

#include "core/ops/group_norm/group_norm.h"
#include "core/ops/layer_norm/row_norm.h"

namespace mge {
namespace {

GroupNorm by_channel(const InstanceNorm& op, const Shape& x) {
  if (x.size() < 2) fail_value("InstanceNorm", "expected an input (N, C, ...), got shape ", x);
  return {op.affine, op.eps, std::max<std::int64_t>(x[1], 1)};
}

}  // namespace

Specs infer(const InstanceNorm& op, const Specs& in) {
  check_row_norm_input("InstanceNorm", in, 0, 1, op.affine);
  return infer(by_channel(op, in[0].shape), in);
}

Values decompose(const InstanceNorm& op, const Values& in) {
  return call_all(by_channel(op, in[0].shape()), in);
}

REGISTER_OP(InstanceNorm);

}  // namespace mge
