// The loops of softmax, logsoftmax and logsumexp.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// A row-major tensor seen as (outer, n, inner), reduced along n.
struct AxisLayout {
  std::int64_t outer, n, inner;
};

enum class SoftmaxKind : std::uint8_t { softmax, logsoftmax, logsumexp };

// y has the shape of x, or (outer, inner) for logsumexp.
MGE_DECLARE_SIMD(void, softmax_forward,
                 (SoftmaxKind kind, DType dtype, const void* x, void* y, const AxisLayout& at));

// From y and, for logsumexp, x.
MGE_DECLARE_SIMD(void, softmax_backward,
                 (SoftmaxKind kind, DType dtype, const void* dy, const void* y, const void* x,
                  void* dx, const AxisLayout& at));

}  // namespace mge::cpu
