// The loops of deformable RoI pooling.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// All images and pooled outputs are channels-last, in float32 or float64.
struct PsroiLayout {
  std::int64_t n, c, h, w;
  std::int64_t rois, out_h, out_w;
  std::int64_t samples;           // of a bin, along each axis
  std::int64_t trans_h, trans_w;  // of trans; 0 where bins are not moved
  double scale, trans_std;
  const std::int64_t* image;  // of each box, all in [0, n)
  const double* box;          // x1, y1, x2, y2 of each
  const double* trans;        // (rois, 2, trans_h, trans_w)
};

MGE_DECLARE_SIMD(void, psroi_pool, (DType dtype, const void* x, void* y, const PsroiLayout& at));
MGE_DECLARE_SIMD(void, psroi_pool_backward_data,
                 (DType dtype, const void* dy, void* dx, const PsroiLayout& at));
// dtrans is laid out as trans is.
MGE_DECLARE_SIMD(void, psroi_pool_backward_trans,
                 (DType dtype, const void* x, const void* dy, double* dtrans,
                  const PsroiLayout& at));

}  // namespace mge::cpu
