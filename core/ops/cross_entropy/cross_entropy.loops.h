// The loops of cross entropy with class indices.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// Row-major logits seen as (outer, classes, inner); labels and losses are (outer, inner). Labels
// are valid class indices. The target has 1 - smooth on the label and smooth / classes everywhere.
struct ClassLayout {
  std::int64_t outer, classes, inner;
  double smooth;
};

// loss: in the compute type of dtype (float, or double for float64).
MGE_DECLARE_SIMD(void, cross_entropy_forward,
                 (DType dtype, const void* logits, const std::int32_t* labels, void* loss,
                  const ClassLayout& at));

// dloss: in the compute type; one for each position, or a single one where `single`.
MGE_DECLARE_SIMD(void, cross_entropy_backward,
                 (DType dtype, const void* dloss, bool single, const void* logits,
                  const std::int32_t* labels, void* dlogits, const ClassLayout& at));

}  // namespace mge::cpu
