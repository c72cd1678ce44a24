#include "core/ops/general_norm/general_norm.h"

#include "core/ops/layer_norm/layer_norm.h"
#include "core/ops/layer_norm/row_norm.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

// The axes of x with the normalised ones last; raises where there are none, or not so many.
Dims normalized_last(const GeneralNorm& op, const Shape& x) {
  if (op.axis_start < 0 || op.axis_end > x.size() || op.axis_start >= op.axis_end) {
    fail_value("GeneralNorm", "expected axis_start < axis_end within the axes of shape ", x,
               ", got ", op.axis_start, " and ", op.axis_end);
  }
  Dims order;
  for (int i = 0; i < x.size(); ++i) {
    if (i < op.axis_start || i >= op.axis_end) order.push_back(i);
  }
  for (std::int64_t i = op.axis_start; i < op.axis_end; ++i) order.push_back(i);
  return order;
}

LayerNorm over_last(const GeneralNorm& op) {
  return {op.affine, op.eps, op.axis_end - op.axis_start};
}

}  // namespace

Specs infer(const GeneralNorm& op, const Specs& in) {
  check_row_norm_input("GeneralNorm", in, 0, 1, op.affine);
  Specs moved = in;
  Shape shape;
  for (std::int64_t axis : normalized_last(op, in[0].shape)) {
    shape.push_back(in[0].shape[static_cast<int>(axis)]);
  }
  moved[0] = Spec(in[0].dtype, shape);
  moved[0].device = in[0].device;
  Specs out = infer(over_last(op), moved);
  out[0] = Spec(in[0].dtype, in[0].shape);
  return out;
}

Values decompose(const GeneralNorm& op, const Values& in) {
  const Dims order = normalized_last(op, in[0].shape());
  Dims back = order;
  for (int i = 0; i < order.size(); ++i) back[static_cast<int>(order[i])] = i;
  Values moved = in;
  moved[0] = call(Dimshuffle{order}, in[0]);
  Values out = call_all(over_last(op), std::move(moved));
  out[0] = call(Dimshuffle{back}, out[0]);
  return out;
}

REGISTER_OP(GeneralNorm);

}  // namespace mge
