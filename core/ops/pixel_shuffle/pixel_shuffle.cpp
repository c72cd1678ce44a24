#include "core/ops/pixel_shuffle/pixel_shuffle.h"

#include "core/kernels/cpu/copy.h"
#include "core/kernels/cpu/packed.h"
#include "core/ops/batch_norm/batch_norm.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

using std::int64_t;

constexpr int64_t kMostFactor = int64_t{1} << 20;

// The format of the input, where that has one.
Strides format_like(const Spec& x, const Shape& shape) {
  const bool last = x.ndim() == 4 && image_strides(x) != row_major(x.shape);
  return last ? channels_last(shape) : row_major(shape);
}

void check(const char* op, int64_t factor, const Specs& in) {
  if (in.size() != 1) fail_type(op, "expected 1 input, got ", in.size());
  if (in[0].ndim() < 3) fail_value(op, "expected (..., C, H, W), got shape ", in[0].shape);
  if (factor < 1 || factor > kMostFactor) {
    fail_value(op, "expected a factor from 1 to 2^20, got ", factor);
  }
}

// A tensor (..., C, H factor, W factor) as (C, factor, factor, H, W), between a first axis that
// holds all leading ones; `data` is the other side in the same order of axes.
struct Sides {
  Shape shape;
  Strides small, large;
};
Sides sides(int64_t r, const Shape& many, const Strides& many_strides, const Strides& few_strides) {
  return {{many[0], many[1] / (r * r), r, r, many[2], many[3]},
          {many_strides[0], many_strides[1] * r * r, many_strides[1] * r, many_strides[1],
           many_strides[2], many_strides[3]},
          {few_strides[0], few_strides[1], few_strides[2], few_strides[3], few_strides[2] * r,
           few_strides[3] * r}};
}

// (..., C, H, W) with the leading axes made one.
Shape merged(const Shape& shape) {
  const int n = shape.size();
  Shape out{1, shape[n - 3], shape[n - 2], shape[n - 1]};
  for (int i = 0; i < n - 3; ++i) out[0] *= shape[i];
  return out;
}

// Runs f(view with four axes) on x, copied where its leading axes cannot be merged.
template <class F>
void with_four_axes(const View& x, F&& f) {
  const Shape shape = merged(x.shape);
  if (const auto strides = reshape_strides(x.shape, x.strides, shape)) {
    return f(View{x.data, x.dtype, shape, *strides});
  }
  const cpu::Packed packed(x);
  f(View{packed.data(), x.dtype, shape, row_major(shape)});
}

}  // namespace

Specs infer(const PixelShuffle& op, const Specs& in) {
  check("PixelShuffle", op.factor, in);
  Shape out = in[0].shape;
  const int c = out.size() - 3;
  if (out[c] % (op.factor * op.factor) != 0) {
    fail_value("PixelShuffle", "expected channels divisible by ", op.factor * op.factor,
               ", got shape ", out);
  }
  out[c] /= op.factor * op.factor;
  for (int i : {c + 1, c + 2}) {
    if (__builtin_mul_overflow(out[i], op.factor, &out[i])) {
      fail_value("PixelShuffle", "a factor of ", op.factor, " is too large for shape ",
                 in[0].shape);
    }
  }
  count(out);
  return {Spec(in[0].dtype, out, format_like(in[0], out))};
}
Keep keep(const PixelShuffle&, std::uint32_t) { return {0, 0}; }
Values grad(const PixelShuffle& op, const GradArgs& g) {
  return {call(PixelShuffleBackward{op.factor}, g.dy[0])};
}
REGISTER_OP(PixelShuffle);

void kernel(const PixelShuffle& op, CpuContext&, Views in, MutViews out) {
  if (out[0].size() == 0) return;
  with_four_axes(in[0], [&](const View& x) {
    const MutView& y = out[0];
    const Shape few = merged(y.shape);
    const Strides strides = *reshape_strides(y.shape, y.strides, few);
    const Sides s = sides(op.factor, x.shape, x.strides, strides);
    cpu::copy({x.data, x.dtype, s.shape, s.small}, {y.data, y.dtype, s.shape, s.large});
  });
}
REGISTER_KERNEL(PixelShuffle, cpu);

Specs infer(const PixelShuffleBackward& op, const Specs& in) {
  check("PixelShuffleBackward", op.factor, in);
  Shape out = in[0].shape;
  const int c = out.size() - 3;
  if (out[c + 1] % op.factor != 0 || out[c + 2] % op.factor != 0) {
    fail_value("PixelShuffleBackward", "expected a height and width divisible by ", op.factor,
               ", got shape ", out);
  }
  out[c + 1] /= op.factor;
  out[c + 2] /= op.factor;
  if (__builtin_mul_overflow(out[c], op.factor * op.factor, &out[c])) {
    fail_value("PixelShuffleBackward", "a factor of ", op.factor, " is too large for shape ",
               in[0].shape);
  }
  count(out);
  return {Spec(in[0].dtype, out, format_like(in[0], out))};
}
Keep keep(const PixelShuffleBackward&, std::uint32_t) { return {0, 0}; }
Values grad(const PixelShuffleBackward& op, const GradArgs& g) {
  return {call(PixelShuffle{op.factor}, g.dy[0])};
}
REGISTER_OP(PixelShuffleBackward);

void kernel(const PixelShuffleBackward& op, CpuContext&, Views in, MutViews out) {
  if (out[0].size() == 0) return;
  with_four_axes(in[0], [&](const View& dy) {
    const MutView& dx = out[0];
    const Shape many = merged(dx.shape);
    const Strides strides = *reshape_strides(dx.shape, dx.strides, many);
    const Sides s = sides(op.factor, many, strides, dy.strides);
    cpu::copy({dy.data, dy.dtype, s.shape, s.large}, {dx.data, dx.dtype, s.shape, s.small});
  });
}
REGISTER_KERNEL(PixelShuffleBackward, cpu);

}  // namespace mge
