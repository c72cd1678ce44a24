#include "core/ops/quantize/quantize.h"

#include "core/ops/elementwise/elementwise.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

constexpr double kLog2 = 0.693147180559945309;

// Raises unless there are `count` operands of one float dtype that broadcast to the one at `x`.
const Spec& checked(const char* op, const Specs& in, std::size_t count, std::size_t x) {
  if (in.size() != count) fail_type(op, "expected ", count, " inputs, got ", in.size());
  for (const Spec& s : in) {
    if (!is_float(s.dtype)) fail_type(op, "expected inputs of a float dtype, got ", s.dtype);
    if (s.dtype != in[x].dtype) {
      fail_type(op, "expected inputs of one dtype, got ", s.dtype, " and ", in[x].dtype);
    }
    if (broadcast(op, in[x].shape, s.shape) != in[x].shape) {
      fail_value(op, "expected inputs that broadcast to the shape ", in[x].shape,
                 " of the tensor, got ", s.shape);
    }
  }
  return in[x];
}

Spec like(const Spec& x, DType dtype) {
  Spec out(dtype, x.shape, dense_like(x.shape, x.strides));
  out.device = x.device;
  return out;
}
// The dtype of sums over elements: 16-bit floats would lose what they add up.
DType wide(DType dtype) { return is_low_float(dtype) ? DType::float32 : dtype; }

Specs infer_forward(const char* op, const Specs& in, std::size_t count) {
  const Spec& x = checked(op, in, count, 0);
  return {like(x, x.dtype)};
}
Specs infer_backward(const char* op, const Specs& in, std::size_t count) {
  const Spec& x = checked(op, in, count, 1);
  if (in[0].shape != x.shape) {
    fail_value(op, "expected dy of shape ", x.shape, ", got ", in[0].shape);
  }
  return {like(x, x.dtype), like(x, wide(x.dtype))};
}

// ---- in public ops, in float32 at least ---------------------------------------------------------

Values widened(const Values& in) {
  Values out;
  for (const Value& v : in) out.push_back(cast(v, wide(v.dtype())));
  return out;
}
Value round(const Value& x) { return elemwise(Elemwise::Mode::ROUND, x); }
Value clip(const QuantRange& to, const Value& t) {
  return minimum(maximum(t, scalar_like(t, static_cast<double>(to.qmin))),
                 scalar_like(t, static_cast<double>(to.qmax)));
}
// lo <= t <= hi
Value inside(const Value& t, double lo, double hi) {
  return elemwise(Elemwise::Mode::AND, less_equal(scalar_like(t, lo), t),
                  less_equal(t, scalar_like(t, hi)));
}
Value inside(const QuantRange& range, const Value& t) {
  return inside(t, static_cast<double>(range.qmin), static_cast<double>(range.qmax));
}
Value if_inside(const Value& mask, const Value& dy) { return where(mask, dy, scalar_like(dy, 0)); }
Value power_of_two(const Value& scale) { return pow(scalar_like(scale, 2), scale); }

// What every element adds to the gradient of a scale, summed to the scale's shape.
Value scale_grad(const Value& parts, const Spec& scale) {
  return cast(sum_to(parts, scale.shape), scale.dtype);
}

}  // namespace

// ---- FakeQuant ----------------------------------------------------------------------------------

Specs infer(const FakeQuant&, const Specs& in) { return infer_forward("FakeQuant", in, 3); }
Values decompose(const FakeQuant& op, const Values& in) {
  const Values w = widened(in);
  const Value &x = w[0], &scale = w[1], &zero = w[2];
  const Value q = clip(op, add(round(div(x, scale)), zero));
  return {cast(mul(sub(q, zero), scale), in[0].dtype())};
}
Keep keep(const FakeQuant&, std::uint32_t) { return {.inputs = 7, .outputs = 0}; }
Values grad(const FakeQuant& op, const GradArgs& g) {
  Values out(3);
  if (g.need(0)) {
    out[0] = call(FakeQuantBackward{op}, g.dy[0], g.inputs[0], g.inputs[1], g.inputs[2]);
  }
  return out;
}
REGISTER_OP(FakeQuant);

Specs infer(const FakeQuantBackward&, const Specs& in) {
  return {infer_backward("FakeQuantBackward", in, 4)[0]};
}
Values decompose(const FakeQuantBackward& op, const Values& in) {
  const Values w = widened(in);
  const Value &dy = w[0], &x = w[1], &scale = w[2], &zero = w[3];
  const Value mask = inside(op, add(round(div(x, scale)), zero));
  return {cast(if_inside(mask, dy), in[0].dtype())};
}
REGISTER_OP(FakeQuantBackward);

// ---- TQT ----------------------------------------------------------------------------------------

Specs infer(const TQT&, const Specs& in) { return infer_forward("TQT", in, 2); }
Values decompose(const TQT& op, const Values& in) {
  const Values w = widened(in);
  const Value step = power_of_two(w[1]);
  return {cast(mul(clip(op, round(div(w[0], step))), step), in[0].dtype())};
}
Keep keep(const TQT&, std::uint32_t) { return {.inputs = 3, .outputs = 0}; }
Values grad(const TQT& op, const GradArgs& g) {
  Values out = call_all(TQTBackward{op}, {g.dy[0], g.inputs[0], g.inputs[1]});
  if (g.need(1)) out[1] = scale_grad(out[1], g.in_specs[1]);
  return out;
}
REGISTER_OP(TQT);

Specs infer(const TQTBackward&, const Specs& in) { return infer_backward("TQTBackward", in, 3); }
Values decompose(const TQTBackward& op, const Values& in) {
  const Values w = widened(in);
  const Value &dy = w[0], step = power_of_two(w[2]), t = div(w[1], step);
  // Half a step beyond the range still rounds into it.
  const Value outside =
      elemwise(Elemwise::Mode::OR, less(t, scalar_like(t, static_cast<double>(op.qmin) - 0.5)),
               less(scalar_like(t, static_cast<double>(op.qmax) + 0.5), t));
  const Value q = clip(op, round(t));
  const Value parts = mul(mul(dy, mul(step, kLog2)), where(outside, q, sub(q, t)));
  return {cast(where(outside, scalar_like(dy, 0), dy), in[0].dtype()), parts};
}
REGISTER_OP(TQTBackward);

// ---- LSQ ----------------------------------------------------------------------------------------

Specs infer(const LSQ&, const Specs& in) { return infer_forward("LSQ", in, 4); }
Values decompose(const LSQ& op, const Values& in) {
  const Values w = widened(in);
  const Value &x = w[0], &scale = w[1], &zero = w[2];
  const Value q = clip(op, round(add(div(x, scale), zero)));
  return {cast(mul(sub(q, zero), scale), in[0].dtype())};
}
Keep keep(const LSQ&, std::uint32_t) { return {.inputs = 15, .outputs = 0}; }
Values grad(const LSQ& op, const GradArgs& g) {
  Values out(4);
  Values both =
      call_all(LSQBackward{op}, {g.dy[0], g.inputs[0], g.inputs[1], g.inputs[2], g.inputs[3]});
  out[0] = both[0];
  if (g.need(1)) out[1] = scale_grad(both[1], g.in_specs[1]);
  return out;
}
REGISTER_OP(LSQ);

Specs infer(const LSQBackward&, const Specs& in) { return infer_backward("LSQBackward", in, 5); }
Values decompose(const LSQBackward& op, const Values& in) {
  const Values w = widened(in);
  const Value &dy = w[0], &x = w[1], &scale = w[2], &zero = w[3], &gain = w[4];
  const Value t = add(div(x, scale), zero), q = clip(op, round(t)), mask = inside(op, t);
  const Value parts = mul(mul(dy, gain), where(mask, sub(q, t), sub(q, zero)));
  return {cast(if_inside(mask, dy), in[0].dtype()), parts};
}
REGISTER_OP(LSQBackward);

}  // namespace mge
