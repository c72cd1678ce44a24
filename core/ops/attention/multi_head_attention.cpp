#include "core/ops/attention/multi_head_attention.h"

#include "core/ops/attention/attention.h"
#include "core/ops/creation/creation.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/matmul/matmul.h"
#include "core/ops/random/random.h"
#include "core/ops/shape/shape.h"
#include "core/ops/softmax/softmax.h"

namespace mge {
namespace {

constexpr const char* kName = MultiHeadAttn::traits.name;
using Combination = MultiHeadAttn::TensorCombinationType;
using MaskType = MultiHeadAttn::AttnMaskType;

// Where the inputs stand, and the sizes that follow from them.
struct Plan {
  std::size_t masks = 0;  // how many, from input 4 on
  bool bias_kv = false;   // the last two inputs
  std::int64_t images, queries, keys, extra_keys;
  std::int64_t k_width, v_width;        // of what attention gets as keys and values
  std::int64_t heads_width, out_width;  // of all heads, and of y
  std::array<std::int64_t, 8> sizes;    // of the parts of the weights
  std::int64_t all_keys() const { return keys + extra_keys; }
};

std::size_t check_inputs(const MultiHeadAttn& op, const Specs& in, bool& bias_kv) {
  const bool with_masks = op.tensor_combination_type == Combination::ONLY_MASK ||
                          op.tensor_combination_type == Combination::ALL;
  bias_kv = op.tensor_combination_type == Combination::ONLY_BIASKV ||
            op.tensor_combination_type == Combination::ALL;
  const std::size_t plain = bias_kv ? 6 : 4;
  const std::size_t fewest = plain + (with_masks ? 1 : 0), most = plain + (with_masks ? 2 : 0);
  if (in.size() < fewest || in.size() > most) {
    fail_type(kName, "expected ", fewest, fewest < most ? " or more" : "", " inputs for ",
              EnumNames<Combination>::names[static_cast<std::size_t>(op.tensor_combination_type)],
              ", got ", in.size());
  }
  if (op.attn_mask_type == MaskType::CUDNN_STYLE_MASK && in.size() - plain != 2) {
    fail_value(kName, "expected two masks in the style of cuDNN, got ", in.size() - plain);
  }
  return in.size() - plain;
}

void check_sizes(const MultiHeadAttn& op) {
  const std::int64_t sizes[] = {op.embeding_size, op.k_size,     op.v_size,    op.qproj_size,
                                op.kproj_size,    op.vproj_size, op.oproj_size};
  for (const std::int64_t n : sizes) {
    if (n < 0 || n > (1 << 21)) {
      fail_value(kName, "expected sizes from 0 to 2^21, got ", n);
    }
  }
  if (op.num_heads < 1 || op.num_heads > (1 << 20)) {
    fail_value(kName, "expected 1 to 2^20 heads, got ", op.num_heads);
  }
  if (op.input_order != 0) {
    fail_value(kName, "expected input_order 0, the only one there is, got ", op.input_order);
  }
  for (const double p : {op.attn_prob, op.out_prob}) {
    if (!(p >= 0 && p < 1)) fail_value(kName, "expected probabilities in [0, 1), got ", p);
  }
}

void check_operand(const char* what, const Spec& s, std::int64_t images, std::int64_t rows,
                   std::int64_t width) {
  if (s.ndim() != 3 || s.shape != Shape{images, rows, width}) {
    fail_value(kName, "expected ", what, " of shape ", Shape{images, rows, width}, ", got ",
               s.shape);
  }
}

Plan plan(const MultiHeadAttn& op, const Specs& in) {
  check_sizes(op);
  Plan p;
  p.masks = check_inputs(op, in, p.bias_kv);
  const Spec &q = in[0], &k = in[1], &v = in[2], &w = in[3];
  if (!is_float(q.dtype)) fail_type(kName, "expected a query of a float dtype, got ", q.dtype);
  if (q.ndim() != 3 || k.ndim() != 3) {
    fail_value(kName, "expected query and key of three axes, got shapes ", q.shape, " and ",
               k.shape);
  }
  p.images = q.shape[0];
  p.queries = q.shape[1];
  p.keys = k.shape[1];
  check_operand("query", q, p.images, p.queries, op.embeding_size);
  check_operand("key", k, p.images, p.keys, op.k_size);
  check_operand("value", v, p.images, p.keys, op.v_size);
  p.extra_keys = (p.bias_kv ? 1 : 0) + (op.add_zero_attn ? 1 : 0);
  const std::int64_t heads = op.num_heads;
  for (const std::int64_t n : {op.qproj_size, op.kproj_size, op.vproj_size}) {
    if (n % heads != 0)
      fail_value(kName, "expected projections that ", heads, " heads divide, got ", n);
  }
  // A head's share of what is projected; all of what is not.
  const auto share = [&](std::int64_t projected, std::int64_t whole) {
    return projected ? projected / heads : whole;
  };
  const std::int64_t q_depth = share(op.qproj_size, op.embeding_size);
  const std::int64_t k_depth = share(op.kproj_size, op.k_size);
  if (q_depth != k_depth) {
    fail_value(kName, "expected heads whose queries and keys are of one width, got ", q_depth,
               " and ", k_depth);
  }
  p.k_width = op.kproj_size ? op.kproj_size : op.k_size;
  p.v_width = op.vproj_size ? op.vproj_size : op.v_size;
  p.heads_width = heads * share(op.vproj_size, op.v_size);
  p.out_width = op.oproj_size ? op.oproj_size : p.heads_width;
  p.sizes = {op.embeding_size * op.qproj_size,
             op.k_size * op.kproj_size,
             op.v_size * op.vproj_size,
             p.heads_width * op.oproj_size,
             op.qbias && op.qproj_size ? op.qproj_size : 0,
             op.kbias && op.kproj_size ? op.kproj_size : 0,
             op.vbias && op.vproj_size ? op.vproj_size : 0,
             op.obias && op.oproj_size ? op.oproj_size : 0};
  std::int64_t total = 0;  // each at most 2^62: added up only as far as there are weights
  for (const std::int64_t n : p.sizes) {
    if (n > w.size() - total) {
      total = -1;
      break;
    }
    total += n;
  }
  if (total != w.size()) {
    std::string wanted;
    for (const std::int64_t n : p.sizes) wanted += (wanted.empty() ? "" : " + ") + str(n);
    fail_value(kName, "expected ", wanted, " weights and biases, got shape ", w.shape);
  }
  if (op.reslink && q.shape != Shape{p.images, p.queries, p.out_width}) {
    fail_value(kName, "expected a residual of the output's shape ",
               Shape{p.images, p.queries, p.out_width}, ", got a query of shape ", q.shape);
  }
  if (p.bias_kv) {
    const std::size_t at = in.size() - 2;
    if (in[at].size() != p.k_width || in[at + 1].size() != p.v_width) {
      fail_value(kName, "expected bias_k and bias_v of ", p.k_width, " and ", p.v_width,
                 " values, got shapes ", in[at].shape, " and ", in[at + 1].shape);
    }
  }
  return p;
}

// ---- masks --------------------------------------------------------------------------------------

// (queries, keys) and (images * heads, queries, keys) with four axes.
Value four_axes(const MultiHeadAttn& op, const Plan& p, const Value& mask) {
  if (!is_bool(mask.dtype()) && !is_float(mask.dtype())) {
    fail_type(kName, "expected masks of bool or of a float dtype, got ", mask.dtype());
  }
  const Shape by_query{p.queries, p.keys}, by_head{p.images * op.num_heads, p.queries, p.keys};
  const Shape whole{p.images, op.num_heads, p.queries, p.keys};
  if (mask.shape() == by_query) return reshape(mask, Shape{1, 1, p.queries, p.keys});
  if (mask.shape() == by_head) return reshape(mask, whole);
  bool fits = mask.ndim() == 4;
  for (int i = 0; fits && i < 4; ++i) fits = mask.shape()[i] == 1 || mask.shape()[i] == whole[i];
  if (fits) return mask;
  fail_value(kName, "expected a mask of shape ", by_query, " or ", by_head,
             ", or of four axes that broadcast to ", whole, ", got ", mask.shape());
}

// Columns for the keys that were added, which nothing hides.
Value with_extra_keys(const Plan& p, const Value& mask) {
  if (p.extra_keys == 0) return mask;
  Shape shape = mask.shape();
  shape[3] = p.keys;
  Shape tail = shape;
  tail[3] = p.extra_keys;
  Spec spec(mask.dtype(), tail);
  spec.device = mask.device();
  return concat({broadcast_to(mask, shape), zeros(spec)}, 3);
}

Value row_of_numbers(const Value& like, const Shape& shape) {
  std::int64_t n = 1;
  for (const std::int64_t s : shape) n *= s;
  return reshape(arange(n, DType::int32, like.device()), shape);
}

Value later_keys(const Plan& p, const Value& like) {
  return less(row_of_numbers(like, Shape{1, 1, p.queries, 1}),
              row_of_numbers(like, Shape{1, 1, 1, p.keys}));
}

Value logical_or(const Value& a, const Value& b) { return elemwise(Elemwise::Mode::OR, a, b); }

// windows: (2, queries), [first, end) of the keys; lengths: (2, images), of queries and keys.
Values cudnn_masks(const Plan& p, const Value& windows, const Value& lengths) {
  if (!is_integer(windows.dtype()) || !is_integer(lengths.dtype())) {
    fail_type(kName, "expected integer masks in the style of cuDNN, got ", windows.dtype(), " and ",
              lengths.dtype());
  }
  if (windows.shape() != Shape{2, p.queries} || lengths.shape() != Shape{2, p.images}) {
    fail_value(kName, "expected masks in the style of cuDNN of shapes ", Shape{2, p.queries},
               " and ", Shape{2, p.images}, ", got ", windows.shape(), " and ", lengths.shape());
  }
  const auto row = [](const Value& v, std::int64_t i, const Shape& shape) {
    const std::int64_t sizes[] = {1, 1};
    return reshape(cast(split(v, 0, sizes)[static_cast<std::size_t>(i)], DType::int32), shape);
  };
  const Value key = row_of_numbers(windows, Shape{1, 1, 1, p.keys});
  const Value query = row_of_numbers(windows, Shape{1, 1, p.queries, 1});
  const Shape by_query{1, 1, p.queries, 1}, by_image{p.images, 1, 1, 1};
  const Value window =
      logical_or(less(key, row(windows, 0, by_query)), less_equal(row(windows, 1, by_query), key));
  return {window, less_equal(row(lengths, 0, by_image), query),
          less_equal(row(lengths, 1, by_image), key)};
}

// All masks with four axes, for the keys that were given and those that were added. `causal` is
// left where attention itself can do it.
Values masks_of(const MultiHeadAttn& op, const Plan& p, const Values& in, bool& causal) {
  Values masks;
  if (op.attn_mask_type == MaskType::CUDNN_STYLE_MASK) {
    masks = cudnn_masks(p, in[4], in[5]);
  } else {
    for (std::size_t i = 0; i < p.masks; ++i) masks.push_back(four_axes(op, p, in[4 + i]));
  }
  causal = op.attn_mask_type == MaskType::DEFAULT_MASK;
  if (causal && p.extra_keys > 0) {
    masks.push_back(later_keys(p, in[0]));
    causal = false;
  }
  for (Value& m : masks) m = with_extra_keys(p, m);
  return masks;
}

// ---- projections --------------------------------------------------------------------------------

Value project(const Value& x, const Value& weight, const Value& bias, std::int64_t width) {
  if (width == 0) return x;
  const Value w = transpose(reshape(weight, Shape{x.shape().back(), width}), {1, 0});
  return bias.size() ? call(Linear{}, x, w, bias) : call(Linear{}, x, w);
}

// (images, rows, width) as (images, heads, rows, width / heads); or, where it is not projected,
// whole for every head.
Value heads_of(const Value& x, std::int64_t heads, bool projected) {
  const Shape& s = x.shape();
  if (!projected) {
    return broadcast_to(reshape(x, Shape{s[0], 1, s[1], s[2]}), Shape{s[0], heads, s[1], s[2]});
  }
  return transpose(reshape(x, Shape{s[0], s[1], heads, s[2] / heads}), {0, 2, 1, 3});
}

// More rows: a bias, zeros.
Value with_rows(const Value& x, const Value& bias, bool add_zeros) {
  Values rows{x};
  Shape one = x.shape();
  one[1] = 1;
  if (bias) {
    const Value row = reshape(cast(bias, x.dtype()), Shape{1, 1, one[2]});
    rows.push_back(broadcast_to(row, one));
  }
  if (add_zeros) {
    Spec spec(x.dtype(), one);
    spec.device = x.device();
    rows.push_back(zeros(spec));
  }
  return rows.size() == 1 ? x : concat(std::move(rows), 1);
}

// ---- attention ----------------------------------------------------------------------------------

struct Attended {
  Value y, weights;  // with the axes (images, heads, queries, ...)
};

Attended attend_with_weights(const MultiHeadAttn& op, const Value& q, const Value& k,
                             const Value& v, const Values& masks, bool causal, double drop_prob) {
  const DType dtype = q.dtype(), wide = dtype == DType::float64 ? dtype : DType::float32;
  const Value s = attention_scores(cast(q, wide), cast(k, wide), {masks.begin(), masks.size()},
                                   op.sm_scaler, causal);
  Value p = s.shape()[3] == 0 ? s : softmax(s, -1);
  if (drop_prob > 0) p = call_all(Dropout{drop_prob, op.handle}, {p})[0];
  return {cast(matmul(p, cast(v, wide)), dtype), cast(p, dtype)};
}

Attended attend(const MultiHeadAttn& op, const Value& q, const Value& k, const Value& v,
                const Values& masks, bool causal, double drop_prob) {
  if (op.need_weights) return attend_with_weights(op, q, k, v, masks, causal, drop_prob);
  Values in{q, k, v};
  for (const Value& m : masks) in.push_back(m);
  if (drop_prob > 0) {
    const Shape weights{q.shape()[0], q.shape()[1], q.shape()[2], k.shape()[2]};
    in.push_back(attention_dropout_state(weights, op.handle, q.device()));
  }
  const ScaledDotProductAttention attention{op.sm_scaler, causal, drop_prob};
  return {call_all(attention, std::move(in))[0], {}};
}

Value nothing(const Value& like) {
  Spec spec(like.dtype(), Shape{0});
  spec.device = like.device();
  return zeros(spec);
}

Specs specs_of(const Values& in) {
  Specs out;
  for (const Value& v : in) out.push_back(v.spec());
  return out;
}

}  // namespace

Specs infer(const MultiHeadAttn& op, const Specs& in) {
  const Plan p = plan(op, in);
  const DType dtype = in[0].dtype;
  const Spec none(dtype, Shape{0});
  const Spec weights(dtype, Shape{p.images * op.num_heads, p.queries, p.all_keys()});
  return {Spec(dtype, Shape{p.images, p.queries, p.out_width}), op.need_weights ? weights : none,
          none, none};
}

Values decompose(const MultiHeadAttn& op, const Values& in) {
  const Plan p = plan(op, specs_of(in));
  const Values w = split(flatten(in[3]), 0, p.sizes);
  Value q = project(in[0], w[0], w[4], op.qproj_size);
  Value k = project(in[1], w[1], w[5], op.kproj_size);
  Value v = project(in[2], w[2], w[6], op.vproj_size);
  k = with_rows(k, p.bias_kv ? in[in.size() - 2] : Value(), op.add_zero_attn);
  v = with_rows(v, p.bias_kv ? in[in.size() - 1] : Value(), op.add_zero_attn);
  bool causal = false;
  const Values masks = masks_of(op, p, in, causal);
  const Attended a = attend(op, heads_of(q, op.num_heads, op.qproj_size > 0),
                            heads_of(k, op.num_heads, op.kproj_size > 0),
                            heads_of(v, op.num_heads, op.vproj_size > 0), masks, causal,
                            op.training ? op.attn_prob : 0);
  Value y = reshape(transpose(a.y, {0, 2, 1, 3}), Shape{p.images, p.queries, p.heads_width});
  y = project(y, w[3], w[7], op.oproj_size);
  if (op.training && op.out_prob > 0) y = call_all(Dropout{op.out_prob, op.handle}, {y})[0];
  if (op.reslink) y = add(y, in[0]);
  const Value none = nothing(in[0]);
  const Value weights =
      op.need_weights ? reshape(a.weights, Shape{p.images * op.num_heads, p.queries, p.all_keys()})
                      : none;
  return {y, weights, none.detached(), none.detached()};
}

REGISTER_OP(MultiHeadAttn);

}  // namespace mge
