#include <optional>
#include <string_view>

#include "core/kernels/cpu/packed.h"
#include "core/ops/cvt_color/pixel_map.h"

namespace mge {
namespace {

using std::int64_t;
using std::uint8_t;
using Mode = CvtColor::Mode;

bool selects(Mode mode) {
  return mode == Mode::GRAY2RGB || mode == Mode::RGBA2RGB || mode == Mode::RGBA2BGR ||
         mode == Mode::RGB2BGR || mode == Mode::BGR2RGB;
}

// Modes that only move elements.
void select(const View& x, const MutView& y, const cpu::PixelMap& map) {
  for (int k = 0; k < map.out; ++k) {
    int c = 0;
    while (map.matrix[k][c] == 0) ++c;
    const int64_t size = size_of(x.dtype);
    Shape shape = x.shape;
    shape[3] = 1;
    const View from{x.ptr<char>() + c * x.strides[3] * size, x.dtype, shape, x.strides};
    cpu::copy(from, {y.ptr<char>() + k * y.strides[3] * size, y.dtype, shape, y.strides});
  }
}

// Where the chroma of an image of height x width pixels lies behind its Y.
cpu::ChromaLayout chroma_of(std::string_view mode, int64_t height, int64_t width) {
  const int64_t quarter = height / 2 * (width / 2), half = width / 2;
  if (mode.ends_with("NV12")) return {0, 1, width, 2};
  if (mode.ends_with("YU12")) return {0, quarter, half, 1};
  if (mode.ends_with("YV12")) return {quarter, 0, half, 1};
  return {1, 0, width, 2};  // NV21, YCrCb
}

void convert_planes(Mode mode, const View& x, const MutView& y) {
  const std::string_view name = EnumNames<Mode>::names[static_cast<std::size_t>(mode)];
  const int64_t height = y.shape[1], width = y.shape[2];
  const cpu::Packed packed(x);
  MGE_DISPATCH(from_planes)
  (packed.as<uint8_t>(), y.ptr<uint8_t>(),
   {.images = y.shape[0],
    .height = height,
    .width = width,
    .chroma = chroma_of(name, height, width),
    .gray = to_gray(mode),
    .video_range = name.starts_with("BT601"),
    .blue_first = name.find("2BGR") != std::string_view::npos});
}

void convert_bytes(Mode mode, const View& x, const MutView& y, const cpu::PixelMap& map) {
  const cpu::Packed packed(x);
  const uint8_t* from = packed.as<uint8_t>();
  uint8_t* to = y.ptr<uint8_t>();
  const int64_t pixels = x.size() / map.in;
  if (mode == Mode::RGB2YUV) return MGE_DISPATCH(bgr_to_yuv)(from, to, pixels);
  if (mode == Mode::YUV2RGB) return MGE_DISPATCH(yuv_to_bgr)(from, to, pixels);
  const bool blue_first = mode == Mode::BGR2GRAY;
  MGE_DISPATCH(gray_pixels)
  (from, to, pixels, map.in, blue_first ? 2 : 0, blue_first ? 0 : 2);
}

}  // namespace

void kernel(const CvtColor& op, CpuContext&, Views in, MutViews out) {
  const View& x = in[0];
  const MutView& y = out[0];
  if (y.size() == 0) return;
  if (from_planes(op.mode)) return convert_planes(op.mode, x, y);
  const cpu::PixelMap map = pixel_map(op.mode);
  if (selects(op.mode)) return select(x, y, map);
  if (x.dtype == DType::uint8) return convert_bytes(op.mode, x, y, map);
  const DType dtype = cpu::compute_dtype(x.dtype);
  const cpu::Packed packed(x, dtype);
  const int64_t pixels = x.size() / map.in;
  if (dtype == y.dtype) return MGE_DISPATCH(map_pixels)(dtype, packed.data(), y.data, pixels, map);
  const Scratch wide(static_cast<std::size_t>(y.size() * size_of(dtype)));
  MGE_DISPATCH(map_pixels)(dtype, packed.data(), wide.as<void>(), pixels, map);
  cpu::copy({wide.as<void>(), dtype, y.shape, y.strides}, y);
}
REGISTER_KERNEL(CvtColor, cpu);

}  // namespace mge
