// What cross.cpu.cpp calls of the code that is compiled for each instruction set.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// out = a x b for n vectors. Each is 3 numbers at (component, vector) strides.
struct Vectors {
  const void* data;
  std::int64_t component, vector;
};
MGE_DECLARE_SIMD(void, cross_products,
                 (DType dtype, Vectors a, Vectors b, void* out, std::int64_t n));

}  // namespace mge::cpu
