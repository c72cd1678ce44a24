#include "core/ops/pooling/pooling.h"

#include "core/ops/batch_norm/batch_norm.h"
#include "core/ops/pooling/pooling.loops.h"

namespace mge {
namespace {

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
Shape output_shape(const char* name, const Op& op, const Shape& x) {
  return {x[0], x[1], out_size(name, "height", x[2], op.window_h, op.stride_h, op.pad_h),
          out_size(name, "width", x[3], op.window_w, op.stride_w, op.pad_w)};
}

template <class Op>
DType index_dtype(const Op& op) {
  return cpu::pool_index_dtype(op.window_h * op.window_w);
}

// Strides of `shape` in the memory format of `like`.
Strides format_like(const Spec& like, const Shape& shape) {
  const bool last = image_strides(like) != row_major(like.shape);
  return last ? channels_last(shape) : row_major(shape);
}

void check_count(const char* op, const Specs& in, std::size_t count) {
  if (in.size() != count) fail_type(op, "expected ", count, " inputs, got ", in.size());
}

// The shape of what was pooled, for an op that has its height and width as fields; `small` is what
// came out.
template <class Op>
Shape check_small(const char* name, const Op& op, const Spec& small) {
  if (small.ndim() != 4) fail_value(name, "expected (N, C, H, W), got shape ", small.shape);
  if (op.height < 0 || op.width < 0) {
    fail_value(name, "expected a size >= 0, got ", op.height, " x ", op.width);
  }
  const Shape large{small.shape[0], small.shape[1], op.height, op.width};
  const Shape want = output_shape(name, op, large);
  if (small.shape != want) {
    fail_value(name, "expected shape ", want, ", got ", small.shape);
  }
  count(large);
  return large;
}

void check_float(const char* name, const Spec& v) {
  if (!is_float(v.dtype)) fail_type(name, "expected a float dtype, got ", v.dtype);
}

template <class Op>
void check_index(const char* name, const Op& op, const Spec& index) {
  if (index.dtype != index_dtype(op)) {
    fail_type(name, "expected an index of dtype ", index_dtype(op), ", got ", index.dtype);
  }
}

template <class To, class From>
To same_windows(const From& op) {
  To to;
  to.mode = op.mode;
  to.pad_h = op.pad_h, to.pad_w = op.pad_w;
  to.stride_h = op.stride_h, to.stride_w = op.stride_w;
  to.window_h = op.window_h, to.window_w = op.window_w;
  return to;
}

template <class To, class From>
To same_windows_over(const From& op, std::int64_t height, std::int64_t width) {
  To to = same_windows<To>(op);
  to.height = height, to.width = width;
  return to;
}

}  // namespace

Specs infer(const Pooling& op, const Specs& in) {
  check_count("Pooling", in, 1);
  const Spec& x = in[0];
  if (x.ndim() != 4) fail_value("Pooling", "expected an input (N, C, H, W), got shape ", x.shape);
  const bool max = op.mode == PoolMode::MAX;
  const bool small_integer = x.dtype == DType::int8 || x.dtype == DType::uint8;
  if (!is_float(x.dtype) && !(max && small_integer)) {
    fail_type("Pooling", "expected an input of a float dtype (or int8, uint8 for maxima), got ",
              x.dtype);
  }
  const Shape shape = output_shape("Pooling", op, x.shape);
  const Strides strides = format_like(x, shape);
  if (!max) return {Spec(x.dtype, shape, strides)};
  return {Spec(x.dtype, shape, strides), Spec(index_dtype(op), shape, strides)};
}

Keep keep(const Pooling& op, std::uint32_t) { return {0, op.mode == PoolMode::MAX ? 0b10u : 0u}; }

Values grad(const Pooling& op, const GradArgs& g) {
  if (!g.dy[0]) return Values(1);
  const Shape& x = g.in_specs[0].shape;
  const auto back = same_windows_over<PoolingBackward>(op, x[2], x[3]);
  if (op.mode != PoolMode::MAX) return {call(back, g.dy[0])};
  return {call(back, g.dy[0], g.outputs[1])};
}

REGISTER_OP(Pooling);

Specs infer(const PoolingBackward& op, const Specs& in) {
  const bool max = op.mode == PoolMode::MAX;
  check_count("PoolingBackward", in, max ? 2 : 1);
  const Spec& dy = in[0];
  check_float("PoolingBackward", dy);
  const Shape shape = check_small("PoolingBackward", op, dy);
  if (!max) return {Spec(dy.dtype, shape, format_like(dy, shape))};
  check_index("PoolingBackward", op, in[1]);
  check_small("PoolingBackward", op, in[1]);
  if (in[1].shape != dy.shape) {
    fail_value("PoolingBackward", "expected an index of shape ", dy.shape, ", got ", in[1].shape);
  }
  return {Spec(dy.dtype, shape, format_like(in[1], shape))};
}

Keep keep(const PoolingBackward& op, std::uint32_t) {
  return {op.mode == PoolMode::MAX ? 0b10u : 0u, 0};
}

// Linear in dy; which element has the maximum does not move with it.
Values grad(const PoolingBackward& op, const GradArgs& g) {
  if (op.mode != PoolMode::MAX) return {call(same_windows<Pooling>(op), g.dy[0])};
  const auto pick = same_windows_over<MaxPoolPick>(op, op.height, op.width);
  return {call(pick, g.dy[0], g.inputs[1]), {}};
}

REGISTER_OP(PoolingBackward);

Specs infer(const MaxPoolPick& op, const Specs& in) {
  check_count("MaxPoolPick", in, 2);
  if (op.mode != PoolMode::MAX) fail_value("MaxPoolPick", "expected mode MAX");
  check_float("MaxPoolPick", in[0]);
  check_index("MaxPoolPick", op, in[1]);
  const Shape large = check_small("MaxPoolPick", op, in[1]);
  if (in[0].shape != large) {
    fail_value("MaxPoolPick", "expected g of shape ", large, ", got ", in[0].shape);
  }
  return {Spec(in[0].dtype, in[1].shape, format_like(in[1], in[1].shape))};
}

Keep keep(const MaxPoolPick&, std::uint32_t) { return {0b10, 0}; }

Values grad(const MaxPoolPick& op, const GradArgs& g) {
  const auto back = same_windows_over<PoolingBackward>(op, op.height, op.width);
  return {call(back, g.dy[0], g.inputs[1]), {}};
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
  return call_all(fixed(op, in[0].spec()), in);
}
Specs infer(const AdaptivePooling& op, const Specs& in) {
  check_count("AdaptivePooling", in, 1);
  return infer(fixed(op, in[0]), in);
}
REGISTER_OP(AdaptivePooling);

}  // namespace mge
