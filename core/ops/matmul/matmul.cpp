#include "core/ops/matmul/matmul.h"

#include "core/ops/complex/complex.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

DType product_dtype(const char* op, const Specs& in) {
  for (const Spec& s : in) {
    if (s.dtype != in[0].dtype) {
      fail_type(op, "expected operands of one dtype, got ", in[0].dtype, " and ", s.dtype);
    }
  }
  if (is_bool(in[0].dtype)) fail_type(op, "expected numbers, got bool");
  const bool small = is_integer(in[0].dtype) && size_of(in[0].dtype) < 4;
  return small ? DType::int32 : in[0].dtype;
}

void check_count(const char* op, const Specs& in, std::size_t least, std::size_t most) {
  if (in.size() < least || in.size() > most) {
    fail_type(op, "expected ", least, least == most ? "" : " or more", " inputs, got ", in.size());
  }
}

Shape transposed(const char* op, Shape shape, bool flag) {
  if (!flag) return shape;
  if (shape.size() < 2) fail_value(op, "cannot transpose an operand of shape ", shape);
  std::swap(shape[shape.size() - 2], shape[shape.size() - 1]);
  return shape;
}

Shape without_matrix(const Shape& shape) {
  return Dims(std::span(shape.begin(), static_cast<std::size_t>(std::max(0, shape.size() - 2))));
}

std::int64_t count_rows(const Shape& shape) {
  return count(Dims(std::span(shape.begin(), shape.end() - 1)));
}

template <class T>
Specs infer_product(const char* name, const T& op, const Specs& in) {
  check_count(name, in, 2, 2);
  const DType dtype = product_dtype(name, in);
  if (in[0].ndim() == 0 || in[1].ndim() == 0) {
    fail_value(name, "expected operands of at least one dimension, got shapes ", in[0].shape,
               " and ", in[1].shape);
  }
  const Shape a = transposed(name, in[0].shape, op.transposeA);
  const Shape b = transposed(name, in[1].shape, op.transposeB);
  const std::int64_t a_depth = a.back(), b_depth = b[std::max(0, b.size() - 2)];
  if (a_depth != b_depth) {
    fail_value(name, "expected a's columns to be as many as b's rows, got shapes ", in[0].shape,
               op.transposeA ? " (transposed)" : "", " and ", in[1].shape,
               op.transposeB ? " (transposed)" : "");
  }
  Shape out = broadcast(name, without_matrix(a), without_matrix(b));
  if (a.size() > 1) out.push_back(a[a.size() - 2]);
  if (b.size() > 1) out.push_back(b.back());
  count(out);
  return {Spec(dtype, out)};
}

// All leading axes as one of n.
Value rows(const Value& v, std::int64_t n) { return reshape(v, Shape{n, v.shape().back()}); }

// The shape of an operand as a matrix.
Shape as_matrix(const Shape& shape, bool left) {
  if (shape.size() > 1) return shape;
  return left ? Shape{1, shape[0]} : Shape{shape[0], 1};
}

// A gradient for an operand of this shape: the sum over what was broadcast.
Value fold(const Value& v, const Shape& shape, bool left) {
  return reshape(sum_to(v, as_matrix(shape, left)), shape);
}

template <class T>
Values grad_product(const T& op, const GradArgs& g) {
  const Spec &a_spec = g.in_specs[0], &b_spec = g.in_specs[1];
  const bool a_vector = a_spec.ndim() == 1, b_vector = b_spec.ndim() == 1;
  Value dy = g.dy_or_zeros(0);
  // Vectors become matrices, and so does the gradient.
  if (b_vector) dy = expand_dims(dy, Dims{-1});
  if (a_vector) dy = expand_dims(dy, Dims{-2});
  Values out(2);
  if (g.need(0)) {
    const Value b = reshape(g.inputs[1], as_matrix(b_spec.shape, false));
    const Value da =
        op.transposeA ? matmul(b, dy, op.transposeB, true) : matmul(dy, b, false, !op.transposeB);
    out[0] = fold(da, a_spec.shape, true);
  }
  if (g.need(1)) {
    const Value a = reshape(g.inputs[0], as_matrix(a_spec.shape, true));
    // One matrix for all of a batch: one product, not a sum over products.
    const bool shared = b_spec.ndim() <= 2 && a_spec.ndim() > 2 && !op.transposeA;
    const std::int64_t n = count_rows(a_spec.shape);
    const Value left = shared ? rows(a, n) : a, up = shared ? rows(dy, n) : dy;
    const Value db = op.transposeB ? matmul(up, left, true, op.transposeA)
                                   : matmul(left, up, !op.transposeA, false);
    out[1] = fold(db, b_spec.shape, false);
  }
  return out;
}

// (a + ib)(c + id) as four real products.
template <class T>
Values product_of_parts(const char* name, const T& op, const Values& in) {
  if (in.size() != 2) fail_type(name, "expected 2 inputs, got ", in.size());
  const Value a = real(in[0]), b = imag(in[0]), c = real(in[1]), d = imag(in[1]);
  return {complex(sub(call(op, a, c), call(op, b, d)), add(call(op, a, d), call(op, b, c)))};
}

// Each operand is needed for the gradient of the other.
Keep keep_other(std::uint32_t needs) {
  return {(needs & 1u ? 2u : 0u) | (needs & 2u ? 1u : 0u), 0};
}

}  // namespace

Value matmul(const Value& a, const Value& b, bool transpose_a, bool transpose_b) {
  return call(MatrixMul{transpose_a, transpose_b}, a, b);
}

Specs infer(const MatrixMul& op, const Specs& in) { return infer_product("MatrixMul", op, in); }
Values grad(const MatrixMul& op, const GradArgs& g) { return grad_product(op, g); }
Keep keep(const MatrixMul&, std::uint32_t needs) { return keep_other(needs); }
Values decompose_complex(const MatrixMul& op, const Values& in) {
  return product_of_parts("MatrixMul", op, in);
}
REGISTER_OP(MatrixMul);

Specs infer(const BatchedMatrixMul& op, const Specs& in) {
  return infer_product("BatchedMatrixMul", op, in);
}
Values grad(const BatchedMatrixMul& op, const GradArgs& g) { return grad_product(op, g); }
Keep keep(const BatchedMatrixMul&, std::uint32_t needs) { return keep_other(needs); }
Values decompose_complex(const BatchedMatrixMul& op, const Values& in) {
  return product_of_parts("BatchedMatrixMul", op, in);
}
REGISTER_OP(BatchedMatrixMul);

Specs infer(const Dot&, const Specs& in) {
  check_count("Dot", in, 2, 2);
  const DType dtype = product_dtype("Dot", in);
  if (in[0].ndim() > 1 || in[1].ndim() > 1 || in[0].size() != in[1].size()) {
    fail_value("Dot", "expected two vectors of one length, got shapes ", in[0].shape, " and ",
               in[1].shape);
  }
  return {Spec(dtype, Shape{})};
}
Values grad(const Dot&, const GradArgs& g) {
  const Value dy = g.dy_or_zeros(0);
  Values out(2);
  for (std::size_t i = 0; i < 2; ++i) {
    if (g.need(i)) out[i] = reshape(mul(g.inputs[1 - i], dy), g.in_specs[i].shape);
  }
  return out;
}
Keep keep(const Dot&, std::uint32_t needs) { return keep_other(needs); }
Values decompose_complex(const Dot& op, const Values& in) {
  return product_of_parts("Dot", op, in);
}
REGISTER_OP(Dot);

Specs infer(const Linear&, const Specs& in) {
  check_count("Linear", in, 2, 3);
  const DType dtype = product_dtype("Linear", in);
  const Shape &x = in[0].shape, &w = in[1].shape;
  if (w.size() != 2) fail_value("Linear", "expected a weight of shape (out, in), got ", w);
  if (x.empty() || x.back() != w[1]) {
    fail_value("Linear", "expected an input of shape (..., ", w[1], ") for a weight of shape ", w,
               ", got ", x);
  }
  if (in.size() == 3 && in[2].shape != Shape{w[0]}) {
    fail_value("Linear", "expected a bias of shape ", Shape{w[0]}, ", got ", in[2].shape);
  }
  Shape out = x;
  out[out.size() - 1] = w[0];
  count(out);
  return {Spec(dtype, out)};
}
Values decompose(const Linear&, const Values& in) {
  const Value y = matmul(in[0], in[1], false, true);
  if (in.size() < 3) return {y};
  return {add(y, y.dtype() == in[2].dtype() ? in[2] : cast(in[2], y.dtype()))};
}
Values grad(const Linear&, const GradArgs& g) {
  const Spec& x = g.in_specs[0];
  const Value dy = g.dy_or_zeros(0);
  const std::int64_t n = count_rows(x.shape);
  const Value flat_dy = rows(dy, n);
  Values out(g.in_specs.size());
  if (g.need(0)) out[0] = matmul(dy, g.inputs[1]);
  if (g.need(1)) {
    // In the order that the weight has in memory, so that nothing is copied on the way back.
    const Value flat_x = rows(g.inputs[0], n);
    const Strides& w = g.in_specs[1].strides;
    out[1] = w[0] < w[1] ? transpose(matmul(flat_x, flat_dy, true, false), {1, 0})
                         : matmul(flat_dy, flat_x, true, false);
  }
  if (out.size() > 2 && g.need(2)) out[2] = sum(flat_dy, Dims{0}, false);
  return out;
}
Keep keep(const Linear&, std::uint32_t needs) { return keep_other(needs & 3u); }
Values decompose_complex(const Linear& op, const Values& in) {
  if (in.size() < 3) return product_of_parts("Linear", op, in);
  return {add(call(op, in[0], in[1]), in[2])};
}
REGISTER_OP(Linear);

}  // namespace mge
