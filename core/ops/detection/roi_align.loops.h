// The loops of RoI align.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// All images and pooled outputs are channels-last, in float32 or float64.
struct RoiAlignLayout {
  std::int64_t n, c, h, w;            // of the image
  std::int64_t rois;                  // how many
  std::int64_t out_h, out_w;          // bins of each
  std::int64_t samples_h, samples_w;  // of each bin; 0 for one a pixel
  double scale, offset;
  const std::int64_t* image;  // of each box, all in [0, n)
  const double* box;          // x1, y1, x2, y2 of each
};

MGE_DECLARE_SIMD(void, roi_align_average,
                 (DType dtype, const void* x, void* y, const RoiAlignLayout& at));
MGE_DECLARE_SIMD(void, roi_align_max,
                 (DType dtype, const void* x, void* y, std::int32_t* index,
                  const RoiAlignLayout& at));
MGE_DECLARE_SIMD(void, roi_align_average_backward,
                 (DType dtype, const void* dy, void* dx, const RoiAlignLayout& at));
// An index that names no sample is as good as one outside of the image.
MGE_DECLARE_SIMD(void, roi_align_max_backward,
                 (DType dtype, const void* dy, const std::int32_t* index, void* dx,
                  const RoiAlignLayout& at));
MGE_DECLARE_SIMD(void, roi_align_pick,
                 (DType dtype, const void* x, const std::int32_t* index, void* y,
                  const RoiAlignLayout& at));

}  // namespace mge::cpu
