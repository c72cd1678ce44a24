#include "core/ops/deformable/psroi_pooling.h"

#include "core/ops/deformable/psroi_pooling.loops.h"
#include "core/ops/detection/rois.h"

namespace mge {
namespace {

using cpu::Packed;
using detection::Rois;
using detection::Staged;

template <class Op>
cpu::PsroiLayout layout_of(const Op& op, const Shape& image, const View& trans, const Rois& rois,
                           const std::vector<double>& moves) {
  return {.n = image[0],
          .c = image[1],
          .h = image[2],
          .w = image[3],
          .rois = rois.count,
          .out_h = op.pooled_h,
          .out_w = op.pooled_w,
          .samples = op.sample_per_part,
          .trans_h = op.no_trans ? 0 : trans.shape[2],
          .trans_w = op.no_trans ? 0 : trans.shape[3],
          .scale = op.spatial_scale,
          .trans_std = op.trans_std,
          .image = rois.image.data(),
          .box = rois.box.data(),
          .trans = moves.data()};
}

template <class Op>
std::vector<double> moves_of(const Op& op, const View& trans) {
  return op.no_trans ? std::vector<double>() : cpu::doubles(trans);
}

Packed pack(const View& v, DType dtype) { return Packed(v, dtype, channels_last(v.shape)); }

}  // namespace

void kernel(const DeformablePSROIPooling& op, CpuContext&, Views in, MutViews out) {
  const Rois rois = detection::read_rois("DeformablePSROIPooling", in[1], in[0].shape[0]);
  if (out[0].size() == 0) return;
  const auto moves = moves_of(op, in[2]);
  const cpu::PsroiLayout at = layout_of(op, in[0].shape, in[2], rois, moves);
  const DType dtype = cpu::compute_dtype(in[0].dtype);
  const Packed x = pack(in[0], dtype);
  const Staged y(out[0], dtype, channels_last(out[0].shape));
  MGE_DISPATCH(psroi_pool)(dtype, x.data(), y.data(), at);
  y.finish();
}
REGISTER_KERNEL(DeformablePSROIPooling, cpu);

void kernel(const DeformablePSROIPoolingBackward& op, CpuContext&, Views in, MutViews out) {
  const Rois rois = detection::read_rois("DeformablePSROIPoolingBackward", in[1], in[0].shape[0]);
  const auto moves = moves_of(op, in[2]);
  const cpu::PsroiLayout at = layout_of(op, in[0].shape, in[2], rois, moves);
  const DType dtype = cpu::compute_dtype(in[0].dtype);
  const Packed dy = pack(in[3], dtype);
  if (out[0].size() > 0) {
    const Staged dx(out[0], dtype, channels_last(out[0].shape));
    MGE_DISPATCH(psroi_pool_backward_data)(dtype, dy.data(), dx.data(), at);
    dx.finish();
  }
  if (out[1].size() == 0) return;
  std::vector<double> dtrans(static_cast<std::size_t>(out[1].size()), 0.0);
  if (!op.no_trans && in[0].size() > 0) {
    const Packed x = pack(in[0], dtype);
    MGE_DISPATCH(psroi_pool_backward_trans)(dtype, x.data(), dy.data(), dtrans.data(), at);
  }
  cpu::store_doubles(dtrans, out[1]);
}
REGISTER_KERNEL(DeformablePSROIPoolingBackward, cpu);

}  // namespace mge
