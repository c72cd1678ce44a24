// What complex.cpu.cpp calls of the code that is compiled for each instruction set.
#pragma once

#include "core/kernels/cpu/simd.h"
#include "core/ops/complex/complex.h"

namespace mge::cpu {

// An operand of n complex numbers that lie side by side, or of one that repeats.
struct ComplexOperand {
  const void* data;
  bool repeats;
};

MGE_DECLARE_SIMD(void, complex_arithmetic,
                 (ComplexElemwise::Mode mode, DType part, ComplexOperand a, ComplexOperand b,
                  void* out, std::int64_t n));
// Pairs of real numbers; each operand advances by its step.
MGE_DECLARE_SIMD(void, complex_zip,
                 (DType part, const void* re, std::int64_t re_step, const void* im,
                  std::int64_t im_step, void* out, std::int64_t n));

}  // namespace mge::cpu
