// What copy.cpp calls of the code that is compiled for each instruction set.
#pragma once

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

MGE_DECLARE_SIMD(void, convert_contiguous,
                 (const void* in, DType from, void* out, DType to, std::int64_t n));

}  // namespace mge::cpu
