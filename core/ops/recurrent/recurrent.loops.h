// The loops over time of recurrent layers. What all steps can do at once, the products with the
// inputs and the gradients of the weights, is left to whole matrix products outside.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

enum class RecurrentMode : std::uint8_t { IDENTITY, RELU, TANH, LSTM };

inline std::int64_t gate_count(RecurrentMode mode) { return mode == RecurrentMode::LSTM ? 4 : 1; }

// The right operand of many products, (depth, width), rearranged so that each reads it in order.
// Elements that `pack_recurrent` fills:
std::int64_t recurrent_packed_size(std::int64_t depth, std::int64_t width);
// Element (p, j) is w[p * step_p + j * step_j].
MGE_DECLARE_SIMD(void, pack_recurrent,
                 (DType dtype, const void* w, std::int64_t depth, std::int64_t width,
                  std::int64_t step_p, std::int64_t step_j, void* packed));

// All pointers are to row-major arrays of `dtype`, float32 or float64. Steps run from the last to
// the first with `reverse`.
struct RecurrentForward {
  DType dtype;
  RecurrentMode mode;
  bool reverse;
  std::int64_t steps, batch, hidden;
  // (steps, batch, gates * hidden). In: the products with the inputs, with biases. Out: the gates
  // after their activations (only LSTM writes). May be y itself in the other modes.
  void* gates;
  // Packed, (hidden, gates * hidden). For a single step packing does not pay: null, and the product
  // of the state with the weights, (batch, gates * hidden), is given.
  const void* w_hh;
  const void* product;
  const void* h0;   // (batch, hidden): before the first step
  const void* c0;   // LSTM
  void* y;          // (steps, batch, hidden)
  void* cells;      // LSTM: (steps, batch, hidden), or one (batch, hidden) for all steps
  bool keep_cells;  // whether `cells` has one for each step
};
MGE_DECLARE_SIMD(void, recurrent_forward, (const RecurrentForward& r));

struct RecurrentBackward {
  DType dtype;
  RecurrentMode mode;
  bool reverse;  // of the forward pass
  std::int64_t steps, batch, hidden;
  // Packed, (gates * hidden, hidden). Null for a single step: then dh is left as it is, and the
  // caller multiplies dgates by the weights.
  const void* w_hh;
  const void* dy;  // (steps, batch, hidden)
  const void* y;
  const void* gates;  // LSTM
  const void* cells;
  const void* c0;
  // (batch, hidden). In: the gradients of the last state. Out: those of the first.
  void* dh;
  void* dc;      // LSTM
  void* dgates;  // out: (steps, batch, gates * hidden), of the gates before their activations
};
MGE_DECLARE_SIMD(void, recurrent_backward, (const RecurrentBackward& r));

}  // namespace mge::cpu
