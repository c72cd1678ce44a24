#include "core/ops/argreduce/argreduce.h"

#include <limits>

#include "core/ops/reduce/reduce.h"

namespace mge {
namespace {

template <class Op>
Specs infer_positions(const Op& op, const Specs& in) {
  const char* name = Op::traits.name;
  if (in.size() != 1) fail_type(name, "expected 1 input, got ", in.size());
  const Dims axes = reduced_axes(name, op.axis, in[0].ndim());
  const Spec out = reduced_spec(in[0], axes, op.keepdim, DType::int32);
  check_not_empty(name, in[0], out);
  std::int64_t n = 1;
  for (std::int64_t axis : axes) n *= in[0].shape[static_cast<int>(axis)];
  if (out.size() > 0 && n > std::numeric_limits<std::int32_t>::max()) {
    fail_value(name, "positions among ", n, " elements do not fit int32");
  }
  return {out};
}

}  // namespace

Specs infer(const Argmax& op, const Specs& in) { return infer_positions(op, in); }
REGISTER_OP(Argmax);

Specs infer(const Argmin& op, const Specs& in) { return infer_positions(op, in); }
REGISTER_OP(Argmin);

}  // namespace mge
