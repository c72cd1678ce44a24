// Basic indices: Subtensor, SetSubtensor, IncrSubtensor.
#include "core/ops/indexing/basic.h"

#include "core/dispatch/dispatch.h"
#include "core/kernels/cpu/copy.h"
#include "core/ops/creation/creation.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/shape/shape.h"

namespace mge {

void BasicItems::add_slice(std::int64_t a, std::int64_t from, std::int64_t to, std::int64_t by) {
  axis.push_back(a);
  start.push_back(from);
  stop.push_back(to);
  step.push_back(by);
}
void BasicItems::add_int(std::int64_t a, std::int64_t at) { add_slice(a, at, 0, 0); }

namespace {

// One axis cut by a slice, with Python's rules.
struct Cut {
  std::int64_t first, size;
};
Cut cut_axis(const char* op, std::int64_t start, std::int64_t stop, std::int64_t step,
             std::int64_t size) {
  if (step == kNoBound) step = -std::numeric_limits<std::int64_t>::max();
  if (step == 0) fail_value(op, "slice step cannot be zero");
  const std::int64_t low = step < 0 ? -1 : 0, high = step < 0 ? size - 1 : size;
  const auto bound = [&](std::int64_t b, std::int64_t omitted) {
    if (b == kNoBound) return omitted;
    return std::clamp(b < 0 ? b + size : b, low, high);
  };
  const std::int64_t from = bound(start, step < 0 ? high : low);
  const std::int64_t to = bound(stop, step < 0 ? low : high);
  if (step > 0) return {from, to > from ? (to - from - 1) / step + 1 : 0};
  return {from, from > to ? (from - to - 1) / -step + 1 : 0};
}

void check_items(const char* op, const BasicItems& items, const Shape& shape) {
  const int n = items.axis.size();
  if (items.start.size() != n || items.stop.size() != n || items.step.size() != n) {
    fail_value(op, "expected as many bounds as axes, got the axes ", items.axis);
  }
  for (int i = 0; i < n; ++i) {
    if (items.axis[i] < 0 || items.axis[i] >= shape.size()) {
      fail_index(op, "too many indices: axis ", items.axis[i], " of a tensor of ", shape.size(),
                 " dimensions");
    }
    for (int k = 0; k < i; ++k) {
      if (items.axis[k] == items.axis[i]) fail_value(op, "axis ", items.axis[i], " appears twice");
    }
  }
}

void check_two(const char* op, const Values& in) {
  if (in.size() != 2) fail_type(op, "expected 2 inputs, got ", in.size());
}

// The part of a tensor as a view of v; of the same dtype.
MutView part_of(const Value& x, const BasicPart& part) {
  char* data = static_cast<char*>(x.mut().data) + part.offset * size_of(x.dtype());
  return {data, x.dtype(), part.shape, part.strides};
}

}  // namespace

BasicPart basic_part(const char* op, const BasicItems& items, const Shape& shape,
                     const Strides& strides) {
  check_items(op, items, shape);
  BasicPart out;
  bool empty = false;
  for (int axis = 0; axis < shape.size(); ++axis) {
    int i = 0;
    while (i < items.axis.size() && items.axis[i] != axis) ++i;
    if (i == items.axis.size()) {
      out.shape.push_back(shape[axis]);
      out.strides.push_back(strides[axis]);
      out.axes.push_back(axis);
      continue;
    }
    if (items.step[i] == 0) {
      const std::int64_t at = items.start[i];
      if (at < -shape[axis] || at >= shape[axis]) {
        fail_index(op, "index ", at, " is out of range for axis ", axis, " of size ", shape[axis]);
      }
      out.offset += (at < 0 ? at + shape[axis] : at) * strides[axis];
      continue;
    }
    const Cut cut = cut_axis(op, items.start[i], items.stop[i], items.step[i], shape[axis]);
    out.shape.push_back(cut.size);
    // A step that is never taken may be too large to multiply.
    out.strides.push_back(cut.size > 1 ? items.step[i] * strides[axis] : strides[axis]);
    out.axes.push_back(axis);
    if (cut.size > 0) out.offset += cut.first * strides[axis];
    empty = empty || cut.size == 0;
  }
  if (empty || count(shape) == 0) out.offset = 0;
  return out;
}

void check_assignable(const char* op, const Shape& value, const Shape& part) {
  const int extra = value.size() - part.size();
  bool fits = true;
  for (int i = 0; i < value.size(); ++i) {
    const std::int64_t n = value[i];
    fits = fits && (n == 1 || (i >= extra && n == part[i - extra]));
  }
  if (!fits) fail_value(op, "cannot write a value of shape ", value, " to a part of shape ", part);
}

View as_assigned(const View& v, int ndim) {
  View out = v;
  while (out.ndim() > ndim) {
    out.shape.erase(0);
    out.strides.erase(0);
  }
  return out;
}

Value writable(Value& x, std::int64_t written) {
  Value out;
  if (x.unique() && is_dense(x.shape(), x.strides())) {
    // An identity of its own: no tape and nothing cached belongs to the new contents.
    out = x.detached();
    return out;
  }
  Spec spec = x.spec();
  spec.strides = dense_like(x.shape(), x.strides());
  out = Value::empty(spec);
  if (written < x.size()) cpu::copy(x.view(), out.mut());
  return out;
}

Value take_back(const Value& dy, const Spec& v) {
  // What was broadcast to the part is summed; leading axes of size 1 were dropped.
  Shape core = v.shape;
  while (core.size() > dy.ndim()) core.erase(0);
  return reshape(cast(sum_to(dy, core), v.dtype), v.shape);
}

// ---- Subtensor
// ------------------------------------------------------------------------------------

Values execute(const Subtensor& op, Values& in) {
  if (in.size() != 1) fail_type("Subtensor", "expected 1 input, got ", in.size());
  const BasicPart part = basic_part("Subtensor", op, in[0].shape(), in[0].strides());
  return {in[0].alias(part.shape, part.strides, part.offset)};
}
Values grad(const Subtensor& op, const GradArgs& g) {
  Values in;
  in.push_back(zeros(g.in_specs[0]));
  in.push_back(g.dy[0]);
  return call_all(SetSubtensor{op}, std::move(in));
}
Keep keep(const Subtensor&, std::uint32_t) { return {.inputs = 0, .outputs = 0}; }
REGISTER_OP(Subtensor);

// ---- SetSubtensor
// ---------------------------------------------------------------------------------

Values execute(const SetSubtensor& op, Values& in) {
  check_two("SetSubtensor", in);
  const BasicPart part = basic_part("SetSubtensor", op, in[0].shape(), in[0].strides());
  check_assignable("SetSubtensor", in[1].shape(), part.shape);
  const std::int64_t written = count(part.shape);
  Value out = writable(in[0], written);
  if (written > 0) {
    const BasicPart to = basic_part("SetSubtensor", op, out.shape(), out.strides());
    cpu::copy(as_assigned(in[1].view(), part.shape.size()), part_of(out, to));
  }
  return {std::move(out)};
}
Values grad(const SetSubtensor& op, const GradArgs& g) {
  Values out(2);
  if (g.need(0)) out[0] = call(SetSubtensor{op}, g.dy[0], scalar_like(g.dy[0], 0));
  if (g.need(1)) out[1] = take_back(call(Subtensor{op}, g.dy[0]), g.in_specs[1]);
  return out;
}
Keep keep(const SetSubtensor&, std::uint32_t) { return {.inputs = 0, .outputs = 0}; }
REGISTER_OP(SetSubtensor);

// ---- IncrSubtensor
// --------------------------------------------------------------------------------

Values execute(const IncrSubtensor& op, Values& in) {
  check_two("IncrSubtensor", in);
  const BasicPart part = basic_part("IncrSubtensor", op, in[0].shape(), in[0].strides());
  check_assignable("IncrSubtensor", in[1].shape(), part.shape);
  const View v = as_assigned(in[1].view(), part.shape.size());
  // Below the layers: this op is what they have recorded.
  Values terms{in[0].alias(part.shape, part.strides, part.offset), in[1].alias(v.shape, v.strides)};
  if (terms[1].dtype() != terms[0].dtype()) {
    Values other{terms[1]};
    terms[1] = execute(make_op(TypeCvt{.dtype = terms[0].dtype()}), other)[0];
  }
  Value sum = execute(elemwise_op(Elemwise::Mode::ADD), terms)[0];
  terms = Values();
  Values set;
  set.push_back(std::move(in[0]));
  set.push_back(std::move(sum));
  return execute(SetSubtensor{op}, set);
}
Values grad(const IncrSubtensor& op, const GradArgs& g) {
  Values out(2);
  if (g.need(0)) out[0] = g.dy[0];
  if (g.need(1)) out[1] = take_back(call(Subtensor{op}, g.dy[0]), g.in_specs[1]);
  return out;
}
Keep keep(const IncrSubtensor&, std::uint32_t) { return {.inputs = 0, .outputs = 0}; }
REGISTER_OP(IncrSubtensor);

// ---- as functions
// ---------------------------------------------------------------------------------

Value slice(const Value& x, std::int64_t axis, std::int64_t begin, std::int64_t end,
            std::int64_t step) {
  Subtensor op;
  op.add_slice(normalize_axis("Subtensor", axis, x.ndim()), begin, end, step);
  return call(std::move(op), x);
}
Value flip(const Value& x, const Dims& axes) {
  Subtensor op;
  for (std::int64_t axis : normalize_axes("flip", axes, x.ndim()))
    op.add_slice(axis, kNoBound, kNoBound, -1);
  return call(std::move(op), x);
}

}  // namespace mge
