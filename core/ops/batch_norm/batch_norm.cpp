#include "core/ops/batch_norm/batch_norm.h"

#include <algorithm>

#include "core/ops/elementwise/elementwise.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"

namespace mge {

Strides image_strides(const Spec& x) {
  if (is_row_major(x.shape, x.strides) || !is_channels_last(x.shape, x.strides)) {
    return row_major(x.shape);
  }
  return channels_last(x.shape);
}

namespace {

DType wide(DType dtype) { return dtype == DType::float64 ? dtype : DType::float32; }

void check_image(const char* op, const Spec& x) {
  if (!is_float(x.dtype)) fail_type(op, "expected an input of a float dtype, got ", x.dtype);
  if (x.ndim() < 2) fail_value(op, "expected an input (N, C, ...), got shape ", x.shape);
}

void check_channels(const char* op, const char* what, const Spec& v, std::int64_t channels) {
  if (!is_float(v.dtype)) fail_type(op, "expected ", what, " of a float dtype, got ", v.dtype);
  if (v.size() != channels) {
    fail_value(op, "expected ", what, " with one value for each of ", channels,
               " channels, got shape ", v.shape);
  }
}

// All axes but the channels'.
Dims other_axes(int ndim) {
  Dims axes;
  for (int i = 0; i < ndim; ++i) {
    if (i != 1) axes.push_back(i);
  }
  return axes;
}

// C values in x's dtype of computing, shaped to broadcast over x.
Value per_channel(const Value& v, const Value& x) {
  Shape shape = Dims::filled(x.ndim(), 1);
  shape[1] = x.shape()[1];
  return reshape(cast(v, wide(x.dtype())), shape);
}

double count_per_channel(const Value& x) {
  std::int64_t n = 1;
  for (int i = 0; i < x.ndim(); ++i) n *= i == 1 ? 1 : x.shape()[i];
  return static_cast<double>(std::max<std::int64_t>(n, 1));
}

struct Normalized {
  Value mean, var, rstd, h;  // h = (x - mean) * rstd
};

Normalized normalize_batch(const Value& x, double epsilon) {
  Normalized n;
  const Dims axes = other_axes(x.ndim());
  n.mean = mean(x, axes, true);
  const Value centered = sub(x, n.mean);
  n.var = mean(square(centered), axes, true);
  n.rstd = rsqrt(add(n.var, epsilon));
  n.h = mul(centered, n.rstd);
  return n;
}

// keep * running + (1 - keep) * batch, in running's shape and dtype.
Value move_average(const Value& running, const Value& batch, double keep) {
  const Value now = reshape(cast(batch, running.dtype()), running.shape());
  return add(mul(running, keep), mul(now, 1 - keep));
}

}  // namespace

Specs infer(const BatchNorm& op, const Specs& in) {
  const bool training = op.fwd_mode == BatchNormMode::TRAINING;
  if (in.size() != 5 && !(training && in.size() == 3)) {
    fail_type("BatchNorm", "expected x, scale, bias, running_mean and running_var, got ", in.size(),
              " inputs");
  }
  const Spec& x = in[0];
  check_image("BatchNorm", x);
  const std::int64_t channels = x.shape[1];
  static constexpr const char* names[] = {"x", "scale", "bias", "running_mean", "running_var"};
  for (std::size_t i = 1; i < in.size(); ++i)
    check_channels("BatchNorm", names[i], in[i], channels);
  Specs out{Spec(x.dtype, x.shape, image_strides(x))};
  if (!training) return out;
  out.emplace_back(wide(x.dtype), Shape{channels});
  out.emplace_back(wide(x.dtype), Shape{channels});
  for (std::size_t i = 3; i < in.size(); ++i) out.emplace_back(in[i].dtype, in[i].shape);
  return out;
}

Values decompose(const BatchNorm& op, const Values& in) {
  const Value x = cast(in[0], wide(in[0].dtype()));
  const Value scale = per_channel(in[1], x), bias = per_channel(in[2], x);
  if (op.fwd_mode == BatchNormMode::INFERENCE) {
    const Value rstd = rsqrt(add(per_channel(in[4], x), op.epsilon));
    const Value h = mul(sub(x, per_channel(in[3], x)), rstd);
    return {cast(add(mul(h, scale), bias), in[0].dtype())};
  }
  const Normalized n = normalize_batch(x, op.epsilon);
  const Shape flat{x.shape()[1]};
  Values out{cast(add(mul(n.h, scale), bias), in[0].dtype()), reshape(n.mean, flat),
             reshape(n.rstd, flat)};
  if (in.size() == 5) {
    const double count = count_per_channel(x), keep = 1 - op.avg_factor;
    out.push_back(move_average(in[3], n.mean, keep));
    out.push_back(move_average(in[4], mul(n.var, count / std::max(count - 1, 1.0)), keep));
  }
  return out;
}

Keep keep(const BatchNorm& op, std::uint32_t) {
  return op.fwd_mode == BatchNormMode::TRAINING ? Keep{0b00011, 0b110} : Keep{0b11011, 0};
}

// The statistics that come out beside y carry no gradient of their own.
Values grad(const BatchNorm& op, const GradArgs& g) {
  Values out(g.in_specs.size());
  if (!g.dy[0]) return out;
  const bool training = op.fwd_mode == BatchNormMode::TRAINING;
  const Value &x = g.inputs[0], &scale = g.inputs[1];
  const Value& mean = training ? g.outputs[1] : g.inputs[3];
  const Value& spread = training ? g.outputs[2] : g.inputs[4];
  const Values d = call_all(BatchNormBackward{.fwd_mode = op.fwd_mode, .epsilon = op.epsilon},
                            {g.dy[0], x, scale, mean, spread});
  out[0] = d[0];
  out[1] = d[1];
  out[2] = reshape(cast(d[2], g.in_specs[2].dtype), g.in_specs[2].shape);
  if (training) return out;
  // y falls by scale * rstd for each unit of the mean, by h * scale * rstd^2 / 2 for the
  // variance's.
  const DType dtype = wide(x.dtype());
  auto flat = [&](const Value& v) { return reshape(cast(v, dtype), Shape{x.shape()[1]}); };
  const Value rstd = rsqrt(add(flat(spread), op.epsilon)), slope = mul(flat(scale), rstd);
  auto like = [&](const Value& v, std::size_t i) {
    return reshape(cast(v, g.in_specs[i].dtype), g.in_specs[i].shape);
  };
  if (g.need(3)) out[3] = like(neg(mul(flat(d[2]), slope)), 3);
  if (g.need(4)) out[4] = like(mul(mul(mul(flat(d[1]), slope), rstd), -0.5), 4);
  return out;
}

REGISTER_OP(BatchNorm);

Specs infer(const BatchNormBackward&, const Specs& in) {
  if (in.size() != 5) fail_type("BatchNormBackward", "expected 5 inputs, got ", in.size());
  const Spec& x = in[1];
  check_image("BatchNormBackward", x);
  if (in[0].shape != x.shape) {
    fail_value("BatchNormBackward", "expected dy of shape ", x.shape, ", got ", in[0].shape);
  }
  static constexpr const char* names[] = {"dy", "x", "scale", "mean", "rstd"};
  for (std::size_t i = 2; i < 5; ++i) {
    check_channels("BatchNormBackward", names[i], in[i], x.shape[1]);
  }
  return {Spec(x.dtype, x.shape, image_strides(x)), Spec(in[2].dtype, in[2].shape),
          Spec(in[2].dtype, in[2].shape)};
}

// In training the statistics are computed from x again: they depend on it, and derivatives of this
// op have to know.
Values decompose(const BatchNormBackward& op, const Values& in) {
  const Value x = cast(in[1], wide(in[1].dtype())), dy = cast(in[0], x.dtype());
  const Value scale = per_channel(in[2], x);
  const Dims axes = other_axes(x.ndim());
  auto like_scale = [&](const Value& v) { return reshape(cast(v, in[2].dtype()), in[2].shape()); };
  if (op.fwd_mode == BatchNormMode::INFERENCE) {
    const Value rstd = rsqrt(add(per_channel(in[4], x), op.epsilon));
    const Value h = mul(sub(x, per_channel(in[3], x)), rstd);
    return {cast(mul(dy, mul(scale, rstd)), in[1].dtype()), like_scale(sum(mul(dy, h), axes, true)),
            like_scale(sum(dy, axes, true))};
  }
  const Normalized n = normalize_batch(x, op.epsilon);
  const Value dbias = sum(dy, axes, true), dscale = sum(mul(dy, n.h), axes, true);
  const Value shared = mul(add(dbias, mul(n.h, dscale)), 1 / count_per_channel(x));
  const Value dx = mul(mul(scale, n.rstd), sub(dy, shared));
  return {cast(dx, in[1].dtype()), like_scale(dscale), like_scale(dbias)};
}

REGISTER_OP(BatchNormBackward);

}  // namespace mge
