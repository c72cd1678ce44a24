// The loops of fake quantisation.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

enum class QuantKind : std::uint8_t { fake, tqt, lsq };

// Neighbouring elements of x (and dy, y, dx, ds alike) with the parameters that go with them.
struct QuantRun {
  QuantKind kind;
  DType dtype;  // of x, dy, y and dx; what else there is has the dtype that it is computed in
  double qmin, qmax;
  const void* x;
  const void* dy;
  void* out;  // y, or dx
  void* ds;   // what each element adds to the gradient of the scale, or null
  // The step, the zero point and the scale of the gradient: at element i, param[k][i * step[k]].
  const void* param[3];
  std::int64_t step[3];
  std::int64_t count;
};

MGE_DECLARE_SIMD(void, quantize_forward, (const QuantRun& run));
MGE_DECLARE_SIMD(void, quantize_backward, (const QuantRun& run));

}  // namespace mge::cpu
