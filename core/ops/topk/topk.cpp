#include "core/ops/topk/topk.h"

#include "core/ops/shape/shape.h"
#include "core/ops/sort/sort.h"

namespace mge {

Specs infer(const TopK& op, const Specs& in) {
  check_sortable("TopK", in);
  Shape shape = in[0].shape;
  if (op.k < 1 || op.k > shape.back()) {
    fail_value("TopK", "expected k between 1 and ", shape.back(),
               ", the size of the last axis, got ", op.k);
  }
  shape[shape.size() - 1] = op.k;
  if (op.kth_only) shape.resize(shape.size() - 1);
  Spec values(in[0].dtype, shape), positions(DType::int32, shape);
  values.device = positions.device = in[0].device;
  return {values, positions};
}

Keep keep(const TopK&, std::uint32_t) { return {0, 2}; }

Values grad(const TopK& op, const GradArgs& g) {
  Value index = g.outputs[1], dy = g.dy_or_zeros(0);
  if (op.kth_only) {
    const Dims last{g.in_specs[0].ndim() - 1};
    index = expand_dims(index, last);
    dy = expand_dims(dy, last);
  }
  return {picked_grad(g.in_specs[0], index, dy)};
}

REGISTER_OP(TopK);

}  // namespace mge
