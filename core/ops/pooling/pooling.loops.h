// The loops of pooling.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

struct PoolLayout {
  std::int64_t n, c, h, w;          // input
  std::int64_t out_h, out_w;        // output
  std::int64_t window_h, window_w;  // every window holds at least one element of the input
  std::int64_t stride_h, stride_w, pad_h, pad_w;
  bool channels_last;  // of all operands; else row-major
  bool count_padding;  // averages divide by the whole window
};

// NaN wins; padding never does.
MGE_DECLARE_SIMD(void, max_pool, (DType dtype, const void* x, void* y, const PoolLayout& at));
MGE_DECLARE_SIMD(void, average_pool, (DType dtype, const void* x, void* y, const PoolLayout& at));

// dx: dy added up at the first maximum of each window, y the forward result.
MGE_DECLARE_SIMD(void, max_pool_backward,
                 (DType dtype, const void* dy, const void* x, const void* y, void* dx,
                  const PoolLayout& at));
MGE_DECLARE_SIMD(void, average_pool_backward,
                 (DType dtype, const void* dy, void* dx, const PoolLayout& at));

// out: g at the first maximum of each window of x.
MGE_DECLARE_SIMD(void, max_pool_pick,
                 (DType dtype, const void* g, const void* x, const void* y, void* out,
                  const PoolLayout& at));

}  // namespace mge::cpu
