#include "core/ops/lrn/lrn.h"

#include "core/ops/batch_norm/batch_norm.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/pooling/pooling.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

template <class T>
void check(const char* name, const T& op, const Specs& in, std::size_t inputs) {
  if (in.size() != inputs) fail_type(name, "expected ", inputs, " inputs, got ", in.size());
  if (op.n < 1 || op.n % 2 == 0 || op.n > std::int64_t{1} << 31) {
    fail_value(name, "expected an odd number of channels below 2^31, got ", op.n);
  }
  for (const Spec& s : in) {
    if (!is_float(s.dtype)) fail_type(name, "expected a float dtype, got ", s.dtype);
    if (s.ndim() != 4) fail_value(name, "expected (N, C, H, W), got shape ", s.shape);
    if (s.shape != in[0].shape) {
      fail_value(name, "expected operands of one shape, got ", in[0].shape, " and ", s.shape);
    }
    if (s.dtype != in[0].dtype) {
      fail_type(name, "expected operands of one dtype, got ", in[0].dtype, " and ", s.dtype);
    }
  }
}

// Sums over the channels around each one: an average pooling along them, undone.
Value around(const Value& x, std::int64_t n) {
  const Shape& s = x.shape();
  if (x.size() == 0) return x;
  // No window reaches further than all channels.
  const std::int64_t half = std::min(n / 2, s[1]), window = 2 * half + 1;
  Pooling pool{.mode = PoolMode::AVERAGE};
  pool.window_h = window, pool.window_w = 1;
  pool.stride_h = pool.stride_w = 1;
  pool.pad_h = half, pool.pad_w = 0;
  const Value planes = reshape(x, {s[0], 1, s[1], s[2] * s[3]});
  return mul(reshape(call(pool, planes), s), static_cast<double>(window));
}

// k + alpha * the sum of squares.
template <class T>
Value scale(const T& op, const Value& x) {
  return add(mul(around(mul(x, x), op.n), op.alpha), op.k);
}

// 16-bit floats are computed in float32 and rounded once.
template <class F>
Values in_wide(const Values& in, F&& f) {
  const DType dtype = in[0].dtype();
  if (!is_low_float(dtype)) return {f(in)};
  Values wide;
  for (const Value& v : in) wide.push_back(cast(v, DType::float32));
  return {cast(f(wide), dtype)};
}

}  // namespace

Specs infer(const LRN& op, const Specs& in) {
  check("LRN", op, in, 1);
  return {Spec(in[0].dtype, in[0].shape, image_strides(in[0]))};
}
Values decompose(const LRN& op, const Values& in) {
  return in_wide(in, [&](const Values& v) {
    const Value s = scale(op, v[0]);
    return div(v[0], pow(s, scalar_like(s, op.beta)));
  });
}
Keep keep(const LRN&, std::uint32_t) { return {1, 0}; }
Values grad(const LRN& op, const GradArgs& g) {
  return {call(LRNBackward{op.n, op.k, op.alpha, op.beta}, g.dy[0], g.inputs[0])};
}
REGISTER_OP(LRN);

Specs infer(const LRNBackward& op, const Specs& in) {
  check("LRNBackward", op, in, 2);
  return {Spec(in[1].dtype, in[1].shape, image_strides(in[1]))};
}
Values decompose(const LRNBackward& op, const Values& in) {
  return in_wide(in, [&](const Values& v) {
    const Value &dy = v[0], &x = v[1];
    const Value s = scale(op, x), p = pow(s, scalar_like(s, -op.beta));
    const Value through = mul(around(div(mul(mul(dy, x), p), s), op.n), -2 * op.alpha * op.beta);
    return add(mul(dy, p), mul(x, through));
  });
}
REGISTER_OP(LRNBackward);

}  // namespace mge
