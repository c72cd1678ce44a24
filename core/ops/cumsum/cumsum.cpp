#include "core/ops/cumsum/cumsum.h"

#include "core/ops/complex/complex.h"

namespace mge {

Specs infer(const Cumsum& op, const Specs& in) {
  if (in.size() != 1) fail_type("Cumsum", "expected 1 input, got ", in.size());
  if (is_bool(in[0].dtype)) fail_type("Cumsum", "expected a number dtype, got bool");
  normalize_axis("Cumsum", op.axis, in[0].ndim());
  Spec out = in[0];
  if (!is_dense(out.shape, out.strides)) out.strides = row_major(out.shape);
  return {out};
}

Keep keep(const Cumsum&, std::uint32_t) { return {0, 0}; }

Values grad(const Cumsum& op, const GradArgs& g) {
  return {call(Cumsum{op.axis, op.exclusive, !op.reverse}, g.dy[0])};
}

Values decompose_complex(const Cumsum& op, const Values& in) { return by_parts(op, in); }

REGISTER_OP(Cumsum);

}  // namespace mge
