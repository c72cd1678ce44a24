#include "core/ops/layer_norm/layer_norm.h"

#include "core/ops/layer_norm/row_norm.h"

namespace mge {
namespace {

RowNorm rows_of(const char* name, const Shape& x, std::int64_t dims, double eps, bool affine) {
  if (dims < 1 || dims > x.size()) {
    fail_value(name, "expected to normalise between 1 and ", x.size(), " axes of shape ", x,
               ", got ", dims);
  }
  RowNorm n{name, {1, 1, 1, 1}, {}, eps, affine};
  for (int i = 0; i < x.size(); ++i) {
    if (i < x.size() - dims) {
      n.at.images *= x[i];
      n.rows.push_back(x[i]);
    } else {
      n.at.cols *= x[i];
    }
  }
  if (!affine) n.at.run = n.at.cols;
  return n;
}

}  // namespace

RowNorm plan(const LayerNorm& op, const char* name, const Shape& x) {
  return rows_of(name, x, op.normalized_dim, op.eps, op.affine);
}
RowNorm plan(const LayerNormBackward& op, const char* name, const Shape& x) {
  return rows_of(name, x, op.normalized_dim, op.eps, op.affine);
}

Specs infer(const LayerNorm& op, const Specs& in) {
  check_row_norm_input("LayerNorm", in, 0, 1, op.affine);
  return infer_forward(plan(op, "LayerNorm", in[0].shape), in);
}

Values decompose(const LayerNorm& op, const Values& in) {
  return decompose_forward(plan(op, "LayerNorm", in[0].shape()), in);
}

Keep keep(const LayerNorm& op, std::uint32_t) { return {op.affine ? 0b11u : 0b1u, 0b110}; }

// mean and rstd carry no gradient of their own.
Values grad(const LayerNorm& op, const GradArgs& g) {
  if (!g.dy[0]) return Values(g.in_specs.size());
  const RowNorm n = plan(op, "LayerNorm", g.in_specs[0].shape);
  return forward_grads(
      n, g,
      call_all(LayerNormBackward{op.affine, op.eps, op.normalized_dim}, backward_inputs(n, g)));
}

REGISTER_OP(LayerNorm);

Specs infer(const LayerNormBackward& op, const Specs& in) {
  check_row_norm_input("LayerNormBackward", in, 1, 4, op.affine);
  return infer_backward(plan(op, "LayerNormBackward", in[1].shape), in);
}

Values decompose(const LayerNormBackward& op, const Values& in) {
  return decompose_backward(plan(op, "LayerNormBackward", in[1].shape()), in);
}

REGISTER_OP(LayerNormBackward);

}  // namespace mge
