#include "core/ops/reduce/reduce.h"

#include "core/kernels/cpu/reduce.h"
#include "core/ops/complex/complex.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/shape/shape.h"
#include "core/tensor/fill.h"

namespace mge {

Dims reduced_axes(const char* op, const std::optional<Dims>& axis, int ndim) {
  if (!axis) {
    Dims all;
    for (int i = 0; i < ndim; ++i) all.push_back(i);
    return all;
  }
  // As in NumPy, a scalar may be reduced along its "last" axis.
  if (ndim == 0 && *axis == Dims{0}) return {};
  if (ndim == 0 && *axis == Dims{-1}) return {};
  return normalize_axes(op, *axis, ndim);
}

Spec reduced_spec(const Spec& in, const Dims& axes, bool keepdim, DType dtype) {
  Shape shape;
  Strides like;
  bool forward = true;
  for (int i = 0; i < in.ndim(); ++i) {
    const bool reduced = axes.contains(i);
    if (reduced && !keepdim) continue;
    shape.push_back(reduced ? 1 : in.shape[i]);
    like.push_back(in.strides[i]);
    forward &= reduced || in.shape[i] == 1 || in.strides[i] > 0;
  }
  Spec out(dtype, shape, forward ? dense_like(shape, like) : row_major(shape));
  out.device = in.device;
  return out;
}

MutView with_reduced_axes(const MutView& out, const Dims& axes, bool keepdim, int ndim) {
  if (keepdim) return out;
  MutView full{out.data, out.dtype, Dims::filled(ndim, 1), Dims::filled(ndim, 0)};
  for (int i = 0, j = 0; i < ndim; ++i) {
    if (axes.contains(i)) continue;
    full.shape[i] = out.shape[j];
    full.strides[i] = out.strides[j++];
  }
  return full;
}

void check_not_empty(const char* op, const Spec& in, const Spec& out) {
  if (in.size() == 0 && out.size() != 0) {
    fail_value(op, "expected at least one element to reduce, got shape ", in.shape);
  }
}

namespace {

const Spec& single_input(const char* op, const Specs& in) {
  if (in.size() != 1) fail_type(op, "expected 1 input, got ", in.size());
  return in[0];
}

DType mean_dtype(DType dtype) { return dtype == DType::float64 ? dtype : DType::float32; }

// A value of the output's shape, with the reduced axes back at length 1.
Value with_axes(const Value& y, const Dims& axes, bool keepdim) {
  return keepdim || axes.empty() ? y : expand_dims(y, axes);
}

std::int64_t reduced_count(const Shape& shape, const Dims& axes) {
  std::int64_t n = 1;
  for (std::int64_t axis : axes) n *= shape[static_cast<int>(axis)];
  return n;
}

// dy shared equally among the elements that the extreme was found at. They are counted in int32, so
// that float16 neither overflows nor rounds. None equals a NaN: its gradient is 0.
Value extreme_grad(const Value& x, const Value& y, const Value& dy, const Dims& axes) {
  const Value hit = equal(x, y);
  const DType wide = mean_dtype(x.dtype());
  const Value hits = cast(sum(hit, axes, true), wide);
  const Value share = cast(div(cast(dy, wide), hits), x.dtype());
  return where(hit, share, scalar_like(x, 0));
}

// For each element, the product of all others along axis 0. Halves are multiplied pairwise up a
// tree and the products handed down again, so that zeros need no care and every order of derivative
// is right.
Value exclusive_product(const Value& x) {
  const std::int64_t n = x.shape()[0];
  if (n <= 1) return full(x.spec(), 1);
  const std::int64_t half = (n + 1) / 2, rest = n - half;
  const std::int64_t sizes[] = {half, rest};
  const Values parts = split(x, 0, sizes);
  Value low = parts[0], high = parts[1];
  if (rest < half) {
    Shape one = x.shape();
    one[0] = 1;
    Spec pad(x.dtype(), one);
    pad.device = x.device();
    high = concat({high, full(pad, 1)}, 0);
  }
  const Value others = exclusive_product(mul(low, high));
  Value high_grad = mul(others, low);
  if (rest < half) {
    const std::int64_t cut[] = {rest, half - rest};
    high_grad = split(high_grad, 0, cut)[0];
  }
  return concat({mul(others, high), high_grad}, 0);
}

Value product_grad(const Value& x, const Value& dy, const Dims& axes) {
  Dims order = axes, back = Dims::filled(x.ndim(), 0);
  for (int i = 0; i < x.ndim(); ++i) {
    if (!axes.contains(i)) order.push_back(i);
  }
  Shape moved, flat{reduced_count(x.shape(), axes)};
  for (int i = 0; i < x.ndim(); ++i) {
    moved.push_back(x.shape()[static_cast<int>(order[i])]);
    back[static_cast<int>(order[i])] = i;
    if (i >= axes.size()) flat.push_back(moved.back());
  }
  const Value front = reshape(transpose(cast(x, mean_dtype(x.dtype())), order), flat);
  const Value others = transpose(reshape(exclusive_product(front), moved), back);
  return cast(mul(others, cast(dy, others.dtype())), x.dtype());
}

// dy / y where y > 0, else 0.
Value over_positive(const Value& dy, const Value& y) {
  const Value zero = scalar_like(y, 0), positive = less(zero, y);
  return where(positive, div(dy, where(positive, y, scalar_like(y, 1))), zero);
}

}  // namespace

// ---- Reduce
// ----------------------------------------------------------------------------------------

Specs infer(const Reduce& op, const Specs& specs) {
  using enum Reduce::Mode;
  const Spec& in = single_input("Reduce", specs);
  const Dims axes = reduced_axes("Reduce", op.axis, in.ndim());
  const bool extreme = op.mode == MAX || op.mode == MIN;
  const DType dtype = extreme           ? in.dtype
                      : op.mode == MEAN ? mean_dtype(in.dtype)
                                        : cpu::sum_dtype(in.dtype);
  Spec out = reduced_spec(in, axes, op.keepdim, dtype);
  if (extreme) check_not_empty("Reduce", in, out);
  return {out};
}

Keep keep(const Reduce& op, std::uint32_t) {
  using enum Reduce::Mode;
  if (op.mode == SUM || op.mode == MEAN) return {0, 0};
  return {1, op.mode == MAX || op.mode == MIN ? 1u : 0u};
}

Values grad(const Reduce& op, const GradArgs& g) {
  using enum Reduce::Mode;
  const Spec& in = g.in_specs[0];
  const Dims axes = reduced_axes("Reduce", op.axis, in.ndim());
  const Value dy = with_axes(g.dy[0], axes, op.keepdim);
  switch (op.mode) {
    case SUM:
      return {broadcast_to(dy, in.shape)};
    case MEAN: {
      const double n = static_cast<double>(reduced_count(in.shape, axes));
      return {broadcast_to(cast(div(dy, scalar_like(dy, n)), in.dtype), in.shape)};
    }
    case SUM_SQR:
      return {mul(g.inputs[0], mul(dy, 2))};
    case PRODUCT:
      return {product_grad(g.inputs[0], dy, axes)};
    case MAX:
    case MIN:
      return {extreme_grad(g.inputs[0], with_axes(g.outputs[0], axes, op.keepdim), dy, axes)};
  }
  fail_value("Reduce", "unknown mode");
}

Values decompose_complex(const Reduce& op, const Values& in) {
  if (op.mode != Reduce::Mode::SUM && op.mode != Reduce::Mode::MEAN) {
    fail_type("Reduce", in[0].dtype(),
              " is supported by sum and mean alone; take F.real and F.imag");
  }
  return by_parts(op, in);
}

REGISTER_OP(Reduce);

// ---- Variance
// --------------------------------------------------------------------------------------

Specs infer(const Variance& op, const Specs& specs) {
  const Spec& in = single_input("Variance", specs);
  const Dims axes = reduced_axes("Variance", op.axis, in.ndim());
  return {reduced_spec(in, axes, op.keepdim, mean_dtype(in.dtype))};
}

Values decompose(const Variance& op, const Values& in) {
  const Value x = cast(in[0], mean_dtype(in[0].dtype()));
  const Dims axes = reduced_axes("Variance", op.axis, x.ndim());
  const Value v = mean(square(sub(x, mean(x, axes, true))), axes, op.keepdim);
  return {op.root ? sqrt(v) : v};
}

Keep keep(const Variance& op, std::uint32_t) { return {1, op.root ? 1u : 0u}; }

Values grad(const Variance& op, const GradArgs& g) {
  const Dims axes = reduced_axes("Variance", op.axis, g.in_specs[0].ndim());
  const Value x = cast(g.inputs[0], g.out_specs[0].dtype);
  const double n = static_cast<double>(reduced_count(x.shape(), axes));
  Value scale = with_axes(g.dy[0], axes, op.keepdim);
  if (op.root) scale = over_positive(scale, with_axes(g.outputs[0], axes, op.keepdim));
  scale = mul(scale, op.root ? 1 / n : 2 / n);
  return {cast(mul(sub(x, mean(x, axes, true)), scale), g.in_specs[0].dtype)};
}

REGISTER_OP(Variance);

// ---- Norm2
// -----------------------------------------------------------------------------------------

Specs infer(const Norm2& op, const Specs& specs) {
  const Spec& in = single_input("Norm2", specs);
  if (!is_float(in.dtype)) fail_type("Norm2", "expected a float dtype, got ", in.dtype);
  const Dims axes = reduced_axes("Norm2", op.axis, in.ndim());
  return {reduced_spec(in, axes, op.keepdim, in.dtype)};
}

Values decompose(const Norm2& op, const Values& in) {
  const Dims axes = reduced_axes("Norm2", op.axis, in[0].ndim());
  return {sqrt(sum_squares(in[0], axes, op.keepdim))};
}

Keep keep(const Norm2&, std::uint32_t) { return {1, 1}; }

Values grad(const Norm2& op, const GradArgs& g) {
  const Dims axes = reduced_axes("Norm2", op.axis, g.in_specs[0].ndim());
  const Value dy = with_axes(g.dy[0], axes, op.keepdim);
  const Value y = with_axes(g.outputs[0], axes, op.keepdim);
  return {mul(g.inputs[0], over_positive(dy, y))};
}

REGISTER_OP(Norm2);

// ---- as functions
// ----------------------------------------------------------------------------------

namespace {
Value reduce(Reduce::Mode mode, const Value& x, const Dims& axes, bool keepdims) {
  return call(Reduce{mode, axes, keepdims}, x);
}
}  // namespace

Value sum(const Value& x, const Dims& axes, bool keepdims) {
  return reduce(Reduce::Mode::SUM, x, axes, keepdims);
}
Value mean(const Value& x, const Dims& axes, bool keepdims) {
  return reduce(Reduce::Mode::MEAN, x, axes, keepdims);
}
Value reduce_max(const Value& x, const Dims& axes, bool keepdims) {
  return reduce(Reduce::Mode::MAX, x, axes, keepdims);
}
Value reduce_min(const Value& x, const Dims& axes, bool keepdims) {
  return reduce(Reduce::Mode::MIN, x, axes, keepdims);
}
Value sum_squares(const Value& x, const Dims& axes, bool keepdims) {
  return reduce(Reduce::Mode::SUM_SQR, x, axes, keepdims);
}
Value variance(const Value& x, const Dims& axes, bool keepdims) {
  return call(Variance{axes, keepdims, false}, x);
}
Value sum(const Value& x) { return call(Reduce{Reduce::Mode::SUM, std::nullopt, false}, x); }
Value mean(const Value& x) { return call(Reduce{Reduce::Mode::MEAN, std::nullopt, false}, x); }

}  // namespace mge
