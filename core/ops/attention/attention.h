// Scaled dot product attention: softmax(scale q k^T + masks) v, after Vaswani et al., "Attention is
// all you need" (2017), without ever holding the matrix of scores: tiles of it are computed, used
// and forgotten, forward and backward, after Dao et al., "FlashAttention" (2022).
//
// q is (images, heads, queries, depth), k (images, heads, keys, depth), v (images, heads, keys,
// width). Masks have four axes that broadcast to (images, heads, queries, keys): a bool one hides
// where it is true, one of floats is added to the scores. A causal mask hides key j from query i
// where j > i. A query all of whose keys are hidden gives 0, and finite gradients.
#pragma once

#include "core/op/op.h"
#include "core/ops/random/state.h"

namespace mge {

inline constexpr int kMaxAttentionMasks = 3;

// (q, k, v, masks..., [state]) -> (y, lse). y is (images, heads, queries, width), in the order of
// axes that q has in memory; lse (images, heads, queries) are the logarithms of the softmax's
// denominators, float64 for float64 and else float32; they carry no gradient. `state` comes from
// RandomCounters and is there where drop_prob > 0: each weight is dropped with that probability,
// the others divided by 1 - drop_prob.
struct ScaledDotProductAttention {
  double scale = 1;
  bool causal = false;
  double drop_prob = 0;
  static constexpr OpTraits traits{.name = "ScaledDotProductAttention",
                                   .amp = Amp::low,
                                   .amp_inputs = 7,
                                   .fuse = Fuse::contraction};
  static constexpr auto fields =
      field_list(field("scale", &ScaledDotProductAttention::scale),
                 field("causal", &ScaledDotProductAttention::causal),
                 field("drop_prob", &ScaledDotProductAttention::drop_prob));
};
Specs infer(const ScaledDotProductAttention& op, const Specs& in);
Values decompose(const ScaledDotProductAttention& op, const Values& in);
Values grad(const ScaledDotProductAttention& op, const GradArgs& g);
void kernel(const ScaledDotProductAttention& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(ScaledDotProductAttention);

// (dy, y, lse, q, k, v, masks..., [state]) -> (dq, dk, dv)
struct ScaledDotProductAttentionBackward {
  double scale = 1;
  bool causal = false;
  double drop_prob = 0;
  static constexpr OpTraits traits{.name = "ScaledDotProductAttentionBackward",
                                   .fuse = Fuse::contraction,
                                   .strided_outputs = true};
  static constexpr auto fields =
      field_list(field("scale", &ScaledDotProductAttentionBackward::scale),
                 field("causal", &ScaledDotProductAttentionBackward::causal),
                 field("drop_prob", &ScaledDotProductAttentionBackward::drop_prob));
};
Specs infer(const ScaledDotProductAttentionBackward& op, const Specs& in);
Values decompose(const ScaledDotProductAttentionBackward& op, const Values& in);
void kernel(const ScaledDotProductAttentionBackward& op, CpuContext& context, Views in,
            MutViews out);
DECLARE_OP(ScaledDotProductAttentionBackward);

// () -> int64 (2,): seed and first of `count` counters of a generator, which are used up by this.
struct RandomCounters {
  std::int64_t handle = kGlobalGenerator;
  std::int64_t count = 0;
  Device device{};
  static constexpr OpTraits traits{
      .name = "RandomCounters", .differentiable = false, .random = true};
  static constexpr auto fields =
      field_list(field("handle", &RandomCounters::handle), field("count", &RandomCounters::count),
                 field("device", &RandomCounters::device));
};
Specs infer(const RandomCounters& op, const Specs& in);
void kernel(const RandomCounters& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(RandomCounters);

// (state) -> bool of this shape: what attention keeps of weights of the shape.
struct AttentionDropoutMask {
  Dims shape{};
  double drop_prob = 0;
  static constexpr OpTraits traits{.name = "AttentionDropoutMask", .differentiable = false};
  static constexpr auto fields = field_list(field("shape", &AttentionDropoutMask::shape),
                                            field("drop_prob", &AttentionDropoutMask::drop_prob));
};
Specs infer(const AttentionDropoutMask& op, const Specs& in);
void kernel(const AttentionDropoutMask& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(AttentionDropoutMask);

// The state for weights of this shape, (images, heads, queries, keys).
Value attention_dropout_state(const Shape& weights, std::int64_t handle, const Device& device);

// scale q k^T + masks, in float32 or float64, and the softmax of it: what the ops above never hold.
Value attention_scores(const Value& q, const Value& k, std::span<const Value> masks, double scale,
                       bool causal);

}  // namespace mge
