// The loop of non-maximum suppression.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// boxes: (n, 4) of float32 or float64. Writes the positions that are kept, at most `most` of them,
// and returns how many they are.
MGE_DECLARE_SIMD(std::int64_t, nms,
                 (DType dtype, const void* boxes, std::int64_t n, double threshold,
                  std::int32_t* kept, std::int64_t most));

}  // namespace mge::cpu
