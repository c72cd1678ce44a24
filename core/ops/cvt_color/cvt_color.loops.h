// The loops of colour conversion.
#pragma once

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// out[k] = bias[k] + sum over c of matrix[k][c] * in[c], for each pixel. Products with 0 are left
// out.
struct PixelMap {
  int in, out;
  double matrix[3][4];
  double bias[3];
};

// float32 or float64.
MGE_DECLARE_SIMD(void, map_pixels,
                 (DType dtype, const void* x, void* y, std::int64_t pixels, const PixelMap& map));

// uint8, with weights in units of 2^-14: y = (0.299 r + 0.587 g + 0.114 b), where r, g and b are
// the positions of the colours in a pixel of `channels` elements.
MGE_DECLARE_SIMD(void, gray_pixels,
                 (const std::uint8_t* x, std::uint8_t* y, std::int64_t pixels, int channels, int r,
                  int b));
MGE_DECLARE_SIMD(void, bgr_to_yuv, (const std::uint8_t* x, std::uint8_t* y, std::int64_t pixels));
MGE_DECLARE_SIMD(void, yuv_to_bgr, (const std::uint8_t* x, std::uint8_t* y, std::int64_t pixels));

// Where U and V of a 2 x 2 block lie, in units of blocks: first + row * row_step + column * step.
struct ChromaLayout {
  std::int64_t u, v, row_step, step;
};
struct PlanarImage {
  std::int64_t images, height, width;
  ChromaLayout chroma;
  bool gray;
  bool video_range;  // BT.601: Y from 16 to 235
  bool blue_first;
};
MGE_DECLARE_SIMD(void, from_planes,
                 (const std::uint8_t* x, std::uint8_t* y, const PlanarImage& at));

}  // namespace mge::cpu
