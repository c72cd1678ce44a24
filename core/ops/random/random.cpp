#include "core/ops/random/random.h"

#include <cmath>
#include <limits>

#include "core/ops/indexing/indexing.h"
#include "core/ops/sort/sort.h"

namespace mge {
namespace {

void check_inputs(const char* op, const Specs& in, std::size_t n) {
  if (in.size() != n) fail_type(op, "expected ", n, " inputs, got ", in.size());
}
void check_float(const char* op, DType dtype) {
  if (!is_float(dtype)) fail_type(op, "expected a float dtype, got ", dtype);
}

template <class Op>
Specs source_spec(const Op& op, const Specs& in) {
  const char* name = Op::traits.name;
  check_inputs(name, in, 0);
  check_float(name, op.dtype);
  count(op.shape);
  Spec out(op.dtype, op.shape);
  out.device = op.device;
  return {out};
}

// One output for parameters of one shape and float dtype.
Specs distribution_spec(const char* op, const Specs& in, std::size_t parameters) {
  check_inputs(op, in, parameters);
  check_float(op, in[0].dtype);
  for (const Spec& s : in) {
    if (s.shape != in[0].shape || s.dtype != in[0].dtype) {
      fail_value(op, "expected parameters of one shape and dtype, got ", in[0].dtype, in[0].shape,
                 " and ", s.dtype, s.shape);
    }
  }
  Spec out(in[0].dtype, in[0].shape);
  out.device = in[0].device;
  return {out};
}

// The integers that a dtype holds without a gap, from 0; int64s of them.
std::int64_t largest_exact(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return std::int64_t{1} << 24;
    case DType::float16:
      return 1 << 11;
    case DType::bfloat16:
      return 1 << 8;
    case DType::float64:
      return std::int64_t{1} << 53;
    default:
      break;
  }
  if (size_of(dtype) == 8) return std::numeric_limits<std::int64_t>::max();
  const int bits = static_cast<int>(size_of(dtype)) * 8 - (info(dtype).is_signed ? 1 : 0);
  return static_cast<std::int64_t>((std::uint64_t{1} << bits) - 1);
}

void check_probability(const char* op, double p) {
  if (!(p >= 0 && p <= 1)) fail_value(op, "expected drop_prob between 0 and 1, got ", p);
}

Spec dense_spec(DType dtype, const Spec& like) {
  Spec out(dtype, like.shape,
           is_dense(like.shape, like.strides) ? like.strides : row_major(like.shape));
  out.device = like.device;
  return out;
}

}  // namespace

Specs infer(const UniformRNG& op, const Specs& in) {
  if (!(op.low < op.high) || !std::isfinite(op.high - op.low)) {
    fail_value("UniformRNG", "expected low < high, both finite, got ", op.low, " and ", op.high);
  }
  return source_spec(op, in);
}
REGISTER_OP(UniformRNG);

Specs infer(const GaussianRNG& op, const Specs& in) { return source_spec(op, in); }
REGISTER_OP(GaussianRNG);

Specs infer(const PermutationRNG& op, const Specs& in) {
  check_inputs("PermutationRNG", in, 0);
  if (op.n < 0 || op.n > std::numeric_limits<std::int32_t>::max()) {
    fail_value("PermutationRNG", "expected n between 0 and 2^31 - 1, got ", op.n);
  }
  if (is_bool(op.dtype)) fail_type("PermutationRNG", "expected a number dtype, got bool");
  if (op.n - 1 > largest_exact(op.dtype)) {
    fail_value("PermutationRNG", "the numbers below ", op.n, " do not all fit ", op.dtype);
  }
  Spec out(op.dtype, {op.n});
  out.device = op.device;
  return {out};
}
REGISTER_OP(PermutationRNG);

Specs infer(const ShuffleRNG&, const Specs& in) {
  check_inputs("ShuffleRNG", in, 1);
  if (in[0].ndim() == 0) fail_value("ShuffleRNG", "expected at least 1 dimension, got a scalar");
  if (in[0].shape[0] > std::numeric_limits<std::int32_t>::max()) {
    fail_value("ShuffleRNG", "positions among ", in[0].shape[0], " rows do not fit int32");
  }
  Spec rows(in[0].dtype, in[0].shape), positions(DType::int32, {in[0].shape[0]});
  rows.device = positions.device = in[0].device;
  return {rows, positions};
}
Keep keep(const ShuffleRNG&, std::uint32_t) { return {0, 2}; }
Values grad(const ShuffleRNG&, const GradArgs& g) {
  // The inverse of a permutation is what sorts it.
  const Values sorted = call_all(Argsort{}, {g.outputs[1]});
  return {take(g.dy_or_zeros(0), sorted[1], 0)};
}
REGISTER_OP(ShuffleRNG);

Specs infer(const PoissonRNG&, const Specs& in) { return distribution_spec("PoissonRNG", in, 1); }
REGISTER_OP(PoissonRNG);
Specs infer(const GammaRNG&, const Specs& in) { return distribution_spec("GammaRNG", in, 2); }
REGISTER_OP(GammaRNG);
Specs infer(const BetaRNG&, const Specs& in) { return distribution_spec("BetaRNG", in, 2); }
REGISTER_OP(BetaRNG);

Specs infer(const Dropout& op, const Specs& in) {
  check_inputs("Dropout", in, 1);
  check_float("Dropout", in[0].dtype);
  check_probability("Dropout", op.drop_prob);
  return {dense_spec(in[0].dtype, in[0]), dense_spec(DType::boolean, in[0])};
}
Keep keep(const Dropout&, std::uint32_t) { return {0, 2}; }
Values grad(const Dropout& op, const GradArgs& g) {
  return {call(DropoutMask{op.drop_prob}, g.dy_or_zeros(0), g.outputs[1])};
}
REGISTER_OP(Dropout);

Specs infer(const DropoutMask& op, const Specs& in) {
  check_inputs("DropoutMask", in, 2);
  check_float("DropoutMask", in[0].dtype);
  check_probability("DropoutMask", op.drop_prob);
  if (!is_bool(in[1].dtype) || in[1].shape != in[0].shape) {
    fail_value("DropoutMask", "expected a bool mask of shape ", in[0].shape, ", got ", in[1].dtype,
               in[1].shape);
  }
  return {dense_spec(in[0].dtype, in[1])};
}
Keep keep(const DropoutMask&, std::uint32_t) { return {2, 0}; }
Values grad(const DropoutMask& op, const GradArgs& g) {
  return {call(DropoutMask{op.drop_prob}, g.dy[0], g.inputs[1]), Value()};
}
REGISTER_OP(DropoutMask);

}  // namespace mge
