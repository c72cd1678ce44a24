#include "core/ops/softmax/softmax.h"

#include <limits>

#include "core/ops/elementwise/elementwise.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

const Spec& checked(const char* op, const Specs& in, std::size_t count, std::int64_t axis) {
  if (in.size() != count) fail_type(op, "expected ", count, " inputs, got ", in.size());
  for (const Spec& s : in) {
    if (!is_float(s.dtype)) fail_type(op, "expected inputs of a float dtype, got ", s.dtype);
  }
  const Spec& x = in.back();
  normalize_axis(op, axis, x.ndim());
  return x;
}

// The memory format of x where it has no gaps.
Spec like(const Spec& x) {
  if (!is_dense(x.shape, x.strides)) return Spec(x.dtype, x.shape);
  return Spec(x.dtype, x.shape, dense_like(x.shape, x.strides));
}

Spec without_axis(const char* op, const Spec& x, std::int64_t axis) {
  Shape shape = x.shape;
  shape.erase(normalize_axis(op, axis, x.ndim()));
  return Spec(x.dtype, shape);
}

void check_same(const char* op, const Spec& dy, const Spec& y) {
  if (dy.shape != y.shape) {
    fail_value(op, "expected dy of shape ", y.shape, ", got ", dy.shape);
  }
}

struct Shifted {
  Value shift;   // the maximum along the axis, or 0 where that is -inf
  Value masked;  // where it is
  Value x;       // x - shift
  Value sum;     // sum(exp(x - shift)); 1 where masked
};

Shifted shifted(const Value& x, std::int64_t axis) {
  Shifted s;
  const Value maximum = reduce_max(x, {axis}, true);
  s.masked = equal(maximum, scalar_like(x, -std::numeric_limits<double>::infinity()));
  s.shift = where(s.masked, scalar_like(x, 0), maximum);
  s.x = sub(x, s.shift);
  s.sum = where(s.masked, scalar_like(x, 1), sum(exp(s.x), {axis}, true));
  return s;
}

}  // namespace

// ---- Softmax ------------------------------------------------------------------------------------

Specs infer(const Softmax& op, const Specs& in) {
  return {like(checked("Softmax", in, 1, op.axis))};
}
Values decompose(const Softmax& op, const Values& in) {
  const Shifted s = shifted(in[0], op.axis);
  return {div(exp(s.x), s.sum)};
}
Keep keep(const Softmax&, std::uint32_t) { return {0, 1}; }
Values grad(const Softmax& op, const GradArgs& g) {
  return {call(SoftmaxBackward{op.axis}, g.dy[0], g.outputs[0])};
}
REGISTER_OP(Softmax);

Specs infer(const SoftmaxBackward& op, const Specs& in) {
  const Spec& y = checked("SoftmaxBackward", in, 2, op.axis);
  check_same("SoftmaxBackward", in[0], y);
  return {like(y)};
}
Values decompose(const SoftmaxBackward& op, const Values& in) {
  const Value &dy = in[0], &y = in[1];
  return {mul(sub(dy, sum(mul(dy, y), {op.axis}, true)), y)};
}
REGISTER_OP(SoftmaxBackward);

// ---- LogSoftmax ---------------------------------------------------------------------------------

Specs infer(const LogSoftmax& op, const Specs& in) {
  return {like(checked("LogSoftmax", in, 1, op.axis))};
}
Values decompose(const LogSoftmax& op, const Values& in) {
  const Shifted s = shifted(in[0], op.axis);
  return {sub(s.x, log(s.sum))};
}
Keep keep(const LogSoftmax&, std::uint32_t) { return {0, 1}; }
Values grad(const LogSoftmax& op, const GradArgs& g) {
  return {call(LogSoftmaxBackward{op.axis}, g.dy[0], g.outputs[0])};
}
REGISTER_OP(LogSoftmax);

Specs infer(const LogSoftmaxBackward& op, const Specs& in) {
  const Spec& y = checked("LogSoftmaxBackward", in, 2, op.axis);
  check_same("LogSoftmaxBackward", in[0], y);
  return {like(y)};
}
Values decompose(const LogSoftmaxBackward& op, const Values& in) {
  const Value &dy = in[0], &y = in[1];
  return {sub(dy, mul(exp(y), sum(dy, {op.axis}, true)))};
}
REGISTER_OP(LogSoftmaxBackward);

// ---- LogSumExp ----------------------------------------------------------------------------------

Specs infer(const LogSumExp& op, const Specs& in) {
  return {without_axis("LogSumExp", checked("LogSumExp", in, 1, op.axis), op.axis)};
}
Values decompose(const LogSumExp& op, const Values& in) {
  const Shifted s = shifted(in[0], op.axis);
  const Value infinite = scalar_like(in[0], -std::numeric_limits<double>::infinity());
  const Value y = where(s.masked, infinite, add(log(s.sum), s.shift));
  return {squeeze(y, {op.axis})};
}
Keep keep(const LogSumExp&, std::uint32_t) { return {1, 1}; }
Values grad(const LogSumExp& op, const GradArgs& g) {
  return {call(LogSumExpBackward{op.axis}, g.dy[0], g.outputs[0], g.inputs[0])};
}
REGISTER_OP(LogSumExp);

Specs infer(const LogSumExpBackward& op, const Specs& in) {
  const Spec& x = checked("LogSumExpBackward", in, 3, op.axis);
  const Spec y = without_axis("LogSumExpBackward", x, op.axis);
  check_same("LogSumExpBackward", in[0], y);
  check_same("LogSumExpBackward", in[1], y);
  return {Spec(x.dtype, x.shape)};
}
Values decompose(const LogSumExpBackward& op, const Values& in) {
  const Value& x = in[2];
  const std::int64_t axis = normalize_axis("LogSumExpBackward", op.axis, x.ndim());
  return {mul(expand_dims(in[0], {axis}), softmax(x, axis))};
}
REGISTER_OP(LogSumExpBackward);

}  // namespace mge
