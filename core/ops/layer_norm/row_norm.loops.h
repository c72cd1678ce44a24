// The loops of the norms over rows: layer norm, group norm, instance norm.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// A row-major tensor seen as (images, groups, cols): each of the images * groups rows is normalised
// on its own. Scale and shift are there for each of the `groups * cols / run` channels, of `run`
// contiguous values each: run == 1 in layer norm, the size of a plane in group norm. Without scale
// and shift groups is 1 and run is cols.
struct RowLayout {
  std::int64_t images, groups, cols, run;
  std::int64_t rows() const { return images * groups; }
  std::int64_t channels() const { return run == 0 ? 0 : groups * (cols / run); }
};

// The pointers without a dtype of their own are to its compute type: float, or double for float64.
// scale and shift: one for each channel, or null.

// y = (x - mean) / sqrt(var + eps) * scale + shift; mean and rstd: one for each row.
MGE_DECLARE_SIMD(void, row_norm,
                 (DType dtype, const void* x, void* y, const RowLayout& at, double eps,
                  const void* scale, const void* shift, void* mean, void* rstd));

// dscale and dshift: one for each channel, or null.
MGE_DECLARE_SIMD(void, row_norm_backward,
                 (DType dtype, const void* dy, const void* x, void* dx, const RowLayout& at,
                  const void* scale, const void* mean, const void* rstd, void* dscale,
                  void* dshift));

}  // namespace mge::cpu
