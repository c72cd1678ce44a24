#include "core/ops/resize/resize.h"

#include "core/kernels/cpu/copy.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

constexpr std::int64_t kMostSize = (std::int64_t{1} << 31) - 1;

void check_count(const char* op, std::size_t got, std::size_t count) {
  if (got != count) fail_type(op, "expected ", count, " inputs, got ", got);
}

// Channels-last where x is that and not row-major as well, else row-major.
Strides format_like(const Spec& x, const Shape& shape) {
  const bool last = !is_row_major(x.shape, x.strides) && is_channels_last(x.shape, x.strides);
  return last ? channels_last(shape) : row_major(shape);
}

// (N, C, size...) for an input (N, C, spatial...).
Shape resized(const char* op, const Shape& x, const Dims& size) {
  if (x.size() < 3 || x.size() > 5) {
    fail_value(op, "expected an input (N, C, spatial...) with 1 to 3 spatial axes, got shape ", x);
  }
  if (size.size() != x.size() - 2) {
    fail_value(op, "expected a size for each of ", x.size() - 2, " spatial axes, got ", size);
  }
  Shape out{x[0], x[1]};
  for (int i = 0; i < size.size(); ++i) {
    if (size[i] < 1 || size[i] > kMostSize) {
      fail_value(op, "expected output sizes from 1 to 2^31 - 1, got ", size);
    }
    if (x[2 + i] < 1 || x[2 + i] > kMostSize) {
      fail_value(op, "expected spatial sizes from 1 to 2^31 - 1, got an input of shape ", x);
    }
    out.push_back(size[i]);
  }
  count(out);
  return out;
}

bool takes(InterpolationMode mode, DType dtype) {
  return mode == InterpolationMode::NEAREST || is_float(dtype) || dtype == DType::int8 ||
         dtype == DType::uint8;
}

}  // namespace

Specs infer(const Interpolate& op, const Specs& in) {
  check_count("Interpolate", in.size(), 1);
  const Spec& x = in[0];
  const Shape shape = resized("Interpolate", x.shape, op.size);
  if (!takes(op.mode, x.dtype)) {
    fail_type("Interpolate", "expected an input of a float dtype, int8 or uint8, got ", x.dtype);
  }
  return {Spec(x.dtype, shape, format_like(x, shape))};
}

Keep keep(const Interpolate&, std::uint32_t) { return {0, 0}; }

// Linear: each of the two is the gradient of the other.
Values grad(const Interpolate& op, const GradArgs& g) {
  if (!g.dy[0]) return Values(1);
  Dims size = g.in_specs[0].shape;
  size.erase(0);
  size.erase(0);
  return {call(InterpolateBackward{size, op.mode, op.align_corners}, g.dy[0])};
}

REGISTER_OP(Interpolate);

Specs infer(const InterpolateBackward& op, const Specs& in) {
  check_count("InterpolateBackward", in.size(), 1);
  const Spec& dy = in[0];
  const Shape shape = resized("InterpolateBackward", dy.shape, op.size);
  if (!is_float(dy.dtype)) {
    fail_type("InterpolateBackward", "expected a float dtype, got ", dy.dtype);
  }
  return {Spec(dy.dtype, shape, format_like(dy, shape))};
}

Keep keep(const InterpolateBackward&, std::uint32_t) { return {0, 0}; }

Values grad(const InterpolateBackward& op, const GradArgs& g) {
  if (!g.dy[0]) return Values(1);
  Dims size = g.in_specs[0].shape;
  size.erase(0);
  size.erase(0);
  return {call(Interpolate{size, op.mode, op.align_corners}, g.dy[0])};
}

REGISTER_OP(InterpolateBackward);

Dims size_input(const char* op, const Value& v, int count) {
  if (v.ndim() != 1 || v.shape()[0] != count || !is_integer(v.dtype())) {
    fail_type(op, "expected the size as an integer tensor of ", count, " elements, got ", v.dtype(),
              " of shape ", v.shape());
  }
  Dims out = Dims::filled(count, 0);
  cpu::copy(v.view(), {out.begin(), DType::int64, v.shape(), row_major(v.shape())});
  return out;
}

Value channels_first(const Value& x) {
  Dims pattern{0, x.ndim() - 1};
  for (int i = 1; i + 1 < x.ndim(); ++i) pattern.push_back(i);
  return transpose(x, pattern);
}

Value channels_behind(const Value& x) {
  Dims pattern{0};
  for (int i = 2; i < x.ndim(); ++i) pattern.push_back(i);
  pattern.push_back(1);
  return transpose(x, pattern);
}

namespace {

Value resize(const char* op, const Values& in, int axes, bool behind, InterpolationMode mode,
             bool align_corners) {
  check_count(op, in.size(), 2);
  if (in[0].ndim() != axes + 2) {
    fail_value(op, "expected an input of ", axes + 2, " dimensions, got shape ", in[0].shape());
  }
  const Interpolate inner{size_input(op, in[1], axes), mode, align_corners};
  if (!behind) return call(inner, in[0]);
  return channels_behind(call(inner, channels_first(in[0])));
}

}  // namespace

Values decompose(const Resize& op, const Values& in) {
  return {resize("Resize", in, 2, op.format == ImageFormat::NHWC, op.imode, false)};
}
Values execute(const Resize& op, Values& in) { return decompose(op, in); }
REGISTER_OP(Resize);

Values decompose(const Resize3D& op, const Values& in) {
  return {resize("Resize3D", in, 3, op.format == VolumeFormat::NDHWC, op.imode, op.align_corners)};
}
Values execute(const Resize3D& op, Values& in) { return decompose(op, in); }
REGISTER_OP(Resize3D);

}  // namespace mge
