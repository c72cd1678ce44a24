// The loops behind sampling.
#pragma once

#include "core/kernels/cpu/simd.h"
#include "core/ops/sampling/sample.h"

namespace mge::cpu {

struct SampleLayout {
  std::int64_t images, maps, channels, height, width, out_height, out_width;
  bool channels_last;  // of images and results; else row-major
  InterpolationMode mode;
  BorderMode border;
  double border_value;
  const std::int32_t* image;  // of each map, in range; null: its own
  std::int64_t points() const { return out_height * out_width; }
  std::int64_t pixels() const { return height * width; }
  std::int64_t image_of(std::int64_t map) const { return image ? image[map] : map; }
};

// x of float32 or float64 (with a map of the same dtype), int8 or uint8 (with one of float32).
MGE_DECLARE_SIMD(void, sample,
                 (DType dtype, const void* x, const void* map, void* y, const SampleLayout& at));
// float32 or float64, for all operands.
MGE_DECLARE_SIMD(void, sample_backward_data,
                 (DType dtype, const void* dy, const void* map, void* dx, const SampleLayout& at));
MGE_DECLARE_SIMD(void, sample_backward_map,
                 (DType dtype, const void* x, const void* map, const void* dy, void* dmap,
                  const SampleLayout& at));
MGE_DECLARE_SIMD(void, perspective_grid,
                 (DType dtype, const void* mat, void* map, std::int64_t maps, std::int64_t height,
                  std::int64_t width));
MGE_DECLARE_SIMD(void, perspective_grid_backward,
                 (DType dtype, const void* mat, const void* dmap, void* dmat, std::int64_t maps,
                  std::int64_t height, std::int64_t width));

}  // namespace mge::cpu
