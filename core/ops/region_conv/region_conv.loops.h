// The loops of depthwise convolutions that are restricted to regions.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// Images (batch, h, w, channels) and (batch, out_h, out_w, channels), channels side by side;
// weights (kernel_h, kernel_w, channels); regions (batch, h, w) and (batch, out_h, out_w).
struct RegionLayout {
  std::int64_t batch, channels, h, w, out_h, out_w, kernel_h, kernel_w;
  std::int64_t stride_h, stride_w, pad_h, pad_w, dilate_h, dilate_w;
  const std::int64_t* rin;
  const std::int64_t* rout;

  std::int64_t taps() const { return kernel_h * kernel_w; }
};

// All operands float32 or float64; every element of the last one is written.
MGE_DECLARE_SIMD(void, region_forward,
                 (DType dtype, const void* x, const void* weight, void* y, const RegionLayout& at));
MGE_DECLARE_SIMD(void, region_backward_data,
                 (DType dtype, const void* weight, const void* dy, void* dx,
                  const RegionLayout& at));
MGE_DECLARE_SIMD(void, region_backward_filter,
                 (DType dtype, const void* x, const void* dy, void* dw, const RegionLayout& at));

}  // namespace mge::cpu
