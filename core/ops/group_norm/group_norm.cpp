#include "core/ops/group_norm/group_norm.h"

#include "core/ops/layer_norm/row_norm.h"

namespace mge {
namespace {

RowNorm rows_of(const char* name, const Shape& x, std::int64_t groups, double eps, bool affine) {
  if (x.size() < 2) fail_value(name, "expected an input (N, C, ...), got shape ", x);
  if (groups < 1 || x[1] % groups != 0) {
    fail_value(name, "expected groups that divide ", x[1], " channels, got ", groups);
  }
  std::int64_t plane = 1;
  for (int i = 2; i < x.size(); ++i) plane *= x[i];
  const std::int64_t cols = x[1] / groups * plane;
  const cpu::RowLayout at = affine ? cpu::RowLayout{x[0], groups, cols, plane}
                                   : cpu::RowLayout{x[0] * groups, 1, cols, cols};
  return {name, at, {x[0], groups}, eps, affine};
}

}  // namespace

RowNorm plan(const GroupNorm& op, const char* name, const Shape& x) {
  return rows_of(name, x, op.group, op.eps, op.affine);
}
RowNorm plan(const GroupNormBackward& op, const char* name, const Shape& x) {
  return rows_of(name, x, op.group, op.eps, op.affine);
}

Specs infer(const GroupNorm& op, const Specs& in) {
  check_row_norm_input("GroupNorm", in, 0, 1, op.affine);
  return infer_forward(plan(op, "GroupNorm", in[0].shape), in);
}

Values decompose(const GroupNorm& op, const Values& in) {
  return decompose_forward(plan(op, "GroupNorm", in[0].shape()), in);
}

Keep keep(const GroupNorm& op, std::uint32_t) { return {op.affine ? 0b11u : 0b1u, 0b110}; }

// mean and rstd carry no gradient of their own.
Values grad(const GroupNorm& op, const GradArgs& g) {
  if (!g.dy[0]) return Values(g.in_specs.size());
  const RowNorm n = plan(op, "GroupNorm", g.in_specs[0].shape);
  return forward_grads(
      n, g, call_all(GroupNormBackward{op.affine, op.eps, op.group}, backward_inputs(n, g)));
}

REGISTER_OP(GroupNorm);

Specs infer(const GroupNormBackward& op, const Specs& in) {
  check_row_norm_input("GroupNormBackward", in, 1, 4, op.affine);
  return infer_backward(plan(op, "GroupNormBackward", in[1].shape), in);
}

Values decompose(const GroupNormBackward& op, const Values& in) {
  return decompose_backward(plan(op, "GroupNormBackward", in[1].shape()), in);
}

REGISTER_OP(GroupNormBackward);

}  // namespace mge
