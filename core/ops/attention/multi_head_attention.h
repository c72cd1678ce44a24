// Multi-head attention as one op: projections, attention, projection of the output.
#pragma once

#include <array>

#include "core/op/op.h"
#include "core/ops/random/state.h"

namespace mge {

// (query, key, value, weights, masks..., [bias_k, bias_v]) -> (y, attention weights, -, -).
//
// query is (images, queries, embeding_size), key (images, keys, k_size), value (images, keys,
// v_size). `weights`, flat, holds the matrices of the projections of q, k, v and of the output,
// each (in, out), then their biases; a projection of size 0 is left out, and so is a bias whose
// flag is false. y is (images, queries, oproj_size), or as wide as the projected values.
//
// Masks, up to two, are there where tensor_combination_type says ONLY_MASK or ALL. One has the
// shape (queries, keys) or (images * heads, queries, keys), or four axes that broadcast to (images,
// heads, queries, keys); bool masks hide where they are true, others are added to the scores.
// DEFAULT_MASK hides key j from query i where j > i, besides. CUDNN_STYLE_MASK takes two integer
// masks: of shape (2, queries), the first key that a query sees and the one after its last; and of
// shape (2, images), how many queries and keys of an image count.
//
// bias_k and bias_v, (1, 1, kproj_size) and (1, 1, vproj_size), are one more key and value after
// the projection, and so are the zeros that add_zero_attn asks for. The attention weights, (images
// * heads, queries, keys), after dropout, are there where need_weights asks for them and else
// empty, as the last two outputs are.
struct MultiHeadAttn {
  enum class AttnMaskType : std::uint8_t {
    NO_MASK,
    DEFAULT_MASK,
    CUDNN_STYLE_MASK,
    USER_DEFINED_MASK
  };
  enum class TensorCombinationType : std::uint8_t { NONE, ONLY_MASK, ONLY_BIASKV, ALL };

  std::int64_t num_heads = 1;
  std::int64_t embeding_size = 0, k_size = 0, v_size = 0;
  std::int64_t qproj_size = 0, kproj_size = 0, vproj_size = 0, oproj_size = 0;
  bool qbias = false, kbias = false, vbias = false, obias = false;
  double sm_scaler = 1;
  std::int64_t input_order = 0;
  AttnMaskType attn_mask_type = AttnMaskType::NO_MASK;
  TensorCombinationType tensor_combination_type = TensorCombinationType::NONE;
  bool add_zero_attn = false, need_weights = false, reslink = false, training = true;
  std::int64_t seed = 0;
  double attn_prob = 0, out_prob = 0;
  std::int64_t handle = kGlobalGenerator;

  static constexpr OpTraits traits{.name = "MultiHeadAttn", .amp = Amp::inner, .random = true};
  static constexpr auto fields = field_list(
      field("num_heads", &MultiHeadAttn::num_heads),
      field("embeding_size", &MultiHeadAttn::embeding_size),
      field("k_size", &MultiHeadAttn::k_size), field("v_size", &MultiHeadAttn::v_size),
      field("qproj_size", &MultiHeadAttn::qproj_size),
      field("kproj_size", &MultiHeadAttn::kproj_size),
      field("vproj_size", &MultiHeadAttn::vproj_size),
      field("oproj_size", &MultiHeadAttn::oproj_size), field("qbias", &MultiHeadAttn::qbias),
      field("kbias", &MultiHeadAttn::kbias), field("vbias", &MultiHeadAttn::vbias),
      field("obias", &MultiHeadAttn::obias), field("sm_scaler", &MultiHeadAttn::sm_scaler),
      field("input_order", &MultiHeadAttn::input_order),
      field("attn_mask_type", &MultiHeadAttn::attn_mask_type),
      field("tensor_combination_type", &MultiHeadAttn::tensor_combination_type),
      field("add_zero_attn", &MultiHeadAttn::add_zero_attn),
      field("need_weights", &MultiHeadAttn::need_weights),
      field("reslink", &MultiHeadAttn::reslink), field("training", &MultiHeadAttn::training),
      field("seed", &MultiHeadAttn::seed), field("attn_prob", &MultiHeadAttn::attn_prob),
      field("out_prob", &MultiHeadAttn::out_prob), field("handle", &MultiHeadAttn::handle));
};
template <>
struct EnumNames<MultiHeadAttn::AttnMaskType> {
  static constexpr auto names = std::to_array<const char*>(
      {"NO_MASK", "DEFAULT_MASK", "CUDNN_STYLE_MASK", "USER_DEFINED_MASK"});
};
template <>
struct EnumNames<MultiHeadAttn::TensorCombinationType> {
  static constexpr auto names =
      std::to_array<const char*>({"NONE", "ONLY_MASK", "ONLY_BIASKV", "ALL"});
};
Specs infer(const MultiHeadAttn& op, const Specs& in);
Values decompose(const MultiHeadAttn& op, const Values& in);
DECLARE_OP(MultiHeadAttn);

}  // namespace mge
