// Connectionist temporal classification: Graves et al., ICML 2006.
#pragma once

#include "core/op/op.h"

namespace mge {

// (probs (T, N, C), input_lengths (N,), labels, label_lengths (N,)) -> (loss (N,), alpha)
// The loss is -log of the probability that the frames spell the labels: the sum over all ways to
// repeat labels and put `blank` between and around them, of the product of the probabilities of the
// frames. Probabilities count as at least the smallest normal number of the dtype of computing, and
// so does that sum where there is no way at all.
// labels: the labels of all samples one after the other, (sum of label_lengths,), or (N, S) where
// those past the length of a sample do not matter. alpha: what the gradient needs, float64.
struct CTCLoss {
  std::int64_t blank = 0;
  static constexpr OpTraits traits{.name = "CTCLoss", .amp = Amp::high, .fuse = Fuse::reduction};
  static constexpr auto fields = field_list(field("blank", &CTCLoss::blank));
};
Specs infer(const CTCLoss& op, const Specs& in);
Values decompose(const CTCLoss& op, const Values& in);
Values grad(const CTCLoss& op, const GradArgs& g);
Keep keep(const CTCLoss& op, std::uint32_t needs);
void kernel(const CTCLoss& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(CTCLoss);

// (dloss (N,), probs, input_lengths, labels, label_lengths, alpha) -> (dprobs,)
struct CTCLossBackward {
  std::int64_t blank = 0;
  static constexpr OpTraits traits{
      .name = "CTCLossBackward", .amp = Amp::high, .fuse = Fuse::reduction};
  static constexpr auto fields = field_list(field("blank", &CTCLossBackward::blank));
};
Specs infer(const CTCLossBackward& op, const Specs& in);
Values decompose(const CTCLossBackward& op, const Values& in);
void kernel(const CTCLossBackward& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(CTCLossBackward);

}  // namespace mge
