// The loops of RoI pooling.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// The pixels of a box, both ends included: at least one in each direction.
struct PixelBox {
  std::int64_t image;  // -1 for a box that has no place
  std::int64_t x, y, width, height;
};

// All images and pooled outputs are channels-last, in float32 or float64.
struct RoiPoolLayout {
  std::int64_t n, c, h, w;    // of the image
  std::int64_t rois;          // how many
  std::int64_t out_h, out_w;  // bins of each
  const PixelBox* box;
};

MGE_DECLARE_SIMD(void, roi_pool_average,
                 (DType dtype, const void* x, void* y, const RoiPoolLayout& at));
MGE_DECLARE_SIMD(void, roi_pool_max,
                 (DType dtype, const void* x, void* y, std::int32_t* index,
                  const RoiPoolLayout& at));
MGE_DECLARE_SIMD(void, roi_pool_average_backward,
                 (DType dtype, const void* dy, void* dx, const RoiPoolLayout& at));
// An index outside of the image is ignored.
MGE_DECLARE_SIMD(void, roi_pool_max_backward,
                 (DType dtype, const void* dy, const std::int32_t* index, void* dx,
                  const RoiPoolLayout& at));
MGE_DECLARE_SIMD(void, roi_pool_pick,
                 (DType dtype, const void* x, const std::int32_t* index, void* y,
                  const RoiPoolLayout& at));

}  // namespace mge::cpu
