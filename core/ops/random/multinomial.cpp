#include "core/ops/random/multinomial.h"

#include <limits>

namespace mge {

Specs infer(const MultinomialRNG& op, const Specs& in) {
  const char* name = "MultinomialRNG";
  if (in.size() != 1) fail_type(name, "expected 1 input, got ", in.size());
  const Spec& w = in[0];
  if (!is_float(w.dtype)) fail_type(name, "expected weights of a float dtype, got ", w.dtype);
  if (w.ndim() != 1 && w.ndim() != 2) {
    fail_value(name, "expected weights of shape (n,) or (m, n), got ", w.shape);
  }
  if (op.num_samples < 0) fail_value(name, "expected num_samples >= 0, got ", op.num_samples);
  const std::int64_t n = w.shape.back();
  if (n > std::numeric_limits<std::int32_t>::max()) {
    fail_value(name, "positions among ", n, " weights do not fit int32");
  }
  if (!op.replacement && op.num_samples > n) {
    fail_value(name, "cannot draw ", op.num_samples, " of ", n, " without replacement");
  }
  Shape shape = w.shape;
  shape[shape.size() - 1] = op.num_samples;
  count(shape);  // raises where it overflows
  Spec out(DType::int32, shape);
  out.device = w.device;
  return {out};
}
REGISTER_OP(MultinomialRNG);

}  // namespace mge
