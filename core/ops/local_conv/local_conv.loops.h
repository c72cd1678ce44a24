// The loops of locally connected layers.
#pragma once

#include <array>
#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// Images (batch, groups * in, h, w) and (batch, groups * out, out_h, out_w) with any strides,
// counted in elements; weights (groups, out_h, out_w, in, kernel_h, kernel_w, out), row-major.
struct LocalLayout {
  std::int64_t batch, groups, in, out, h, w, out_h, out_w, kernel_h, kernel_w;
  std::int64_t stride_h, stride_w, pad_h, pad_w, dilate_h, dilate_w;
  bool flip;  // the kernel is reversed along both axes
  std::array<std::int64_t, 4> x_step, y_step;

  std::int64_t taps() const { return kernel_h * kernel_w; }
  std::int64_t depth() const { return in * taps(); }
};

// All operands float32 or float64. x of local_backward_data starts as zeros.
MGE_DECLARE_SIMD(void, local_forward,
                 (DType dtype, const void* x, const void* weight, void* y, const LocalLayout& at));
MGE_DECLARE_SIMD(void, local_backward_data,
                 (DType dtype, const void* weight, const void* y, void* x, const LocalLayout& at));
MGE_DECLARE_SIMD(void, local_backward_filter,
                 (DType dtype, const void* x, const void* y, void* weight, const LocalLayout& at));

}  // namespace mge::cpu
