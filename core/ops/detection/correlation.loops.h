// The loops of correlation.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// Images are channels-last with their padding, in float32 or float64.
struct CorrelationLayout {
  std::int64_t n, c, h, w;      // of the padded images
  std::int64_t out_h, out_w;    // of the output
  std::int64_t kernel, stride;  // of the windows in the first image
  std::int64_t reach, step;     // displacements are -reach * step ... reach * step
  std::int64_t border;          // where the first window starts, in both directions
  bool multiply;
  std::int64_t across() const { return 2 * reach + 1; }
};

// y is row-major: (n, across^2, out_h, out_w).
MGE_DECLARE_SIMD(void, correlate,
                 (DType dtype, const void* a, const void* b, void* y, const CorrelationLayout& at));
// dy is (n, out_h, out_w, across^2); da (or db, where `second`) is padded like a and b.
MGE_DECLARE_SIMD(void, correlate_backward,
                 (DType dtype, const void* dy, const void* a, const void* b, void* to, bool second,
                  const CorrelationLayout& at));

}  // namespace mge::cpu
