#include "core/kernels/cpu/random.h"

#include <cmath>
#include <cstring>
#include <optional>

#include "core/kernels/cpu/copy.h"
#include "core/kernels/cpu/parallel.h"
#include "core/ops/random/random.h"
#include "core/runtime/allocator.h"

namespace mge {
namespace {

cpu::RandomStream draw(std::int64_t handle, std::uint64_t counters) {
  const GeneratorState state = take_counters(handle, counters);
  return {state.seed, state.offset};
}

// A tensor's elements as float64, row-major; raises where one is no positive number, 0 aside where
// it is allowed.
class Parameter {
 public:
  Parameter(const char* op, const View& v, bool zero = false)
      : n_(static_cast<std::size_t>(v.size())), memory_(n_ * sizeof(double)) {
    cpu::copy(v, {memory_.as<double>(), DType::float64, v.shape, row_major(v.shape)});
    for (const double x : span()) {
      if (!((x > 0 || (zero && x == 0)) && std::isfinite(x))) {
        fail_value(op, "expected ",
                   zero ? "finite parameters from 0 on" : "positive and finite parameters",
                   ", got ", x);
      }
    }
  }
  std::span<const double> span() const { return {memory_.as<const double>(), n_}; }

 private:
  std::size_t n_;
  Scratch memory_;
};

// Calls make(double*) and converts what it leaves there to `out`, which is row-major.
template <class F>
void through_doubles(const MutView& out, F&& make) {
  const Scratch numbers(static_cast<std::size_t>(out.size()) * sizeof(double));
  make(numbers.as<double>());
  cpu::copy({numbers.as<double>(), DType::float64, out.shape, row_major(out.shape)}, out);
}

// The contents of a view in the dense layout of `like`: where they are, or copied there.
class InLayout {
 public:
  InLayout(const View& v, const Strides& like) : data_(v.data) {
    if (v.strides == like) return;
    copy_.emplace(static_cast<std::size_t>(v.size() * size_of(v.dtype)));
    data_ = copy_->as<void>();
    cpu::copy(v, {copy_->as<void>(), v.dtype, v.shape, like});
  }
  const void* data() const { return data_; }

 private:
  std::optional<Scratch> copy_;
  const void* data_;
};

}  // namespace

void kernel(const UniformRNG& op, CpuContext&, Views, MutViews out) {
  const std::int64_t n = out[0].size();
  const auto stream = draw(op.handle, cpu::counters_of_block_numbers(op.dtype, n));
  cpu::uniform(stream, op.low, op.high, op.dtype, n, out[0].data);
}
REGISTER_KERNEL(UniformRNG, cpu);

void kernel(const GaussianRNG& op, CpuContext&, Views, MutViews out) {
  const std::int64_t n = out[0].size();
  const auto stream = draw(op.handle, cpu::counters_of_block_numbers(op.dtype, n));
  cpu::normal(stream, op.mean, op.std, op.dtype, n, out[0].data);
}
REGISTER_KERNEL(GaussianRNG, cpu);

void kernel(const PermutationRNG& op, CpuContext&, Views, MutViews out) {
  const std::size_t n = static_cast<std::size_t>(op.n);
  const Scratch order(n * sizeof(std::int32_t));
  cpu::permutation(draw(op.handle, cpu::counters_of_numbers(op.n)), {order.as<std::int32_t>(), n});
  cpu::convert(order.as<void>(), DType::int32, out[0].data, op.dtype, op.n);
}
REGISTER_KERNEL(PermutationRNG, cpu);

void kernel(const ShuffleRNG& op, CpuContext&, Views in, MutViews out) {
  const std::int64_t n = in[0].shape[0];
  if (in[0].size() == 0 && n == 0) return;
  std::int32_t* rows = out[1].ptr<std::int32_t>();
  cpu::permutation(draw(op.handle, cpu::counters_of_numbers(n)),
                   {rows, static_cast<std::size_t>(n)});
  if (out[0].size() == 0) return;
  const InLayout from(in[0], row_major(in[0].shape));
  const std::int64_t bytes = out[0].size() / n * size_of(out[0].dtype);
  cpu::parallel_for(n, (1 << 16) / bytes + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::memcpy(static_cast<char*>(out[0].data) + i * bytes,
                  static_cast<const char*>(from.data()) + rows[i] * bytes,
                  static_cast<std::size_t>(bytes));
    }
  });
}
REGISTER_KERNEL(ShuffleRNG, cpu);

void kernel(const PoissonRNG& op, CpuContext&, Views in, MutViews out) {
  const Parameter rate("PoissonRNG", in[0], /*zero=*/true);
  const auto stream = draw(op.handle, cpu::counters_of_numbers(in[0].size()));
  through_doubles(out[0], [&](double* to) { cpu::poisson(stream, rate.span(), to); });
}
REGISTER_KERNEL(PoissonRNG, cpu);

void kernel(const GammaRNG& op, CpuContext&, Views in, MutViews out) {
  const Parameter shape("GammaRNG", in[0]), scale("GammaRNG", in[1]);
  const auto stream = draw(op.handle, cpu::counters_of_numbers(in[0].size()));
  through_doubles(out[0], [&](double* to) { cpu::gamma(stream, shape.span(), scale.span(), to); });
}
REGISTER_KERNEL(GammaRNG, cpu);

void kernel(const BetaRNG& op, CpuContext&, Views in, MutViews out) {
  const Parameter alpha("BetaRNG", in[0]), beta("BetaRNG", in[1]);
  const auto stream = draw(op.handle, cpu::counters_of_numbers(in[0].size()));
  through_doubles(out[0], [&](double* to) { cpu::beta(stream, alpha.span(), beta.span(), to); });
}
REGISTER_KERNEL(BetaRNG, cpu);

void kernel(const Dropout& op, CpuContext&, Views in, MutViews out) {
  const std::int64_t n = out[0].size();
  const InLayout x(in[0], out[0].strides);
  // Words are drawn for float32 numbers, whatever the dtype.
  const auto stream = draw(op.handle, cpu::counters_of_block_numbers(DType::float32, n));
  cpu::dropout(stream, op.drop_prob, in[0].dtype, n, x.data(), out[0].data, out[1].ptr<bool>());
}
REGISTER_KERNEL(Dropout, cpu);

void kernel(const DropoutMask& op, CpuContext&, Views in, MutViews out) {
  const InLayout x(in[0], out[0].strides), mask(in[1], out[0].strides);
  cpu::dropout_backward(op.drop_prob, in[0].dtype, out[0].size(), x.data(),
                        static_cast<const bool*>(mask.data()), out[0].data);
}
REGISTER_KERNEL(DropoutMask, cpu);

}  // namespace mge
