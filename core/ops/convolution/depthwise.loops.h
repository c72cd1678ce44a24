// The loop of the weight gradient of depthwise convolutions.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// Images (batch, h, w, channels) and (batch, out_h, out_w, channels), channels side by side.
struct DepthwiseLayout {
  std::int64_t batch, channels, h, w, out_h, out_w, kernel_h, kernel_w;
  std::int64_t stride_h, stride_w, pad_h, pad_w, dilate_h, dilate_w;
};

// dw (channels, kernel_h, kernel_w), row-major. All operands float32 or float64.
MGE_DECLARE_SIMD(void, depthwise_backward_filter,
                 (DType dtype, const void* x, const void* dy, void* dw, const DepthwiseLayout& at));

}  // namespace mge::cpu
