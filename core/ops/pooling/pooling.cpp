#include "core/ops/pooling/pooling.h"

#include "core/ops/batch_norm/batch_norm.h"

namespace mge {
namespace {

template <class To, class From>
To same_windows(const From& op) {
  return To{op.mode, op.pad_h, op.pad_w, op.stride_h, op.stride_w, op.window_h, op.window_w};
}

std::int64_t out_size(const char* op, const char* what, std::int64_t in, std::int64_t window,
                      std::int64_t stride, std::int64_t pad) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  if (window < 1 || window > kMost) {
    fail_value(op, "expected a window of at least 1 in ", what, ", got ", window);
  }
  if (stride < 1 || stride > kMost) {
    fail_value(op, "expected a stride of at least 1 in ", what, ", got ", stride);
  }
  if (pad < 0 || pad >= window) {
    fail_value(op, "expected padding from 0 to less than the window of ", window, " in ", what,
               ", got ", pad);
  }
  if (in + 2 * pad < window) {
    fail_value(op, "expected a window that fits into the padded ", what, " of ", in + 2 * pad,
               ", got ", window);
  }
  return (in + 2 * pad - window) / stride + 1;
}

template <class Op>
Spec output(const char* name, const Op& op, const Spec& x) {
  if (x.ndim() != 4) fail_value(name, "expected an input (N, C, H, W), got shape ", x.shape);
  const bool small_integer = x.dtype == DType::int8 || x.dtype == DType::uint8;
  if (!is_float(x.dtype) && !(op.mode == PoolMode::MAX && small_integer)) {
    fail_type(name, "expected an input of a float dtype (or int8, uint8 for maxima), got ",
              x.dtype);
  }
  const Shape shape{x.shape[0], x.shape[1],
                    out_size(name, "height", x.shape[2], op.window_h, op.stride_h, op.pad_h),
                    out_size(name, "width", x.shape[3], op.window_w, op.stride_w, op.pad_w)};
  const bool last = image_strides(x) != row_major(x.shape);
  return Spec(x.dtype, shape, last ? channels_last(shape) : row_major(shape));
}

void check_count(const char* op, const Specs& in, std::size_t count) {
  if (in.size() != count) fail_type(op, "expected ", count, " inputs, got ", in.size());
}

void check_like(const char* op, const char* what, const Spec& v, const Spec& like) {
  if (v.shape != like.shape) {
    fail_value(op, "expected ", what, " of shape ", like.shape, ", got ", v.shape);
  }
}

}  // namespace

Specs infer(const Pooling& op, const Specs& in) {
  check_count("Pooling", in, 1);
  return {output("Pooling", op, in[0])};
}
Keep keep(const Pooling& op, std::uint32_t) {
  return op.mode == PoolMode::MAX ? Keep{1, 1} : Keep{1, 0};
}
Values grad(const Pooling& op, const GradArgs& g) {
  const auto back = same_windows<PoolingBackward>(op);
  if (op.mode != PoolMode::MAX) return {call(back, g.dy[0], g.inputs[0])};
  return {call(back, g.dy[0], g.inputs[0], g.outputs[0])};
}
REGISTER_OP(Pooling);

Specs infer(const PoolingBackward& op, const Specs& in) {
  check_count("PoolingBackward", in, op.mode == PoolMode::MAX ? 3 : 2);
  const Spec &x = in[1], y = output("PoolingBackward", op, x);
  for (const Spec& v : in) {
    if (!is_float(v.dtype)) fail_type("PoolingBackward", "expected floats, got ", v.dtype);
  }
  check_like("PoolingBackward", "dy", in[0], y);
  if (op.mode == PoolMode::MAX) check_like("PoolingBackward", "y", in[2], y);
  return {Spec(x.dtype, x.shape, image_strides(x))};
}
Keep keep(const PoolingBackward& op, std::uint32_t) {
  return op.mode == PoolMode::MAX ? Keep{0b110, 0} : Keep{};
}
// Linear in dy; which element has the maximum does not move with x.
Values grad(const PoolingBackward& op, const GradArgs& g) {
  Values out(g.in_specs.size());
  out[0] = op.mode == PoolMode::MAX
               ? call(same_windows<MaxPoolPick>(op), g.dy[0], g.inputs[1], g.inputs[2])
               : call(same_windows<Pooling>(op), g.dy[0]);
  return out;
}
REGISTER_OP(PoolingBackward);

Specs infer(const MaxPoolPick& op, const Specs& in) {
  check_count("MaxPoolPick", in, 3);
  if (op.mode != PoolMode::MAX) fail_value("MaxPoolPick", "expected mode MAX");
  const Spec y = output("MaxPoolPick", op, in[1]);
  for (const Spec& v : in) {
    if (!is_float(v.dtype)) fail_type("MaxPoolPick", "expected floats, got ", v.dtype);
  }
  check_like("MaxPoolPick", "g", in[0], in[1]);
  check_like("MaxPoolPick", "y", in[2], y);
  return {y};
}
Keep keep(const MaxPoolPick&, std::uint32_t) { return {0b110, 0}; }
Values grad(const MaxPoolPick& op, const GradArgs& g) {
  return {call(same_windows<PoolingBackward>(op), g.dy[0], g.inputs[1], g.inputs[2]), {}, {}};
}
REGISTER_OP(MaxPoolPick);

namespace {

Pooling fixed(const AdaptivePooling& op, const Spec& x) {
  if (x.ndim() != 4) {
    fail_value("AdaptivePooling", "expected an input (N, C, H, W), got shape ", x.shape);
  }
  if (op.shape.size() != 2) {
    fail_value("AdaptivePooling", "expected two output sizes, got ", op.shape);
  }
  Pooling p{.mode = op.mode};
  for (int i = 0; i < 2; ++i) {
    const std::int64_t in = x.shape[2 + i], out = op.shape[i];
    if (out < 1 || out > in) {
      fail_value("AdaptivePooling", "expected output sizes from 1 to those of the input ", x.shape,
                 ", got ", op.shape);
    }
    const std::int64_t stride = in / out;
    (i == 0 ? p.stride_h : p.stride_w) = stride;
    (i == 0 ? p.window_h : p.window_w) = in - (out - 1) * stride;
  }
  return p;
}

}  // namespace

Values decompose(const AdaptivePooling& op, const Values& in) {
  if (in.size() != 1) fail_type("AdaptivePooling", "expected 1 input, got ", in.size());
  return {call(fixed(op, in[0].spec()), in[0])};
}
Specs infer(const AdaptivePooling& op, const Specs& in) {
  check_count("AdaptivePooling", in, 1);
  return infer(fixed(op, in[0]), in);
}
REGISTER_OP(AdaptivePooling);

}  // namespace mge
