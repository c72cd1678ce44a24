// Cross entropy of logits and class indices.
#pragma once

#include <array>

#include "core/op/op.h"

namespace mge {

enum class LossReduction : std::uint8_t { NONE, MEAN, SUM };
template <>
struct EnumNames<LossReduction> {
  static constexpr auto names = std::to_array<const char*>({"NONE", "MEAN", "SUM"});
};

// (logits, labels) -> (loss,): -sum(target * logsoftmax(logits)) along `axis`, where the target is
// 1 - label_smooth on the label plus label_smooth / classes everywhere. labels are integers of the
// shape of logits without the axis; one outside [0, classes) raises IndexError. The loss has the
// shape of labels, or is 0-d where reduced; the mean is float32 (float64 for float64).
struct CrossEntropy {
  std::int64_t axis = 1;
  double label_smooth = 0;
  LossReduction reduction = LossReduction::MEAN;
  static constexpr OpTraits traits{
      .name = "CrossEntropy", .amp = Amp::high, .fuse = Fuse::reduction};
  static constexpr auto fields = field_list(field("axis", &CrossEntropy::axis),
                                            field("label_smooth", &CrossEntropy::label_smooth),
                                            field("reduction", &CrossEntropy::reduction));
};
Specs infer(const CrossEntropy& op, const Specs& in);
Values decompose(const CrossEntropy& op, const Values& in);
Values grad(const CrossEntropy& op, const GradArgs& g);
Keep keep(const CrossEntropy& op, std::uint32_t needs);
void kernel(const CrossEntropy& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(CrossEntropy);

// (dloss, logits, labels) -> (dlogits,)
struct CrossEntropyBackward {
  std::int64_t axis = 1;
  double label_smooth = 0;
  LossReduction reduction = LossReduction::MEAN;
  static constexpr OpTraits traits{
      .name = "CrossEntropyBackward", .amp = Amp::high, .fuse = Fuse::reduction};
  static constexpr auto fields =
      field_list(field("axis", &CrossEntropyBackward::axis),
                 field("label_smooth", &CrossEntropyBackward::label_smooth),
                 field("reduction", &CrossEntropyBackward::reduction));
};
Specs infer(const CrossEntropyBackward& op, const Specs& in);
Values decompose(const CrossEntropyBackward& op, const Values& in);
void kernel(const CrossEntropyBackward& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(CrossEntropyBackward);

}  // namespace mge
