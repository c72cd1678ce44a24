// The loop that adds windows up.
#pragma once

#include <array>
#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// Windows (images, channels, out_h, out_w, window_h, window_w) with any strides, in elements, over
// row-major planes of h x w.
struct WindowLayout {
  std::int64_t images, channels, h, w, out_h, out_w, window_h, window_w;
  std::int64_t stride_h, stride_w, pad_h, pad_w, dilate_h, dilate_w;
  std::array<std::int64_t, 6> step;
};

// planes = the sum of the windows on each pixel. float32, float16, bfloat16, float64, int32, int64.
MGE_DECLARE_SIMD(void, add_windows,
                 (DType dtype, const void* windows, void* planes, const WindowLayout& at));

}  // namespace mge::cpu
