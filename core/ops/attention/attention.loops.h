// The loops of scaled dot product attention.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/random.h"
#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// Four axes: image, head, row, column; strides in elements, 0 where a mask repeats.
struct AttentionInput {
  const void* data = nullptr;
  std::int64_t image = 0, head = 0, row = 0, col = 0;
};
struct AttentionOutput {
  void* data = nullptr;
  std::int64_t image = 0, head = 0, row = 0, col = 0;
};
struct AttentionMask : AttentionInput {
  DType dtype = DType::boolean;
};

struct Attention {
  DType dtype = DType::float32;  // of all but masks and lse
  std::int64_t images = 0, heads = 0, queries = 0, keys = 0, depth = 0, width = 0;
  double scale = 1;
  bool causal = false;
  double drop_prob = 0;
  RandomStream stream;
  AttentionInput q, k, v;
  AttentionMask masks[3];
  int mask_count = 0;
};

// Counters that the dropout of one row of weights uses.
constexpr std::int64_t attention_row_counters(std::int64_t keys) { return (keys + 63) / 64 * 16; }

// lse: row-major, in the type that is computed in.
MGE_DECLARE_SIMD(void, attention_forward,
                 (const Attention& at, const AttentionOutput& y, void* lse));
MGE_DECLARE_SIMD(void, attention_backward,
                 (const Attention& at, const AttentionInput& dy, const AttentionInput& y,
                  const void* lse, const AttentionOutput& dq, const AttentionOutput& dk,
                  const AttentionOutput& dv));
// keep: rows x keys, row-major.
MGE_DECLARE_SIMD(void, attention_dropout_mask,
                 (RandomStream stream, double drop_prob, std::int64_t rows, std::int64_t keys,
                  bool* keep));

}  // namespace mge::cpu
