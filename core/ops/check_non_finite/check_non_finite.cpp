#include "core/ops/check_non_finite/check_non_finite.h"

#include "core/ops/creation/creation.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/reduce/reduce.h"

namespace mge {

Specs infer(const CheckNonFinite&, const Specs& in) {
  if (in.empty()) fail_type("CheckNonFinite", "expected at least one input");
  Specs out;
  for (const Spec& x : in) {
    if (!is_float(x.dtype)) {
      fail_type("CheckNonFinite", "expected inputs of float dtypes, got ", x.dtype);
    }
    Spec y(x.dtype, x.shape, dense_like(x.shape, x.strides));
    y.device = x.device;
    out.push_back(y);
  }
  Spec flag(DType::int32, {});
  flag.device = in[0].device;
  out.push_back(flag);
  return out;
}

Values decompose(const CheckNonFinite& op, const Values& in) {
  Values out;
  Value flag;
  for (const Value& x : in) {
    // 16-bit floats are scaled in float32, where the factor has all its digits.
    const DType wide = is_low_float(x.dtype()) ? DType::float32 : x.dtype();
    const Value y = cast(mul(cast(x, wide), op.scale), x.dtype());
    // y - y is 0 where y is finite, NaN elsewhere.
    const Value bad = cast(elemwise(Elemwise::Mode::ISNAN, sub(y, y)), DType::int32);
    const Value any = sum(bad);
    flag = flag ? add(flag, any) : any;
    out.push_back(y);
  }
  out.push_back(minimum(flag, scalar_like(flag, 1)));
  return out;
}
REGISTER_OP(CheckNonFinite);

}  // namespace mge
