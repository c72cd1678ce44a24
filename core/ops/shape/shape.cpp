#include "core/ops/shape/shape.h"

#include "core/kernels/cpu/copy.h"

namespace mge {

Value sum(const Value& x, const Dims& axes, bool keepdims);

std::optional<Strides> reshape_strides(const Shape& shape, const Strides& strides,
                                       const Shape& to) {
  if (count(to) == 0 || is_row_major(shape, strides)) return row_major(to);
  Shape old_shape, old_strides;  // without the axes of size 1, whose strides say nothing
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    old_shape.push_back(shape[i]);
    old_strides.push_back(strides[i]);
  }
  Strides out = Dims::filled(to.size(), 0);
  int i = 0, j = 0;
  while (i < old_shape.size()) {
    // The shortest groups of old and new axes with equally many elements.
    int i_end = i + 1, j_end = j + 1;
    std::int64_t have = old_shape[i], want = to[j];
    while (have != want) {
      if (have < want) {
        have *= old_shape[i_end++];
      } else {
        want *= to[j_end++];
      }
    }
    for (int k = i; k + 1 < i_end; ++k) {
      if (old_strides[k] != old_shape[k + 1] * old_strides[k + 1]) return std::nullopt;
    }
    std::int64_t step = old_strides[i_end - 1];
    for (int k = j_end - 1; k >= j; --k) {
      out[k] = step;
      step *= to[k];
    }
    i = i_end;
    j = j_end;
  }
  for (; j < to.size(); ++j) out[j] = 1;  // only ones are left
  return out;
}

namespace {

// The numbers in a 1-d integer tensor (or in a scalar): a shape that was computed.
Dims read_dims(const char* op, const Value& v) {
  if (v.ndim() > 1 || !is_integer(v.dtype())) {
    fail_type(op, "expected the shape as a 1-d integer tensor, got ", v.dtype(), " of shape ",
              v.shape());
  }
  if (v.size() > kMaxDims) {
    fail_value(op, "at most ", kMaxDims, " dimensions are supported, got ", v.size());
  }
  Dims out = Dims::filled(static_cast<int>(v.size()), 0);
  cpu::copy(v.view(), {out.begin(), DType::int64, v.shape(), row_major(v.shape())});
  return out;
}

Dims wanted_shape(const char* op, const Dims& field, const Values& in) {
  return in.size() > 1 ? read_dims(op, in[1]) : field;
}

// `wanted` with its -1 replaced.
Shape resolve_reshape(const Shape& shape, const Shape& wanted) {
  const std::int64_t have = count(shape);
  Shape out = wanted, known;
  int unknown = -1;
  for (int i = 0; i < wanted.size(); ++i) {
    if (wanted[i] >= 0) {
      known.push_back(wanted[i]);
    } else if (wanted[i] == -1 && unknown < 0) {
      unknown = i;
    } else {
      fail_value("Reshape", wanted[i] == -1 ? "more than one -1" : "negative size",
                 " in the new shape ", wanted);
    }
  }
  const std::int64_t rest = count(known);
  if (unknown >= 0 && rest > 0 && have % rest == 0) {
    out[unknown] = have / rest;
  } else if (unknown >= 0 || rest != have) {
    fail_value("Reshape", "cannot reshape ", shape, " (", have, " elements) to ", wanted);
  }
  return out;
}

Value row_major_copy(const Value& x, const Shape& shape) {
  Value out = Value::empty(x.dtype(), shape, x.device());
  cpu::copy(x.view(), {out.mut().data, x.dtype(), x.shape(), row_major(x.shape())});
  return out;
}

void check_inputs(const char* op, std::size_t have, std::size_t least, std::size_t most) {
  if (have < least || have > most) fail_type(op, "expected ", least, " inputs, got ", have);
}

}  // namespace

// ---- Reshape
// --------------------------------------------------------------------------------------

Values execute(const Reshape& op, Values& in) {
  check_inputs("Reshape", in.size(), 1, 2);
  const Value& x = in[0];
  const Shape shape = resolve_reshape(x.shape(), wanted_shape("Reshape", op.shape, in));
  if (const auto strides = reshape_strides(x.shape(), x.strides(), shape)) {
    return {x.alias(shape, *strides)};
  }
  return {row_major_copy(x, shape)};
}
Values grad(const Reshape&, const GradArgs& g) {
  Values out(g.in_specs.size());
  out[0] = reshape(g.dy[0], g.in_specs[0].shape);
  return out;
}
Keep keep(const Reshape&, std::uint32_t) { return {.inputs = 0, .outputs = 0}; }
REGISTER_OP(Reshape);

// ---- Dimshuffle
// -----------------------------------------------------------------------------------

Values execute(const Dimshuffle& op, Values& in) {
  check_inputs("Dimshuffle", in.size(), 1, 1);
  const Value& x = in[0];
  Shape shape, strides;
  std::uint32_t used = 0;
  for (std::int64_t axis : op.pattern) {
    if (axis < -1 || axis >= x.ndim() || (axis >= 0 && (used >> axis & 1u))) {
      fail_value("Dimshuffle", "expected each axis of the ", x.ndim(), " once, got the pattern ",
                 op.pattern);
    }
    if (axis >= 0) used |= 1u << axis;
    shape.push_back(axis < 0 ? 1 : x.shape()[static_cast<int>(axis)]);
    strides.push_back(axis < 0 ? 1 : x.strides()[static_cast<int>(axis)]);
  }
  for (int i = 0; i < x.ndim(); ++i) {
    if (!(used >> i & 1u) && x.shape()[i] != 1) {
      fail_value("Dimshuffle", "the pattern ", op.pattern, " leaves out axis ", i, " of shape ",
                 x.shape(), ", whose size is not 1");
    }
  }
  return {x.alias(shape, strides)};
}
Values grad(const Dimshuffle& op, const GradArgs& g) {
  Dims inverse = Dims::filled(g.in_specs[0].ndim(), -1);
  for (int i = 0; i < op.pattern.size(); ++i) {
    if (op.pattern[i] >= 0) inverse[static_cast<int>(op.pattern[i])] = i;
  }
  return {transpose(g.dy[0], inverse)};
}
Keep keep(const Dimshuffle&, std::uint32_t) { return {.inputs = 0, .outputs = 0}; }
REGISTER_OP(Dimshuffle);

// ---- Broadcast
// ------------------------------------------------------------------------------------

Values execute(const Broadcast& op, Values& in) {
  check_inputs("Broadcast", in.size(), 1, 2);
  const Value& x = in[0];
  const Shape shape = wanted_shape("Broadcast", op.shape, in);
  const int lead = shape.size() - x.ndim();
  bool fits = lead >= 0;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0) fail_value("Broadcast", "negative size in the new shape ", shape);
    fits = fits && (i < lead || x.shape()[i - lead] == shape[i] || x.shape()[i - lead] == 1);
  }
  if (!fits) fail_value("Broadcast", "cannot broadcast ", x.shape(), " to ", shape);
  count(shape);  // raises for sizes that no 64-bit number counts
  return {x.alias(shape, broadcast_strides(x.shape(), x.strides(), shape))};
}
Values grad(const Broadcast&, const GradArgs& g) {
  Values out(g.in_specs.size());
  out[0] = sum_to(g.dy[0], g.in_specs[0].shape);
  return out;
}
Keep keep(const Broadcast&, std::uint32_t) { return {.inputs = 0, .outputs = 0}; }
REGISTER_OP(Broadcast);

// ---- AddAxis, RemoveAxis
// --------------------------------------------------------------------------

Values execute(const AddAxis& op, Values& in) {
  check_inputs("AddAxis", in.size(), 1, 1);
  const Value& x = in[0];
  Shape shape = x.shape();
  Strides strides = x.strides();
  for (std::int64_t axis : normalize_axes("AddAxis", op.axis, x.ndim() + op.axis.size())) {
    shape.insert(static_cast<int>(axis), 1);
    strides.insert(static_cast<int>(axis), 1);
  }
  return {x.alias(shape, strides)};
}
Values grad(const AddAxis&, const GradArgs& g) { return {reshape(g.dy[0], g.in_specs[0].shape)}; }
Keep keep(const AddAxis&, std::uint32_t) { return {.inputs = 0, .outputs = 0}; }
REGISTER_OP(AddAxis);

Values execute(const RemoveAxis& op, Values& in) {
  check_inputs("RemoveAxis", in.size(), 1, 1);
  const Value& x = in[0];
  const Dims axes = normalize_axes("RemoveAxis", op.axis, x.ndim());
  Shape shape;
  Strides strides;
  for (int i = 0; i < x.ndim(); ++i) {
    if (!axes.contains(i)) {
      shape.push_back(x.shape()[i]);
      strides.push_back(x.strides()[i]);
    } else if (x.shape()[i] != 1) {
      fail_value("RemoveAxis", "expected size 1 on axis ", i, ", got shape ", x.shape());
    }
  }
  return {x.alias(shape, strides)};
}
Values grad(const RemoveAxis&, const GradArgs& g) {
  return {reshape(g.dy[0], g.in_specs[0].shape)};
}
Keep keep(const RemoveAxis&, std::uint32_t) { return {.inputs = 0, .outputs = 0}; }
REGISTER_OP(RemoveAxis);

// ---- Identity, Copy, Contiguous
// -------------------------------------------------------------------

Values execute(const Identity&, Values& in) {
  check_inputs("Identity", in.size(), 1, 1);
  return {in[0].detached()};
}
Values grad(const Identity&, const GradArgs& g) { return {g.dy[0]}; }
Keep keep(const Identity&, std::uint32_t) { return {.inputs = 0, .outputs = 0}; }
REGISTER_OP(Identity);

Values execute(const Copy& op, Values& in) {
  check_inputs("Copy", in.size(), 1, 1);
  const Value& x = in[0];
  Spec spec(x.dtype(), x.shape(), dense_like(x.shape(), x.strides()));
  spec.device = op.comp_node.value_or(x.device());
  Value out = Value::empty(spec);
  if (x.size() > 0) cpu::copy(x.view(), out.mut());
  return {std::move(out)};
}
Values grad(const Copy&, const GradArgs& g) { return {g.dy[0]}; }
Keep keep(const Copy&, std::uint32_t) { return {.inputs = 0, .outputs = 0}; }
REGISTER_OP(Copy);

Values execute(const Contiguous&, Values& in) {
  check_inputs("Contiguous", in.size(), 1, 1);
  const Value& x = in[0];
  return {x.row_major() ? x.detached() : row_major_copy(x, x.shape())};
}
Values grad(const Contiguous&, const GradArgs& g) { return {g.dy[0]}; }
Keep keep(const Contiguous&, std::uint32_t) { return {.inputs = 0, .outputs = 0}; }
REGISTER_OP(Contiguous);

// ---- as functions
// ---------------------------------------------------------------------------------

Value reshape(const Value& x, const Shape& shape) {
  return x.shape() == shape ? x : call(Reshape{shape}, x);
}
Value flatten(const Value& x) { return reshape(x, {-1}); }
Value transpose(const Value& x, const Dims& perm) {
  bool same = perm.size() == x.ndim();
  for (int i = 0; i < perm.size(); ++i) same = same && perm[i] == i;
  return same ? x : call(Dimshuffle{perm}, x);
}
Value swapaxes(const Value& x, std::int64_t a, std::int64_t b) {
  Dims perm;
  for (int i = 0; i < x.ndim(); ++i) perm.push_back(i);
  std::swap(perm[normalize_axis("Dimshuffle", a, x.ndim())],
            perm[normalize_axis("Dimshuffle", b, x.ndim())]);
  return transpose(x, perm);
}
Value broadcast_to(const Value& x, const Shape& shape) {
  return x.shape() == shape ? x : call(Broadcast{shape}, x);
}
Value sum_to(const Value& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const int lead = x.ndim() - shape.size();
  Dims axes;
  for (int i = 0; i < x.ndim(); ++i) {
    if (i < lead || (shape[i - lead] == 1 && x.shape()[i] != 1)) axes.push_back(i);
  }
  return reshape(axes.empty() ? x : sum(x, axes, true), shape);
}
Value expand_dims(const Value& x, const Dims& axes) {
  return axes.empty() ? x : call(AddAxis{axes}, x);
}
Value squeeze(const Value& x, const Dims& axes) {
  return axes.empty() ? x : call(RemoveAxis{axes}, x);
}
Value contiguous(const Value& x) { return x.row_major() ? x : call(Contiguous{}, x); }
Value on_device(const Value& x, const Device& device) {
  Value out = call(Identity{}, x);
  out.impl()->spec.device = device;
  return out;
}

}  // namespace mge
