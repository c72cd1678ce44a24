// The loops of deformable convolution.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// Everything is float32 or float64 and channels-last. A row is an output position; the columns of a
// row are what its taps read, (groups, taps, channels of a group).
struct DeformLayout {
  std::int64_t n, c, h, w;
  std::int64_t out_h, out_w;
  std::int64_t kernel_h, kernel_w;
  std::int64_t stride_h, stride_w, pad_h, pad_w, dilate_h, dilate_w;
  std::int64_t groups, parts;
  std::int64_t taps() const { return kernel_h * kernel_w; }
  std::int64_t rows() const { return n * out_h * out_w; }
  std::int64_t columns() const { return taps() * c; }
};

// What a tap of a part reads: pixels (a row of zeros where one is outside of the image).
struct DeformPoint {
  std::int64_t at[4];  // (top, left), (top, right), (bottom, left), (bottom, right); -1 outside
  double weight[4];
  double down, right;  // the share of the lower and of the right pixels
};

// columns of rows [begin, end).
MGE_DECLARE_SIMD(void, deform_columns,
                 (DType dtype, const void* x, const void* offset, const void* mask, void* columns,
                  std::int64_t begin, std::int64_t end, const DeformLayout& at));

// The same, and from the gradient of the columns those of offset and mask; points (one for each
// row, part and tap) are kept for deform_scatter.
MGE_DECLARE_SIMD(void, deform_columns_backward,
                 (DType dtype, const void* x, const void* offset, const void* mask,
                  const void* dcolumns, void* columns, void* doffset, void* dmask,
                  DeformPoint* points, std::int64_t begin, std::int64_t end,
                  const DeformLayout& at));

// dx += what rows [begin, end) send.
MGE_DECLARE_SIMD(void, deform_scatter,
                 (DType dtype, const void* dcolumns, const void* mask, const DeformPoint* points,
                  void* dx, std::int64_t begin, std::int64_t end, const DeformLayout& at));

}  // namespace mge::cpu
