#include <algorithm>
#include <cmath>

#include "core/kernels/cpu/packed.h"
#include "core/ops/batch_norm/batch_norm.h"
#include "core/ops/batch_norm/batch_norm.loops.h"

namespace mge {
namespace {

using Channels = std::vector<double>;

cpu::ChannelLayout layout_of(const MutView& dense) {
  const Shape& s = dense.shape;
  std::int64_t inner = 1;
  for (int i = 2; i < s.size(); ++i) inner *= s[i];
  if (dense.row_major()) return {s[0], s[1], inner};
  return {s[0] * inner, s[1], 1};
}

// What a float32 holds is what every later pass should use.
void round_to(DType dtype, Channels& v) {
  if (cpu::compute_dtype(dtype) != DType::float32) return;
  for (double& d : v) d = static_cast<float>(d);
}

Channels reciprocal_std(const Channels& var, double epsilon) {
  Channels out(var.size());
  for (std::size_t c = 0; c < var.size(); ++c) out[c] = 1 / std::sqrt(var[c] + epsilon);
  return out;
}

void update_running(const View& running, const Channels& batch, double share, const MutView& out) {
  Channels now = cpu::doubles(running);
  for (std::size_t c = 0; c < now.size(); ++c) now[c] = (1 - share) * now[c] + share * batch[c];
  cpu::store_doubles(now, out);
}

void normalize(const View& x, const MutView& y, const Channels& mean, const Channels& rstd,
               const View& scale, const View& bias) {
  Channels slope = cpu::doubles(scale);
  for (std::size_t c = 0; c < slope.size(); ++c) slope[c] *= rstd[c];
  const Channels shift = cpu::doubles(bias);
  MGE_DISPATCH(channel_affine)(x.dtype, x.data, y.data, layout_of(y), mean.data(), slope.data(),
                               shift.data());
}

}  // namespace

void kernel(const BatchNorm& op, CpuContext&, Views in, MutViews out) {
  const MutView& y = out[0];
  const cpu::ChannelLayout at = layout_of(y);
  const std::size_t channels = static_cast<std::size_t>(at.channels);
  const cpu::Packed packed(in[0], y.dtype, y.strides);
  const View x{packed.data(), y.dtype, y.shape, y.strides};
  if (op.fwd_mode == BatchNormMode::INFERENCE) {
    if (at.size() == 0) return;
    const Channels rstd = reciprocal_std(cpu::doubles(in[4]), op.epsilon);
    return normalize(x, y, cpu::doubles(in[3]), rstd, in[1], in[2]);
  }
  Channels mean(channels), var(channels);
  const double count = static_cast<double>(at.per_channel());
  if (at.size() != 0) {
    MGE_DISPATCH(channel_moments)(x.dtype, x.data, at, mean.data(), var.data());
  }
  // An empty batch leaves the running statistics alone; one value has no spread to estimate.
  const double share = count == 0 ? 0 : op.avg_factor;
  if (in.size() == 5) {
    Channels unbiased(channels);
    for (std::size_t c = 0; c < channels; ++c) unbiased[c] = var[c] / std::max(count - 1, 1.0);
    update_running(in[3], mean, share, out[3]);
    update_running(in[4], unbiased, share, out[4]);
  }
  for (double& v : var) v /= std::max(count, 1.0);
  const Channels rstd = reciprocal_std(var, op.epsilon);
  cpu::store_doubles(mean, out[1]);
  cpu::store_doubles(rstd, out[2]);
  if (at.size() != 0) normalize(x, y, mean, rstd, in[1], in[2]);
}
REGISTER_KERNEL(BatchNorm, cpu);

void kernel(const BatchNormBackward& op, CpuContext&, Views in, MutViews out) {
  const MutView& dx = out[0];
  const cpu::ChannelLayout at = layout_of(dx);
  const std::size_t channels = static_cast<std::size_t>(at.channels);
  const bool training = op.fwd_mode == BatchNormMode::TRAINING;
  Channels sum_dy(channels), sum_dyh(channels);
  if (at.size() != 0) {
    const cpu::Packed dy(in[0], dx.dtype, dx.strides), x(in[1], dx.dtype, dx.strides);
    Channels mean = cpu::doubles(in[3]), rstd = cpu::doubles(in[4]);
    if (!training) rstd = reciprocal_std(rstd, op.epsilon);
    round_to(dx.dtype, mean);
    MGE_DISPATCH(channel_grad_sums)(dx.dtype, dy.data(), x.data(), at, mean.data(), sum_dy.data(),
                                    sum_dyh.data());
    Channels a = cpu::doubles(in[2]), b(channels), c(channels);
    const double count = static_cast<double>(at.per_channel());
    for (std::size_t k = 0; k < channels; ++k) {
      sum_dyh[k] *= rstd[k];
      a[k] *= rstd[k];
      b[k] = -a[k] * rstd[k] * sum_dyh[k] / count;
      c[k] = -a[k] * sum_dy[k] / count;
    }
    if (training) {
      MGE_DISPATCH(channel_grad_apply)(dx.dtype, dy.data(), x.data(), dx.data, at, mean.data(),
                                       a.data(), b.data(), c.data());
    } else {
      const Channels zero(channels);
      MGE_DISPATCH(channel_affine)(dx.dtype, dy.data(), dx.data, at, zero.data(), a.data(),
                                   zero.data());
    }
  }
  cpu::store_doubles(sum_dyh, out[1]);
  cpu::store_doubles(sum_dy, out[2]);
}
REGISTER_KERNEL(BatchNormBackward, cpu);

}  // namespace mge
