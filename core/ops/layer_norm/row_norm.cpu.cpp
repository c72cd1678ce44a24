#include <limits>

#include "core/kernels/cpu/packed.h"
#include "core/ops/layer_norm/row_norm.h"

namespace mge {
namespace {

void fill(const MutView& v, double value) {
  cpu::store_doubles(std::vector<double>(static_cast<std::size_t>(v.size()), value), v);
}

// An output in the dtype of computing: itself, or a buffer that is converted at the end.
class Wide {
 public:
  Wide(const MutView& out, DType dtype) : out_(out), dtype_(dtype) {
    if (out.dtype != dtype) buffer_.emplace(static_cast<std::size_t>(out.size() * size_of(dtype)));
  }
  void* data() const { return buffer_ ? buffer_->as<void>() : out_.data; }
  void finish() const {
    if (buffer_) cpu::copy({data(), dtype_, out_.shape, row_major(out_.shape)}, out_);
  }

 private:
  const MutView& out_;
  DType dtype_;
  std::optional<Scratch> buffer_;
};

}  // namespace

void run_forward(const RowNorm& n, Views in, MutViews out) {
  const MutView& y = out[0];
  if (y.size() == 0) {  // rows without columns have no mean
    fill(out[1], std::numeric_limits<double>::quiet_NaN());
    return fill(out[2], std::numeric_limits<double>::quiet_NaN());
  }
  const DType dtype = cpu::compute_dtype(y.dtype);
  const cpu::Packed x(in[0], y.dtype);
  std::optional<cpu::Packed> scale, shift;
  if (n.affine) scale.emplace(in[1], dtype), shift.emplace(in[2], dtype);
  MGE_DISPATCH(row_norm)(y.dtype, x.data(), y.data, n.at, n.eps, scale ? scale->data() : nullptr,
                         shift ? shift->data() : nullptr, out[1].data, out[2].data);
}

void run_backward(const RowNorm& n, Views in, MutViews out) {
  const MutView& dx = out[0];
  if (dx.size() == 0) {
    for (std::size_t i = 1; i < out.size(); ++i) fill(out[i], 0);
    return;
  }
  const DType dtype = cpu::compute_dtype(dx.dtype);
  const cpu::Packed dy(in[0], dx.dtype), x(in[1], dx.dtype), mean(in[2], dtype), rstd(in[3], dtype);
  if (!n.affine) {
    MGE_DISPATCH(row_norm_backward)(dx.dtype, dy.data(), x.data(), dx.data, n.at, nullptr,
                                    mean.data(), rstd.data(), nullptr, nullptr);
    return;
  }
  const cpu::Packed scale(in[4], dtype);
  const Wide dscale(out[1], dtype), dshift(out[2], dtype);
  MGE_DISPATCH(row_norm_backward)(dx.dtype, dy.data(), x.data(), dx.data, n.at, scale.data(),
                                  mean.data(), rstd.data(), dscale.data(), dshift.data());
  dscale.finish();
  dshift.finish();
}

}  // namespace mge
