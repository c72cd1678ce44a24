#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// y = x * scale for n neighbouring elements; whether all results are finite.
MGE_DECLARE_SIMD(bool, scale_and_check,
                 (DType dtype, const void* x, void* y, double scale, std::int64_t n));

}  // namespace mge::cpu
