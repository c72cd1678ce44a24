#include "core/ops/linalg/linalg.h"

#include <limits>

#include "core/ops/elementwise/elementwise.h"
#include "core/ops/indexing/indexing.h"
#include "core/ops/matmul/matmul.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

const Spec& check_matrices(const char* op, const Specs& in) {
  if (in.size() != 1) fail_type(op, "expected 1 input, got ", in.size());
  const Spec& x = in[0];
  if (!is_float(x.dtype)) fail_type(op, "expected a float dtype, got ", x.dtype);
  if (x.ndim() < 2) {
    fail_value(op, "expected matrices in the last two axes, got shape ", x.shape);
  }
  return x;
}

Value mt(const Value& x) { return swapaxes(x, -1, -2); }

}  // namespace

// ---- MatrixInverse
// --------------------------------------------------------------------------------

Specs infer(const MatrixInverse&, const Specs& in) {
  const Spec& x = check_matrices("MatrixInverse", in);
  if (x.shape[x.ndim() - 2] != x.shape.back()) {
    fail_value("MatrixInverse", "expected square matrices, got shape ", x.shape);
  }
  return {Spec(x.dtype, x.shape)};
}
Values grad(const MatrixInverse&, const GradArgs& g) {
  const Value& y = g.outputs[0];
  return {neg(matmul(matmul(y, g.dy[0], true, false), y, false, true))};
}
Keep keep(const MatrixInverse&, std::uint32_t) { return {.inputs = 0, .outputs = 1}; }
REGISTER_OP(MatrixInverse);

// ---- SVD
// -------------------------------------------------------------------------------------------

Specs infer(const SVD& op, const Specs& in) {
  const Spec& x = check_matrices("SVD", in);
  const int row = x.ndim() - 2, col = x.ndim() - 1;
  const std::int64_t m = x.shape[row], n = x.shape[col], k = std::min(m, n);
  Shape u = x.shape, s = x.shape, v = x.shape;
  s.erase(col);
  s[row] = k;
  if (!op.compute_uv) return {Spec(x.dtype, s)};
  u[col] = op.full_matrices ? m : k;
  v[row] = op.full_matrices ? n : k;
  count(u);  // raise where they overflow
  count(v);
  return {Spec(x.dtype, u), Spec(x.dtype, s), Spec(x.dtype, v)};
}

namespace {

// 1 / x where |x| is above `least`, else 0.
Value safe_reciprocal(const Value& x, const Value& least) {
  const Value fits = less(least, abs(x)), one = scalar_like(x, 1);
  return where(fits, div(one, where(fits, x, one)), scalar_like(x, 0));
}

// The parts of the decomposition that a gradient works with, and what reached them.
struct Parts {
  Value u, s, v;     // (m, k), (k,), (k, n)
  Value du, ds, dv;  // undefined where no gradient reached that output
};

// x (..., k) on the diagonal between a (..., m, k) and b (..., k, n).
Value around(const Value& a, const Value& x, const Value& b) {
  return matmul(mul(a, expand_dims(x, Dims{-2})), b);
}

// The gradient of x = u diag(s) v. The vectors of equal singular values can turn among themselves:
// there only the part of du and dv that does not ask for such a turn has a meaning, and the rest is
// taken as 0. Likewise for what a singular value of 0 leaves open.
Value svd_gradient(const Parts& p) {
  const DType dtype = p.s.dtype();
  const double eps = dtype == DType::float64 ? std::numeric_limits<double>::epsilon()
                                             : std::numeric_limits<float>::epsilon();
  const std::int64_t m = p.u.shape()[p.u.ndim() - 2], n = p.v.shape().back(),
                     k = p.s.shape().back();
  Value total;
  const auto put = [&](const Value& v) { total = total ? add(total, v) : v; };
  if (p.ds) put(around(p.u, p.ds, p.v));
  if ((!p.du && !p.dv) || k == 0) return total;

  const Value largest = reduce_max(p.s, Dims{-1}, true);
  const Value row = expand_dims(p.s, Dims{-2}), col = expand_dims(p.s, Dims{-1});
  const Value least = mul(largest, eps * static_cast<double>(std::max<std::int64_t>(8, k)));
  // With a and b the turns that du and dv ask for, (a s_j + b s_i) / (s_j^2 - s_i^2) is half of
  // (a + b) / (s_j - s_i) + (a - b) / (s_j + s_i): only the first is in doubt where s_i = s_j.
  const Value of_sum = safe_reciprocal(sub(row, col), expand_dims(least, Dims{-1}));
  const Value of_difference = safe_reciprocal(add(row, col), expand_dims(least, Dims{-1}));
  const auto turn = [](const Value& g) { return mul(sub(g, mt(g)), 0.5); };
  Value inner;
  if (p.du) inner = mul(turn(matmul(p.u, p.du, true, false)), add(of_sum, of_difference));
  if (p.dv) {
    const Value of_v = mul(turn(matmul(p.v, p.dv, false, true)), sub(of_sum, of_difference));
    inner = inner ? add(inner, of_v) : of_v;
  }
  const Value inverse_s =
      safe_reciprocal(p.s, mul(largest, eps * static_cast<double>(std::max(m, n))));
  put(matmul(matmul(p.u, inner), p.v));
  if (p.du && m > k) {
    const Value outside = sub(p.du, matmul(p.u, matmul(p.u, p.du, true, false)));
    put(around(outside, inverse_s, p.v));
  }
  if (p.dv && n > k) {
    const Value outside = sub(p.dv, matmul(matmul(p.dv, p.v, false, true), p.v));
    put(around(p.u, inverse_s, outside));
  }
  return total;
}

Value working(const Value& v) { return v && is_low_float(v.dtype()) ? cast(v, DType::float32) : v; }

}  // namespace

Values grad(const SVD& op, const GradArgs& g) {
  const DType dtype = g.in_specs[0].dtype;
  Parts p;
  if (!op.compute_uv) {
    const Values all = call_all(SVD{}, Values{working(g.inputs[0])});
    p = {all[0], all[1], all[2], {}, working(g.dy[0]), {}};
  } else {
    p = {working(g.outputs[0]), working(g.outputs[1]), working(g.outputs[2]),
         working(g.dy[0]),      working(g.dy[1]),      working(g.dy[2])};
    const std::int64_t k = p.s.shape().back();
    if (p.u.shape().back() != k || p.v.shape()[p.v.ndim() - 2] != k) {
      if (p.du || p.dv) {
        fail_value("SVD", "the gradient of U and V needs full_matrices=False: the columns beyond ",
                   k, " are any that complete a basis");
      }
      p.u = slice(p.u, -1, 0, k);
      p.v = slice(p.v, -2, 0, k);
    }
  }
  return {cast(svd_gradient(p), dtype)};
}
Keep keep(const SVD& op, std::uint32_t) {
  return {.inputs = op.compute_uv ? 0u : 1u, .outputs = op.compute_uv ? kAll : 0u};
}
REGISTER_OP(SVD);

// ---- CrossProduct
// ---------------------------------------------------------------------------------

Specs infer(const CrossProduct&, const Specs& in) {
  const char* op = "CrossProduct";
  if (in.size() != 2) fail_type(op, "expected 2 inputs, got ", in.size());
  if (in[0].dtype != in[1].dtype || is_bool(in[0].dtype)) {
    fail_type(op, "expected numbers of one dtype, got ", in[0].dtype, " and ", in[1].dtype);
  }
  for (const Spec& s : in) {
    if (s.ndim() == 0 || s.shape.back() != 3) {
      fail_value(op, "expected vectors of 3 numbers along the last axis, got shape ", s.shape);
    }
  }
  const Shape shape = broadcast(op, in[0].shape, in[1].shape);
  count(shape);  // raises where it overflows
  return {Spec(in[0].dtype, shape)};
}
Values grad(const CrossProduct&, const GradArgs& g) {
  Values out(2);
  if (g.need(0)) {
    out[0] = sum_to(call(CrossProduct{}, g.inputs[1], g.dy[0]), g.in_specs[0].shape);
  }
  if (g.need(1)) {
    out[1] = sum_to(call(CrossProduct{}, g.dy[0], g.inputs[0]), g.in_specs[1].shape);
  }
  return out;
}
Keep keep(const CrossProduct&, std::uint32_t needs) {
  return {(needs & 1u ? 2u : 0u) | (needs & 2u ? 1u : 0u), 0};
}
REGISTER_OP(CrossProduct);

}  // namespace mge
