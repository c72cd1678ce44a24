#include "core/ops/sliding_window/sliding_window.h"

#include "core/ops/padding/padding.h"

namespace mge {
namespace {

using std::int64_t;

constexpr int64_t kMost = int64_t{1} << 31;

template <class T>
void check_window(const char* op, const T& a) {
  for (int64_t v : {a.stride_h, a.stride_w, a.dilate_h, a.dilate_w, a.window_h, a.window_w}) {
    if (v < 1 || v >= kMost) {
      fail_value(op, "expected a stride, dilation and window from 1 to 2^31 - 1, got ", v);
    }
  }
  for (int64_t v : {a.pad_h, a.pad_w}) {
    if (v < 0 || v >= kMost) fail_value(op, "expected a padding from 0 to 2^31 - 1, got ", v);
  }
}

// How many windows of `window` taps fit along an axis.
int64_t windows(const char* op, const char* axis, int64_t size, int64_t pad, int64_t window,
                int64_t dilate, int64_t stride) {
  const int64_t padded = size + 2 * pad;
  const int64_t covers = (window - 1) * dilate + 1;  // below 2^62
  if (covers > padded) {
    fail_value(op, "expected a window within the padded ", axis, " of ", padded, ", got one of ",
               window, " with dilation ", dilate);
  }
  return (padded - covers) / stride + 1;
}

template <class T>
Shape windows_shape(const char* op, const T& a, const Shape& x) {
  check_window(op, a);
  return {x[0],
          x[1],
          windows(op, "height", x[2], a.pad_h, a.window_h, a.dilate_h, a.stride_h),
          windows(op, "width", x[3], a.pad_w, a.window_w, a.dilate_w, a.stride_w),
          a.window_h,
          a.window_w};
}

template <class To, class From>
To same_windows(const From& op) {
  To to;
  to.pad_h = op.pad_h, to.pad_w = op.pad_w;
  to.stride_h = op.stride_h, to.stride_w = op.stride_w;
  to.dilate_h = op.dilate_h, to.dilate_w = op.dilate_w;
  to.window_h = op.window_h, to.window_w = op.window_w;
  return to;
}

}  // namespace

Specs infer(const Images2Neibs& op, const Specs& in) {
  if (in.size() != 1) fail_type("Images2Neibs", "expected 1 input, got ", in.size());
  const Shape& x = in[0].shape;
  if (x.size() != 4) fail_value("Images2Neibs", "expected (N, C, H, W), got shape ", x);
  const Shape out = windows_shape("Images2Neibs", op, x);
  count(out);
  return {Spec(in[0].dtype, out)};
}

Values execute(const Images2Neibs& op, Values& in) {
  Specs specs;
  for (const Value& v : in) specs.push_back(v.spec());
  const Shape out = infer(op, specs)[0].shape;
  Value x = in[0];
  if (op.pad_h || op.pad_w) {
    Spec spec = x.spec();
    spec.shape[2] += 2 * op.pad_h;
    spec.shape[3] += 2 * op.pad_w;
    spec.strides = dense_like(spec.shape, x.strides());
    Value padded = Value::empty(spec);
    if (padded.size() > 0) {
      const Dims widths{0, 0, op.pad_h, op.pad_w};
      pad_constant(x.view(), {widths, widths}, 0, padded.mut());
    }
    x = padded;
  }
  const Strides& s = x.strides();
  return {x.alias(out, Strides{s[0], s[1], s[2] * op.stride_h, s[3] * op.stride_w,
                               s[2] * op.dilate_h, s[3] * op.dilate_w})};
}

Keep keep(const Images2Neibs&, std::uint32_t) { return {0, 0}; }
Values grad(const Images2Neibs& op, const GradArgs& g) {
  auto back = same_windows<SlidingWindowTranspose>(op);
  back.out_h = g.in_specs[0].shape[2], back.out_w = g.in_specs[0].shape[3];
  return {call(back, g.dy[0])};
}
REGISTER_OP(Images2Neibs);

Specs infer(const SlidingWindowTranspose& op, const Specs& in) {
  const char* name = "SlidingWindowTranspose";
  if (in.size() != 1) fail_type(name, "expected 1 input, got ", in.size());
  const Shape& x = in[0].shape;
  if (is_bool(in[0].dtype)) fail_type(name, "expected numbers, got bool");
  if (x.size() != 6) {
    fail_value(name, "expected windows of shape (N, C, OH, OW, window_h, window_w), got ", x);
  }
  if (op.out_h < 1 || op.out_w < 1 || op.out_h >= kMost || op.out_w >= kMost) {
    fail_value(name, "expected an output size from 1 to 2^31 - 1, got ", op.out_h, " x ", op.out_w);
  }
  const Shape out{x[0], x[1], op.out_h, op.out_w};
  const Shape want = windows_shape(name, op, out);
  if (x != want) {
    fail_value(name, "expected windows of shape ", want, " for an output of ", op.out_h, " x ",
               op.out_w, ", got ", x);
  }
  count(out);
  const DType dtype = in[0].dtype;
  const bool narrow = is_integer(dtype) && size_of(dtype) < 4;
  return {Spec(narrow ? DType::int32 : dtype, out)};
}

Keep keep(const SlidingWindowTranspose&, std::uint32_t) { return {0, 0}; }
Values grad(const SlidingWindowTranspose& op, const GradArgs& g) {
  return {call(same_windows<Images2Neibs>(op), g.dy[0])};
}
REGISTER_OP(SlidingWindowTranspose);

}  // namespace mge
