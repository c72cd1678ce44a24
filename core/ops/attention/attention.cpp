#include "core/ops/attention/attention.h"

#include <limits>

#include "core/ops/attention/attention.loops.h"
#include "core/ops/creation/creation.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/matmul/matmul.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"
#include "core/ops/softmax/softmax.h"

namespace mge {
namespace {

DType compute_dtype(DType dtype) {
  return dtype == DType::float64 ? DType::float64 : DType::float32;
}

struct Sizes {
  std::int64_t images, heads, queries, keys;
  Shape weights() const { return {images, heads, queries, keys}; }
};

void check_probability(const char* name, double p) {
  if (!(p >= 0 && p < 1)) fail_value(name, "expected drop_prob in [0, 1), got ", p);
}

void check_state(const char* name, const Spec& state) {
  if (state.dtype != DType::int64 || state.shape != Shape{2}) {
    fail_value(name, "expected a state of RandomCounters, int64 of shape (2,), got ", state.dtype,
               " of shape ", state.shape);
  }
}

void check_mask(const char* name, const Spec& mask, const Shape& weights) {
  if (!is_bool(mask.dtype) && !is_float(mask.dtype)) {
    fail_type(name, "expected masks of bool or of a float dtype, got ", mask.dtype);
  }
  bool fits = mask.ndim() == 4;
  for (int i = 0; fits && i < 4; ++i) fits = mask.shape[i] == 1 || mask.shape[i] == weights[i];
  if (!fits) {
    fail_value(name, "expected masks of four axes that broadcast to ", weights, ", got shape ",
               mask.shape);
  }
}

// Checks (q, k, v, masks..., [state]), which begin at in[first].
Sizes checked(const char* name, const Specs& in, std::size_t first, double drop_prob) {
  check_probability(name, drop_prob);
  const std::size_t tail = drop_prob > 0 ? 1 : 0, least = first + 3 + tail;
  if (in.size() < least || in.size() > least + kMaxAttentionMasks) {
    fail_type(name, "expected ", least, " to ", least + kMaxAttentionMasks, " inputs, got ",
              in.size());
  }
  const Spec &q = in[first], &k = in[first + 1], &v = in[first + 2];
  if (!is_float(q.dtype)) fail_type(name, "expected q of a float dtype, got ", q.dtype);
  if (k.dtype != q.dtype || v.dtype != q.dtype) {
    fail_type(name, "expected q, k and v of one dtype, got ", q.dtype, ", ", k.dtype, " and ",
              v.dtype);
  }
  if (q.ndim() != 4 || k.ndim() != 4 || v.ndim() != 4) {
    fail_value(name, "expected q, k and v of four axes, got shapes ", q.shape, ", ", k.shape,
               " and ", v.shape);
  }
  const Sizes n{q.shape[0], q.shape[1], q.shape[2], k.shape[2]};
  if (k.shape != Shape{n.images, n.heads, n.keys, q.shape[3]} ||
      v.shape != Shape{n.images, n.heads, n.keys, v.shape[3]}) {
    fail_value(name, "expected q, k and v to agree in images, heads, keys and depth, got shapes ",
               q.shape, ", ", k.shape, " and ", v.shape);
  }
  count(n.weights());  // the largest index of a weight fits
  for (std::size_t i = first + 3; i < in.size() - tail; ++i) check_mask(name, in[i], n.weights());
  if (tail) check_state(name, in.back());
  return n;
}

// Dense, with the axes in the order that they have in `like`.
Spec in_order_of(const Spec& like, const Shape& shape) {
  for (int i = 0; i < like.ndim(); ++i) {
    if (like.strides[i] <= 0) return Spec(like.dtype, shape);
  }
  return Spec(like.dtype, shape, dense_like(shape, like.strides));
}

// True where the key comes after the query: (1, 1, queries, keys).
Value after(const Value& q, const Value& k) {
  const std::int64_t queries = q.shape()[2], keys = k.shape()[2];
  const Value i = reshape(arange(queries, DType::int32, q.device()), Shape{1, 1, queries, 1});
  const Value j = reshape(arange(keys, DType::int32, q.device()), Shape{1, 1, 1, keys});
  return less(i, j);
}

// The softmax along the keys, of which there may be none.
Value weights_of(const Value& scores) {
  return scores.shape()[3] == 0 ? scores : softmax(scores, -1);
}

Value times_dropout(const Value& x, const Value& keep, double drop_prob) {
  return where(keep, mul(x, 1 / (1 - drop_prob)), scalar_like(x, 0));
}

// The operands of a decomposition, in the dtype that is computed in.
struct Operands {
  Value q, k, v;
  std::span<const Value> masks;
  Value keep;  // where weights are dropped
};

Operands operands(const Values& in, std::size_t first, double drop_prob) {
  const DType dtype = compute_dtype(in[first].dtype());
  const std::size_t tail = drop_prob > 0 ? 1 : 0;
  Operands o;
  o.q = cast(in[first], dtype);
  o.k = cast(in[first + 1], dtype);
  o.v = cast(in[first + 2], dtype);
  o.masks = std::span(in.begin() + first + 3, in.end() - tail);
  if (tail) {
    const Shape weights{o.q.shape()[0], o.q.shape()[1], o.q.shape()[2], o.k.shape()[2]};
    o.keep = call(AttentionDropoutMask{weights, drop_prob}, in.back());
  }
  return o;
}

// The weights, and the gradients of weights after dropout and of scores.
struct ScoreGradient {
  Value kept, scores;
};

template <class Op>
ScoreGradient score_gradient(const Op& op, const Operands& o, const Value& dy) {
  const Value p = weights_of(attention_scores(o.q, o.k, o.masks, op.scale, op.causal));
  Value dp = matmul(dy, o.v, false, true);
  if (o.keep) dp = times_dropout(dp, o.keep, op.drop_prob);
  return {o.keep ? times_dropout(p, o.keep, op.drop_prob) : p,
          mul(p, sub(dp, sum(mul(p, dp), {-1}, true)))};
}

}  // namespace

Value attention_scores(const Value& q, const Value& k, std::span<const Value> masks, double scale,
                       bool causal) {
  Value s = mul(matmul(q, k, false, true), scale);
  const Value hidden = scalar_like(s, -std::numeric_limits<double>::infinity());
  if (causal) s = where(after(q, k), hidden, s);
  for (const Value& mask : masks) {
    s = is_bool(mask.dtype()) ? where(mask, hidden, s) : add(s, cast(mask, s.dtype()));
  }
  return s;
}

Value attention_dropout_state(const Shape& weights, std::int64_t handle, const Device& device) {
  RandomCounters op{.handle = handle, .device = device};
  op.count =
      count(Shape{weights[0], weights[1], weights[2], cpu::attention_row_counters(weights[3])});
  return std::move(apply(make_op(op), {})[0]);
}

// ---- forward ------------------------------------------------------------------------------------

Specs infer(const ScaledDotProductAttention& op, const Specs& in) {
  const Sizes n = checked("ScaledDotProductAttention", in, 0, op.drop_prob);
  const Spec& q = in[0];
  return {in_order_of(q, Shape{n.images, n.heads, n.queries, in[2].shape[3]}),
          Spec(compute_dtype(q.dtype), Shape{n.images, n.heads, n.queries})};
}

Values decompose(const ScaledDotProductAttention& op, const Values& in) {
  const Operands o = operands(in, 0, op.drop_prob);
  const Value s = attention_scores(o.q, o.k, o.masks, op.scale, op.causal);
  Value p = weights_of(s);
  if (o.keep) p = times_dropout(p, o.keep, op.drop_prob);
  const Value lse = o.k.shape()[2] == 0
                        ? filled(Spec(s.dtype(), Shape{s.shape()[0], s.shape()[1], s.shape()[2]}),
                                 -std::numeric_limits<double>::infinity())
                        : call(LogSumExp{-1}, s);
  return {cast(matmul(p, o.v), in[0].dtype()), lse};
}

Values grad(const ScaledDotProductAttention& op, const GradArgs& g) {
  Values out(g.in_specs.size());
  if (!g.dy[0]) return out;
  if (g.need(0) || g.need(1) || g.need(2)) {
    Values in{g.dy[0], g.outputs[0], g.outputs[1]};
    for (const Value& v : g.inputs) in.push_back(v);
    const Values d = call_all(ScaledDotProductAttentionBackward{op.scale, op.causal, op.drop_prob},
                              std::move(in));
    for (std::size_t i = 0; i < 3; ++i) out[i] = d[i];
  }
  Value ds;  // masks rarely want a gradient: then the scores are computed whole
  for (std::size_t i = 3; i < g.in_specs.size(); ++i) {
    if (!is_float(g.in_specs[i].dtype) || !g.need(i)) continue;
    if (!ds) {
      Values in;
      for (const Value& v : g.inputs) in.push_back(v);
      const Operands o = operands(in, 0, op.drop_prob);
      ds = score_gradient(op, o, cast(g.dy[0], o.q.dtype())).scores;
    }
    out[i] = cast(sum_to(ds, g.in_specs[i].shape), g.in_specs[i].dtype);
  }
  return out;
}

REGISTER_OP(ScaledDotProductAttention);

// ---- backward -----------------------------------------------------------------------------------

Specs infer(const ScaledDotProductAttentionBackward& op, const Specs& in) {
  const char* name = ScaledDotProductAttentionBackward::traits.name;
  const Sizes n = checked(name, in, 3, op.drop_prob);
  const Spec &q = in[3], &k = in[4], &v = in[5];
  const Shape y{n.images, n.heads, n.queries, v.shape[3]};
  for (std::size_t i = 0; i < 2; ++i) {
    if (in[i].shape != y || in[i].dtype != q.dtype) {
      fail_value(name, "expected dy and y of shape ", y, " and dtype ", q.dtype, ", got ",
                 in[i].shape, " and ", in[i].dtype);
    }
  }
  if (in[2].shape != Shape{n.images, n.heads, n.queries} || in[2].dtype != compute_dtype(q.dtype)) {
    fail_value(name, "expected lse of shape ", Shape{n.images, n.heads, n.queries}, " and dtype ",
               compute_dtype(q.dtype), ", got ", in[2].shape, " and ", in[2].dtype);
  }
  return {in_order_of(q, q.shape), in_order_of(k, k.shape), in_order_of(v, v.shape)};
}

Values decompose(const ScaledDotProductAttentionBackward& op, const Values& in) {
  const DType dtype = in[3].dtype();
  const Operands o = operands(in, 3, op.drop_prob);
  const Value dy = cast(in[0], o.q.dtype());
  const ScoreGradient d = score_gradient(op, o, dy);
  const Value ds = mul(d.scores, op.scale);
  return {cast(matmul(ds, o.k), dtype), cast(matmul(ds, o.q, true, false), dtype),
          cast(matmul(d.kept, dy, true, false), dtype)};
}

REGISTER_OP(ScaledDotProductAttentionBackward);

// ---- dropout ------------------------------------------------------------------------------------

Specs infer(const RandomCounters& op, const Specs& in) {
  if (!in.empty()) fail_type("RandomCounters", "expected no inputs, got ", in.size());
  if (op.count < 0) fail_value("RandomCounters", "expected a count of 0 or more, got ", op.count);
  Spec out(DType::int64, Shape{2});
  out.device = op.device;
  return {out};
}
REGISTER_OP(RandomCounters);

Specs infer(const AttentionDropoutMask& op, const Specs& in) {
  const char* name = AttentionDropoutMask::traits.name;
  if (in.size() != 1) fail_type(name, "expected 1 input, got ", in.size());
  check_state(name, in[0]);
  check_probability(name, op.drop_prob);
  if (op.shape.empty()) fail_value(name, "expected a shape of one axis or more, got ", op.shape);
  for (const std::int64_t n : op.shape) {
    if (n < 0) fail_value(name, "expected sizes of 0 or more, got ", op.shape);
  }
  count(op.shape);
  return {Spec(DType::boolean, op.shape)};
}
REGISTER_OP(AttentionDropoutMask);

}  // namespace mge
