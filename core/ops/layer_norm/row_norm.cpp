#include "core/ops/layer_norm/row_norm.h"

#include "core/ops/elementwise/elementwise.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

DType wide(DType dtype) { return dtype == DType::float64 ? dtype : DType::float32; }

void check_parameter(const RowNorm& n, const char* what, const Spec& v) {
  if (!is_float(v.dtype)) fail_type(n.op, "expected ", what, " of a float dtype, got ", v.dtype);
  if (v.size() != n.at.channels()) {
    fail_value(n.op, "expected ", what, " of ", n.at.channels(), " values, got shape ", v.shape);
  }
}

// (images, channels, run): scale and shift are one for each of the middle axis.
Value by_channel(const RowNorm& n, const Value& v) {
  return reshape(v, {n.at.images, n.at.channels(), n.at.run});
}
Value parameter(const RowNorm& n, const Value& v, DType dtype) {
  return reshape(cast(v, dtype), {1, n.at.channels(), 1});
}

struct NormalizedRows {
  Value mean, rstd, h;  // (rows, 1), (rows, 1), (rows, cols)
};

NormalizedRows normalize_rows(const RowNorm& n, const Value& x) {
  const Value rows = reshape(x, {n.at.rows(), n.at.cols});
  NormalizedRows out;
  out.mean = mean(rows, {1}, true);
  const Value centered = sub(rows, out.mean);
  out.rstd = rsqrt(add(mean(square(centered), {1}, true), n.eps));
  out.h = mul(centered, out.rstd);
  return out;
}

}  // namespace

void check_row_norm_input(const char* op, const Specs& in, std::size_t x, std::size_t plain,
                          bool affine) {
  const std::size_t wanted = plain + (affine ? (x == 0 ? 2 : 1) : 0);
  if (in.size() != wanted) fail_type(op, "expected ", wanted, " inputs, got ", in.size());
  if (!is_float(in[x].dtype)) {
    fail_type(op, "expected an input of a float dtype, got ", in[x].dtype);
  }
}

Specs infer_forward(const RowNorm& n, const Specs& in) {
  const Spec& x = in[0];
  if (n.affine) {
    check_parameter(n, "weight", in[1]);
    check_parameter(n, "bias", in[2]);
  }
  return {Spec(x.dtype, x.shape), Spec(wide(x.dtype), n.rows), Spec(wide(x.dtype), n.rows)};
}

Specs infer_backward(const RowNorm& n, const Specs& in) {
  const Spec& x = in[1];
  if (in[0].shape != x.shape) {
    fail_value(n.op, "expected dy of shape ", x.shape, ", got ", in[0].shape);
  }
  for (std::size_t i = 2; i < 4; ++i) {
    if (in[i].size() != n.at.rows() || in[i].dtype != wide(x.dtype)) {
      fail_value(n.op, "expected statistics of ", n.at.rows(), " rows, got shape ", in[i].shape);
    }
  }
  Specs out{Spec(x.dtype, x.shape)};
  if (n.affine) {
    check_parameter(n, "weight", in[4]);
    out.emplace_back(in[4].dtype, in[4].shape);
    out.emplace_back(in[4].dtype, in[4].shape);
  }
  return out;
}

Values decompose_forward(const RowNorm& n, const Values& in) {
  const Value x = cast(in[0], wide(in[0].dtype()));
  const NormalizedRows rows = normalize_rows(n, x);
  Value y = rows.h;
  if (n.affine) {
    y = add(mul(by_channel(n, y), parameter(n, in[1], x.dtype())), parameter(n, in[2], x.dtype()));
  }
  return {cast(reshape(y, x.shape()), in[0].dtype()), reshape(rows.mean, n.rows),
          reshape(rows.rstd, n.rows)};
}

// The statistics are computed from x again: they depend on it, and derivatives of the backward op
// have to know.
Values decompose_backward(const RowNorm& n, const Values& in) {
  const Value x = cast(in[1], wide(in[1].dtype())), dy = cast(in[0], x.dtype());
  const NormalizedRows rows = normalize_rows(n, x);
  Value g = dy;
  if (n.affine) g = mul(by_channel(n, dy), parameter(n, in[4], x.dtype()));
  g = reshape(g, rows.h.shape());
  const Value along = mul(rows.h, mean(mul(g, rows.h), {1}, true));
  const Value dx = mul(rows.rstd, sub(sub(g, mean(g, {1}, true)), along));
  Values out{cast(reshape(dx, x.shape()), in[1].dtype())};
  if (n.affine) {
    auto total = [&](const Value& v) {
      const Value s = sum(by_channel(n, v), {0, 2}, false);
      return reshape(cast(s, in[4].dtype()), in[4].shape());
    };
    out.push_back(total(mul(reshape(dy, rows.h.shape()), rows.h)));
    out.push_back(total(dy));
  }
  return out;
}

Values backward_inputs(const RowNorm& n, const GradArgs& g) {
  Values in{g.dy[0], g.inputs[0], g.outputs[1], g.outputs[2]};
  if (n.affine) in.push_back(g.inputs[1]);
  return in;
}

Values forward_grads(const RowNorm& n, const GradArgs& g, Values d) {
  if (n.affine) d[2] = reshape(cast(d[2], g.in_specs[2].dtype), g.in_specs[2].shape);
  return d;
}

}  // namespace mge
