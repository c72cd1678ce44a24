#include "core/ops/sampling/sample.h"

#include "core/kernels/cpu/packed.h"
#include "core/ops/creation/creation.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/indexing/indexing.h"
#include "core/ops/matmul/matmul.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

using std::int64_t;
using Mode = Elemwise::Mode;

constexpr int64_t kMostPixels = (int64_t{1} << 31) - 1;
// Two lengths, mirrored at the end, and a few taps fit an int32.
constexpr int64_t kMostAlongAxis = (int64_t{1} << 30) - 16;

void check_count(const char* op, std::size_t got, std::size_t least) {
  if (got != least && got != least + 1) {
    fail_type(op, "expected ", least, " or ", least + 1, " inputs, got ", got);
  }
}

void check_modes(const char* op, InterpolationMode mode, BorderMode border) {
  if (mode == InterpolationMode::AREA) {
    fail_value(op, "mode AREA is for resizing; expected NEAREST, LINEAR, CUBIC or LANCZOS4");
  }
  if (border == BorderMode::TRANSPARENT || border == BorderMode::ISOLATED) {
    fail_value(op, "expected a border REPLICATE, REFLECT, REFLECT_101, WRAP or CONSTANT, got ",
               EnumNames<BorderMode>::names[static_cast<std::size_t>(border)]);
  }
}

// The dtype of positions in images of this dtype.
DType map_dtype(DType image) { return cpu::compute_dtype(image); }

void check_map(const char* op, const Spec& map, DType image) {
  if (map.ndim() != 4 || map.shape[3] != 2) {
    fail_value(op, "expected a map of shape (M, height, width, 2), got ", map.shape);
  }
  if (map.dtype != map_dtype(image)) {
    fail_type(op, "expected a map of dtype ", map_dtype(image), " for images of dtype ", image,
              ", got ", map.dtype);
  }
}

void check_pixels(const char* op, int64_t height, int64_t width) {
  if (height > kMostAlongAxis || width > kMostAlongAxis || height * width > kMostPixels) {
    fail_value(op, "expected images of less than 2^31 pixels and 2^30 - 16 along each axis, got ",
               height, " x ", width);
  }
}

// One image for each map; `image`, where it is given, has an element for each.
void check_numbers(const char* op, int64_t images, int64_t maps, const Spec* image) {
  if (!image) {
    if (images != maps) {
      fail_value(op, "expected one map for each of ", images, " images, got ", maps);
    }
    return;
  }
  if (!is_integer(image->dtype)) {
    fail_type(op, "expected image numbers of an integer dtype, got ", image->dtype);
  }
  if (image->shape != Shape{maps}) {
    fail_value(op, "expected ", maps, " image numbers, one for each map, got shape ", image->shape);
  }
}

Strides format_like(const Spec& x, const Shape& shape) {
  const bool last = !is_row_major(x.shape, x.strides) && is_channels_last(x.shape, x.strides);
  return last ? channels_last(shape) : row_major(shape);
}

void check_images(const char* op, const Spec& x) {
  if (x.ndim() != 4) fail_value(op, "expected images (N, C, height, width), got shape ", x.shape);
  check_pixels(op, x.shape[2], x.shape[3]);
}

// Images without pixels cannot be read.
void check_readable(const char* op, int64_t height, int64_t width, const Shape& y) {
  if (height * width == 0 && count(y) > 0) {
    fail_value(op, "expected images with pixels, got ", height, " x ", width);
  }
}

}  // namespace

Specs infer(const Sample& op, const Specs& in) {
  check_count("Sample", in.size(), 2);
  const Spec &x = in[0], &map = in[1];
  check_images("Sample", x);
  check_modes("Sample", op.mode, op.border);
  if (!is_float(x.dtype) && x.dtype != DType::int8 && x.dtype != DType::uint8) {
    fail_type("Sample", "expected images of a float dtype, int8 or uint8, got ", x.dtype);
  }
  check_map("Sample", map, x.dtype);
  check_numbers("Sample", x.shape[0], map.shape[0], in.size() > 2 ? &in[2] : nullptr);
  const Shape y{map.shape[0], x.shape[1], map.shape[1], map.shape[2]};
  check_readable("Sample", x.shape[2], x.shape[3], y);
  return {Spec(x.dtype, y, format_like(x, y))};
}

Keep keep(const Sample&, std::uint32_t needs) { return {needs & 0b10u ? kAll : ~1u, 0}; }

Values grad(const Sample& op, const GradArgs& g) {
  Values out(g.in_specs.size());
  if (!g.dy[0]) return out;
  const Value& map = g.inputs[1];
  if (g.need(0)) {
    const Shape& x = g.in_specs[0].shape;
    Values in{g.dy[0], map};
    if (out.size() > 2) in.push_back(g.inputs[2]);
    out[0] = call_all(SampleBackwardData{op.mode, op.border, x[0], x[2], x[3]}, std::move(in))[0];
  }
  if (g.need(1)) {
    Values in{g.inputs[0], map, g.dy[0]};
    if (out.size() > 2) in.push_back(g.inputs[2]);
    out[1] = call_all(SampleBackwardMap{op.mode, op.border, op.border_value}, std::move(in))[0];
  }
  return out;
}

REGISTER_OP(Sample);

Specs infer(const SampleBackwardData& op, const Specs& in) {
  constexpr const char* name = "SampleBackwardData";
  check_count(name, in.size(), 2);
  const Spec &dy = in[0], &map = in[1];
  check_images(name, dy);
  check_modes(name, op.mode, op.border);
  if (!is_float(dy.dtype)) fail_type(name, "expected a float dtype, got ", dy.dtype);
  check_map(name, map, dy.dtype);
  if (op.number < 0 || op.height < 0 || op.width < 0) {
    fail_value(name, "expected sizes >= 0, got ", op.number, ", ", op.height, ", ", op.width);
  }
  check_pixels(name, op.height, op.width);
  check_numbers(name, op.number, map.shape[0], in.size() > 2 ? &in[2] : nullptr);
  const Shape y{map.shape[0], dy.shape[1], map.shape[1], map.shape[2]};
  if (dy.shape != y) fail_value(name, "expected dy of shape ", y, ", got ", dy.shape);
  check_readable(name, op.height, op.width, y);
  const Shape x{op.number, dy.shape[1], op.height, op.width};
  count(x);
  return {Spec(dy.dtype, x, format_like(dy, x))};
}

Keep keep(const SampleBackwardData&, std::uint32_t needs) {
  return {needs & 0b10u ? kAll : ~1u, 0};
}

// Linear in dy: <h, dx> is <sample(h), dy>.
Values grad(const SampleBackwardData& op, const GradArgs& g) {
  Values out(g.in_specs.size());
  if (!g.dy[0]) return out;
  const Value& map = g.inputs[1];
  if (g.need(0)) {
    Values in{g.dy[0], map};
    if (out.size() > 2) in.push_back(g.inputs[2]);
    out[0] = call_all(Sample{op.mode, op.border, 0}, std::move(in))[0];
  }
  if (g.need(1)) {
    Values in{g.dy[0], map, g.inputs[0]};
    if (out.size() > 2) in.push_back(g.inputs[2]);
    out[1] = call_all(SampleBackwardMap{op.mode, op.border, 0}, std::move(in))[0];
  }
  return out;
}

REGISTER_OP(SampleBackwardData);

Specs infer(const SampleBackwardMap& op, const Specs& in) {
  constexpr const char* name = "SampleBackwardMap";
  check_count(name, in.size(), 3);
  const Spec &x = in[0], &map = in[1], &dy = in[2];
  check_images(name, x);
  check_modes(name, op.mode, op.border);
  if (op.mode == InterpolationMode::LANCZOS4) {
    fail(ErrorKind::not_implemented, name,
         "positions have no gradient in mode LANCZOS4; expected LINEAR or CUBIC");
  }
  if (!is_float(x.dtype)) fail_type(name, "expected a float dtype, got ", x.dtype);
  check_map(name, map, x.dtype);
  check_numbers(name, x.shape[0], map.shape[0], in.size() > 3 ? &in[3] : nullptr);
  const Shape y{map.shape[0], x.shape[1], map.shape[1], map.shape[2]};
  if (dy.shape != y || dy.dtype != x.dtype) {
    fail_value(name, "expected dy of dtype ", x.dtype, " and shape ", y, ", got ", dy.dtype,
               " of shape ", dy.shape);
  }
  check_readable(name, x.shape[2], x.shape[3], y);
  return {Spec(map.dtype, map.shape)};
}

namespace {

// What a position reads along one axis of `size` pixels: the kernel's tables as tensors.
struct Taps {
  Values index;   // int32
  Values inside;  // CONSTANT: whether it is a pixel
  Values weight, slope;
};

// A whole number, as a float, as the number of the pixel that stands there.
Value pixel(const Value& at, int64_t size, BorderMode border) {
  const auto number = [&](double v) { return scalar_like(at, v); };
  const double n = static_cast<double>(size);
  const auto folded = [&](double period, double last) {
    const Value r = elemwise(Mode::MOD, at, number(period));
    return minimum(r, sub(number(last), r));
  };
  Value i;
  if (border == BorderMode::WRAP) {
    i = elemwise(Mode::MOD, at, number(n));
  } else if (border == BorderMode::REFLECT) {
    i = folded(2 * n, 2 * n - 1);
  } else if (border == BorderMode::REFLECT_101) {
    i = size == 1 ? mul(at, 0) : folded(2 * n - 2, 2 * n - 2);
  } else {
    i = at;
  }
  i = where(equal(i, i), i, number(0));  // NaN
  return cast(minimum(maximum(i, number(0)), number(n - 1)), DType::int32);
}

// c[0] + d (c[1] + d (c[2] + d c[3]))
Value cubic(const Value& d, std::array<double, 4> c) {
  Value sum = add(mul(d, c[3]), c[2]);
  sum = add(mul(sum, d), c[1]);
  return add(mul(sum, d), c[0]);
}

// The weights of filters.h and their derivatives.
void add_weights(InterpolationMode mode, const Value& t, Taps& to) {
  const Value rest = add(neg(t), 1.0);
  if (mode == InterpolationMode::LINEAR) {
    to.weight = {rest, t}, to.slope = {scalar_like(t, -1), scalar_like(t, 1)};
    return;
  }
  constexpr double a = -0.75;
  const std::array<double, 4> near{1, 0, -(a + 3), a + 2}, far{-4 * a, 8 * a, -5 * a, a};
  const std::array<double, 4> near_slope{0, -2 * (a + 3), 3 * (a + 2), 0};
  const std::array<double, 4> far_slope{8 * a, -10 * a, 3 * a, 0};
  const Value before = add(t, 1.0), behind = add(rest, 1.0);
  to.weight = {cubic(before, far), cubic(t, near), cubic(rest, near), cubic(behind, far)};
  to.slope = {cubic(before, far_slope), cubic(t, near_slope), neg(cubic(rest, near_slope)),
              neg(cubic(behind, far_slope))};
}

Taps taps_of(const Value& position, int64_t size, const SampleBackwardMap& op) {
  const int count = op.mode == InterpolationMode::LINEAR ? 2 : 4;
  Value at = position;
  const double n = static_cast<double>(size);
  if (op.border == BorderMode::REPLICATE || op.border == BorderMode::CONSTANT) {
    at = minimum(maximum(at, scalar_like(at, -count)), scalar_like(at, n + count - 1));
  }
  const Value whole = elemwise(Mode::FLOOR, at);
  Taps out;
  for (int k = 0; k < count; ++k) {
    const Value tap = add(whole, static_cast<double>(k + 1 - count / 2));
    out.index.push_back(pixel(tap, size, op.border));
    if (op.border != BorderMode::CONSTANT) continue;
    out.inside.push_back(elemwise(Mode::AND, less_equal(scalar_like(tap, 0), tap),
                                  less_equal(tap, scalar_like(tap, n - 1))));
  }
  add_weights(op.mode, sub(at, whole), out);
  return out;
}

}  // namespace

// The slopes of y = sum over r, c of weight_y[r] weight_x[c] v[r][c].
Values decompose(const SampleBackwardMap& op, const Values& in) {
  const Value &x = in[0], &map = in[1];
  const Shape& m = map.shape();
  if (op.mode == InterpolationMode::NEAREST) return {zeros(Spec(map.dtype(), m))};
  const int64_t points = m[1] * m[2], channels = x.shape()[1];
  const int64_t height = x.shape()[2], width = x.shape()[3];
  const Shape row{m[0], 1, points}, shape{m[0], channels, points};
  const Taps h = taps_of(reshape(slice(map, 3, 0, 1), row), width, op);
  const Taps v = taps_of(reshape(slice(map, 3, 1, 2), row), height, op);
  const Value images = in.size() > 3 ? take(x, in[3]) : x;
  const Value flat = cast(reshape(images, {m[0], channels, height * width}), map.dtype());
  const Value stride = scalar_like(v.index[0], static_cast<double>(width));
  const auto read = [&](std::size_t r, std::size_t c) {
    const Value index = add(mul(v.index[r], stride), h.index[c]);
    const Value at = gather(flat, 2, broadcast_to(index, shape));
    if (op.border != BorderMode::CONSTANT) return at;
    const Value inside = elemwise(Mode::AND, v.inside[r], h.inside[c]);
    return where(broadcast_to(inside, shape), at, scalar_like(at, op.border_value));
  };
  Value along_x, along_y;
  const auto accumulate = [](Value& to, const Value& v) { to = to ? add(to, v) : v; };
  for (std::size_t r = 0; r < v.index.size(); ++r) {
    for (std::size_t c = 0; c < h.index.size(); ++c) {
      const Value at = read(r, c);
      accumulate(along_x, mul(at, mul(v.weight[r], h.slope[c])));
      accumulate(along_y, mul(at, mul(v.slope[r], h.weight[c])));
    }
  }
  const Value dy = cast(reshape(in[2], shape), map.dtype());
  const Value dx_part = sum(mul(dy, along_x), {1}, false);
  const Value dy_part = sum(mul(dy, along_y), {1}, false);
  return {reshape(stack({dx_part, dy_part}, 2), m)};
}

REGISTER_OP(SampleBackwardMap);

// ---- positions from matrices --------------------------------------------------------------------

namespace {

void check_matrices(const char* op, const Spec& mat) {
  if (mat.ndim() != 3 || mat.shape[1] != 3 || mat.shape[2] != 3) {
    fail_value(op, "expected matrices of shape (M, 3, 3), got ", mat.shape);
  }
  if (mat.dtype != DType::float32 && mat.dtype != DType::float64) {
    fail_type(op, "expected matrices of dtype float32 or float64, got ", mat.dtype);
  }
}

// (3, height * width): column, row and 1 of each pixel.
Value pixel_columns(const Value& like, int64_t height, int64_t width) {
  const Shape grid{height, width};
  const Value columns = arange(width, like.dtype(), like.device());
  const Value rows = reshape(arange(height, like.dtype(), like.device()), {height, 1});
  const auto flat = [&](const Value& v) {
    return reshape(contiguous(broadcast_to(v, grid)), {height * width});
  };
  return stack({flat(columns), flat(rows), flat(scalar_like(like, 1))}, 0);
}

}  // namespace

Specs infer(const PerspectiveGrid& op, const Specs& in) {
  if (in.size() != 1) fail_type("PerspectiveGrid", "expected 1 input, got ", in.size());
  check_matrices("PerspectiveGrid", in[0]);
  if (op.height < 0 || op.width < 0) {
    fail_value("PerspectiveGrid", "expected a size >= 0, got ", op.height, " x ", op.width);
  }
  check_pixels("PerspectiveGrid", op.height, op.width);
  const Shape map{in[0].shape[0], op.height, op.width, 2};
  count(map);
  return {Spec(in[0].dtype, map)};
}

Values decompose(const PerspectiveGrid& op, const Values& in) {
  const Value &mat = in[0], columns = pixel_columns(mat, op.height, op.width);
  const int64_t maps = mat.shape()[0], points = op.height * op.width;
  const Value product = matmul(mat, broadcast_to(columns, {maps, 3, points}));
  const Value at = div(slice(product, 1, 0, 2), slice(product, 1, 2, 3));
  return {reshape(contiguous(transpose(at, {0, 2, 1})), {maps, op.height, op.width, 2})};
}

Keep keep(const PerspectiveGrid&, std::uint32_t) { return {kAll, 0}; }

Values grad(const PerspectiveGrid&, const GradArgs& g) {
  if (!g.dy[0]) return Values(1);
  return {call(PerspectiveGridBackward{}, g.inputs[0], g.dy[0])};
}

REGISTER_OP(PerspectiveGrid);

Specs infer(const PerspectiveGridBackward&, const Specs& in) {
  constexpr const char* name = "PerspectiveGridBackward";
  if (in.size() != 2) fail_type(name, "expected 2 inputs, got ", in.size());
  check_matrices(name, in[0]);
  check_map(name, in[1], in[0].dtype);
  if (in[1].shape[0] != in[0].shape[0]) {
    fail_value(name, "expected one map for each of ", in[0].shape[0], " matrices, got ",
               in[1].shape[0]);
  }
  return {Spec(in[0].dtype, in[0].shape)};
}

Values decompose(const PerspectiveGridBackward&, const Values& in) {
  const Value &mat = in[0], &dmap = in[1];
  const int64_t maps = mat.shape()[0], height = dmap.shape()[1], width = dmap.shape()[2];
  const int64_t points = height * width;
  const Value columns = broadcast_to(pixel_columns(mat, height, width), {maps, 3, points});
  const Value product = matmul(mat, columns);
  const Value w = slice(product, 1, 2, 3);
  const Value du = div(transpose(reshape(dmap, {maps, points, 2}), {0, 2, 1}), w);
  const Value dw = neg(sum(mul(du, div(slice(product, 1, 0, 2), w)), {1}, true));
  return {matmul(concat({du, dw}, 1), columns, false, true)};
}

REGISTER_OP(PerspectiveGridBackward);

}  // namespace mge
