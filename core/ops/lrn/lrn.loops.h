// The loops of local response normalisation.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// A dense tensor (outer, channels, inner): inner is 1 channels-last. Sums reach over `half`
// channels on both sides.
struct LrnLayout {
  std::int64_t outer, channels, inner, half;
  double k, alpha, beta;
};

MGE_DECLARE_SIMD(void, lrn, (DType dtype, const void* x, void* y, const LrnLayout& at));
MGE_DECLARE_SIMD(void, lrn_backward,
                 (DType dtype, const void* dy, const void* x, void* dx, const LrnLayout& at));

}  // namespace mge::cpu
