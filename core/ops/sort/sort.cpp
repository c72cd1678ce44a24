#include "core/ops/sort/sort.h"

#include <limits>

#include "core/ops/indexing/indexing.h"
#include "core/tensor/fill.h"

namespace mge {

void check_sortable(const char* op, const Specs& in) {
  if (in.size() != 1) fail_type(op, "expected 1 input, got ", in.size());
  if (in[0].ndim() == 0) fail_value(op, "expected at least 1 dimension, got a scalar");
  if (in[0].shape.back() > std::numeric_limits<std::int32_t>::max()) {
    fail_value(op, "positions among ", in[0].shape.back(), " elements do not fit int32");
  }
}

Value picked_grad(const Spec& in, const Value& index, const Value& dy) {
  Spec spec(in.dtype, in.shape);
  spec.device = in.device;
  return scatter(full(spec, 0), -1, index, dy);
}

Specs infer(const Argsort&, const Specs& in) {
  check_sortable("Argsort", in);
  Spec values(in[0].dtype, in[0].shape), positions(DType::int32, in[0].shape);
  values.device = positions.device = in[0].device;
  return {values, positions};
}

Keep keep(const Argsort&, std::uint32_t) { return {0, 2}; }

Values grad(const Argsort&, const GradArgs& g) {
  return {picked_grad(g.in_specs[0], g.outputs[1], g.dy_or_zeros(0))};
}

REGISTER_OP(Argsort);

}  // namespace mge
