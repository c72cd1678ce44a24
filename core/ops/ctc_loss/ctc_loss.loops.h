// The loops of CTC.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// A batch whose lengths and labels are known to be in range.
struct CTCBatch {
  DType dtype;        // of probs
  const void* probs;  // row-major (frames, samples, classes)
  std::int64_t frames, samples, classes, blank;
  const std::int64_t* input_lengths;
  const std::int64_t* label_lengths;
  const std::int64_t* const* labels;  // those of each sample
  // Of each sample: `frames` rows of 2 L + 1 log probabilities of L labels, those of the states
  // that end in a blank and then those that end in a label.
  double* const* alpha;
  std::int64_t most_labels;
};

// loss: one for each sample.
MGE_DECLARE_SIMD(void, ctc_loss, (const CTCBatch& batch, double* loss));
// dprobs: row-major, as probs.
MGE_DECLARE_SIMD(void, ctc_loss_backward,
                 (const CTCBatch& batch, const double* dloss, void* dprobs));

}  // namespace mge::cpu
