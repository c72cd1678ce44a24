// Products of float32 rows with weights that are packed once and used often.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/onednn.h"
#include "core/kernels/cpu/simd.h"

namespace mge::cpu {

// c[i, j] = sum over p of a[i, p] * weight[p, j] (+ bias[j]), and what follows it. Strides count
// elements; columns are neighbours.
struct PanelProduct {
  std::int64_t rows = 0, depth = 0, cols = 0;
  const float* a = nullptr;
  std::int64_t a_row = 0;
  const float* panels = nullptr;  // the weights, from pack_weight_panels
  const float* bias = nullptr;    // or none
  float* c = nullptr;
  std::int64_t c_row = 0;
  bool add = false;                    // to what c holds, before `post`
  const dnn::PostOps* post = nullptr;  // or none; adds nothing itself
};

// The order of each sum depends on the sizes only: not on the number of threads.
MGE_DECLARE_SIMD(void, panel_product, (const PanelProduct& g));

// The number of floats that the panels of weights (depth, cols) take.
MGE_DECLARE_SIMD(std::int64_t, weight_panels_size, (std::int64_t depth, std::int64_t cols));
// Of weight[p * row + j * col].
MGE_DECLARE_SIMD(void, pack_weight_panels,
                 (const float* weight, std::int64_t row, std::int64_t col, std::int64_t depth,
                  std::int64_t cols, float* panels));

}  // namespace mge::cpu
