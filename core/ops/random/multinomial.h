// Draws from finite distributions.
#pragma once

#include "core/op/op.h"
#include "core/ops/random/state.h"

namespace mge {

// weights, (n,) or (m, n) numbers >= 0 that need not sum to 1 -> positions in each row, int32, (k,)
// or (m, k) for k = num_samples, drawn with probabilities in proportion to the weights. Without
// replacement no position comes twice, and the next is drawn from what is left. Rows without a
// positive weight, or with fewer than k where none comes twice, raise ValueError.
struct MultinomialRNG {
  std::int64_t num_samples = 1;
  bool replacement = false;
  std::int64_t handle = kGlobalGenerator;
  static constexpr OpTraits traits{
      .name = "MultinomialRNG", .amp = Amp::high, .differentiable = false, .random = true};
  static constexpr auto fields = field_list(field("num_samples", &MultinomialRNG::num_samples),
                                            field("replacement", &MultinomialRNG::replacement),
                                            field("handle", &MultinomialRNG::handle));
};
Specs infer(const MultinomialRNG& op, const Specs& in);
void kernel(const MultinomialRNG& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(MultinomialRNG);

}  // namespace mge
