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
  std::int64_t taps() const { return window_h * window_w; }
};

// Which position of its window a maximum came from, counted in row-major order.
inline DType pool_index_dtype(std::int64_t taps) {
  return taps <= 256 ? DType::uint8 : DType::int32;
}

// NaN wins, padding never does; of equal maxima, index has the first. index (of pool_index_dtype)
// may be null.
MGE_DECLARE_SIMD(void, max_pool,
                 (DType dtype, const void* x, void* y, void* index, const PoolLayout& at));
MGE_DECLARE_SIMD(void, average_pool, (DType dtype, const void* x, void* y, const PoolLayout& at));
// The same, row by row; padding is at most as wide as the image.
MGE_DECLARE_SIMD(void, max_pool_rows,
                 (DType dtype, const void* x, void* y, void* index, const PoolLayout& at));
MGE_DECLARE_SIMD(void, average_pool_rows,
                 (DType dtype, const void* x, void* y, const PoolLayout& at));

// dx: dy added up at the maximum of each window. An index of an element in the padding is ignored;
// all are below taps().
MGE_DECLARE_SIMD(void, max_pool_backward,
                 (DType dtype, const void* dy, const void* index, void* dx, const PoolLayout& at));
MGE_DECLARE_SIMD(void, average_pool_backward,
                 (DType dtype, const void* dy, void* dx, const PoolLayout& at));
// The same, row by row; the padding is at most as wide as the image.
MGE_DECLARE_SIMD(void, max_pool_backward_rows,
                 (DType dtype, const void* dy, const void* index, void* dx, const PoolLayout& at));
MGE_DECLARE_SIMD(void, average_pool_backward_rows,
                 (DType dtype, const void* dy, void* dx, const PoolLayout& at));

// out: g at the maximum of each window, 0 for an index of an element in the padding.
MGE_DECLARE_SIMD(void, max_pool_pick,
                 (DType dtype, const void* g, const void* index, void* out, const PoolLayout& at));

}  // namespace mge::cpu
