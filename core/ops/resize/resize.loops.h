// Separable linear maps over the spatial axes of images.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/ops/resize/axis_taps.h"

namespace mge::cpu {

// x: images of in-depth x in-height x in-width pixels with `pitch` elements each, packed; y: the
// same of the other sizes.
struct Resample {
  std::int64_t images, pitch;
  const AxisTaps &depth, &height, &width;
};

// float dtypes, int8 and uint8, which are rounded. Sums are taken in float32, or in float64 where
// they are long.
MGE_DECLARE_SIMD(void, resample, (DType dtype, const void* x, void* y, const Resample& at));

}  // namespace mge::cpu
