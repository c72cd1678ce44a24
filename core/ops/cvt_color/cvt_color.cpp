#include "core/ops/cvt_color/cvt_color.h"

#include "core/ops/cvt_color/pixel_map.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/matmul/matmul.h"
#include "core/ops/shape/shape.h"

namespace mge {

bool from_planes(CvtColor::Mode mode) { return mode >= CvtColor::Mode::YUV2GRAY_NV21; }

bool to_gray(CvtColor::Mode mode) {
  using Mode = CvtColor::Mode;
  return mode == Mode::YUV2GRAY_NV21 || mode == Mode::YUV2GRAY_NV12 ||
         mode == Mode::YUV2GRAY_YV12 || mode == Mode::YUV2GRAY_YU12;
}

// Rows give the results in terms of what a pixel holds.
cpu::PixelMap pixel_map(CvtColor::Mode mode) {
  constexpr double r = 0.299, g = 0.587, b = 0.114;
  constexpr double u = 0.492, v = 0.877;
  switch (mode) {
    case CvtColor::Mode::RGB2GRAY:
      return {3, 1, {{r, g, b}}, {}};
    case CvtColor::Mode::BGR2GRAY:
      return {3, 1, {{b, g, r}}, {}};
    case CvtColor::Mode::RGBA2GRAY:
      return {4, 1, {{r, g, b, 0}}, {}};
    case CvtColor::Mode::RGB2YUV:
      return {3,
              3,
              {{b, g, r}, {u * (1 - b), -u * g, -u * r}, {-v * b, -v * g, v * (1 - r)}},
              {0, 0.5, 0.5}};
    case CvtColor::Mode::YUV2RGB:
      return {3,
              3,
              {{1, 2.032, 0}, {1, -0.395, -0.581}, {1, 0, 1.14}},
              {-0.5 * 2.032, 0.5 * (0.395 + 0.581), -0.5 * 1.14}};
    case CvtColor::Mode::GRAY2RGB:
      return {1, 3, {{1}, {1}, {1}}, {}};
    case CvtColor::Mode::RGBA2RGB:
      return {4, 3, {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}}, {}};
    case CvtColor::Mode::RGBA2BGR:
      return {4, 3, {{0, 0, 1, 0}, {0, 1, 0, 0}, {1, 0, 0, 0}}, {}};
    default:  // RGB2BGR and BGR2RGB
      return {3, 3, {{0, 0, 1}, {0, 1, 0}, {1, 0, 0}}, {}};
  }
}

Specs infer(const CvtColor& op, const Specs& in) {
  constexpr const char* name = "CvtColor";
  const char* mode = EnumNames<CvtColor::Mode>::names[static_cast<std::size_t>(op.mode)];
  if (in.size() != 1) fail_type(name, "expected 1 input, got ", in.size());
  const Spec& x = in[0];
  if (x.ndim() != 4) fail_value(name, "expected images (N, H, W, C), got shape ", x.shape);
  if (from_planes(op.mode)) {
    if (x.dtype != DType::uint8) {
      fail_type(name, "expected images of dtype uint8 for mode ", mode, ", got ", x.dtype);
    }
    if (x.shape[3] != 1 || x.shape[1] % 3 != 0 || x.shape[2] % 2 != 0) {
      fail_value(name, "expected images of shape (N, 3 H / 2, W, 1), H and W even, for mode ", mode,
                 ", got ", x.shape);
    }
    return {Spec(x.dtype, {x.shape[0], x.shape[1] / 3 * 2, x.shape[2], to_gray(op.mode) ? 1 : 3})};
  }
  if (!is_float(x.dtype) && x.dtype != DType::uint8) {
    fail_type(name, "expected images of a float dtype or uint8, got ", x.dtype);
  }
  const cpu::PixelMap map = pixel_map(op.mode);
  if (x.shape[3] != map.in) {
    fail_value(name, "expected images (N, H, W, ", map.in, ") for mode ", mode, ", got shape ",
               x.shape);
  }
  Shape y = x.shape;
  y[3] = map.out;
  count(y);
  return {Spec(x.dtype, y)};
}

Keep keep(const CvtColor&, std::uint32_t) { return {0, 0}; }

// dx = matrix^T dy in each pixel.
Values grad(const CvtColor& op, const GradArgs& g) {
  if (!g.dy[0]) return Values(1);
  const cpu::PixelMap map = pixel_map(op.mode);
  Value matrix = Value::empty(DType::float64, {map.out, map.in}, g.dy[0].device());
  double* to = static_cast<double*>(matrix.mut().data);
  for (int k = 0; k < map.out; ++k) std::copy_n(map.matrix[k], map.in, to + k * map.in);
  const Shape& x = g.in_specs[0].shape;
  const Value rows = reshape(g.dy[0], {x[0] * x[1] * x[2], map.out});
  return {reshape(matmul(rows, cast(matrix, rows.dtype())), x)};
}

REGISTER_OP(CvtColor);

}  // namespace mge
