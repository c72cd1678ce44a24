#include "core/ops/deformable/psroi_pooling.h"

#include "core/ops/detection/rois.h"

namespace mge {
namespace {

constexpr std::int64_t kMostSamples = 1024;  // along one axis of a bin

template <class Op>
void check_attrs(const Op& op) {
  const char* name = Op::traits.name;
  detection::check_output_size(name, op.pooled_h, op.pooled_w);
  if (op.part_size < 1 || op.part_size > detection::kMostSize) {
    fail_value(name, "expected a part_size of 1 to 2^31 - 1, got ", op.part_size);
  }
  if (op.sample_per_part < 1 || op.sample_per_part > kMostSamples) {
    fail_value(name, "expected a sample_per_part of 1 to ", kMostSamples, ", got ",
               op.sample_per_part);
  }
  if (!std::isfinite(op.spatial_scale) || !std::isfinite(op.trans_std)) {
    fail_value(name, "expected a finite spatial_scale and trans_std, got ", op.spatial_scale,
               " and ", op.trans_std);
  }
}

// Checks the first three operands; the shape of the output.
template <class Op>
Shape output_shape(const Op& op, const Specs& in) {
  const char* name = Op::traits.name;
  check_attrs(op);
  detection::check_image(name, "an input", in[0]);
  detection::check_rois(name, in[1]);
  const Spec& trans = in[2];
  if (!is_float(trans.dtype)) fail_type(name, "expected trans of a float dtype, got ", trans.dtype);
  const std::int64_t k = in[1].shape[0];
  if (!op.no_trans && trans.shape != Shape{k, 2, op.part_size, op.part_size} &&
      trans.shape != Shape{k, 2, op.pooled_h, op.pooled_w}) {
    fail_value(name, "expected trans of (", k, ", 2, ", op.part_size, ", ", op.part_size, ") or (",
               k, ", 2, ", op.pooled_h, ", ", op.pooled_w, "), got shape ", trans.shape);
  }
  const Shape out{k, in[0].shape[1], op.pooled_h, op.pooled_w};
  count(out);
  return out;
}

Spec last(DType dtype, const Shape& shape) { return Spec(dtype, shape, channels_last(shape)); }

}  // namespace

Specs infer(const DeformablePSROIPooling& op, const Specs& in) {
  if (in.size() != 3) fail_type("DeformablePSROIPooling", "expected 3 inputs, got ", in.size());
  return {last(in[0].dtype, output_shape(op, in))};
}

Keep keep(const DeformablePSROIPooling&, std::uint32_t) { return {0b111, 0}; }

// Boxes get no gradient.
Values grad(const DeformablePSROIPooling& op, const GradArgs& g) {
  Values out(3);
  if (!g.dy[0]) return out;
  DeformablePSROIPoolingBackward back;
  back.no_trans = op.no_trans, back.spatial_scale = op.spatial_scale;
  back.trans_std = op.trans_std, back.pooled_h = op.pooled_h, back.pooled_w = op.pooled_w;
  back.part_size = op.part_size, back.sample_per_part = op.sample_per_part;
  Values in{g.inputs[0], g.inputs[1], g.inputs[2], g.dy[0]};
  Values both = call_all(back, std::move(in));
  out[0] = both[0];
  if (!op.no_trans) out[2] = both[1];
  return out;
}

REGISTER_OP(DeformablePSROIPooling);

Specs infer(const DeformablePSROIPoolingBackward& op, const Specs& in) {
  const char* name = "DeformablePSROIPoolingBackward";
  if (in.size() != 4) fail_type(name, "expected 4 inputs, got ", in.size());
  const Shape out = output_shape(op, in);
  detection::check_image(name, "a gradient", in[3]);
  if (in[3].shape != out) {
    fail_value(name, "expected a gradient of shape ", out, ", got ", in[3].shape);
  }
  return {last(in[0].dtype, in[0].shape), Spec(in[2].dtype, in[2].shape)};
}

Values grad(const DeformablePSROIPoolingBackward&, const GradArgs&) {
  fail(ErrorKind::not_implemented, "DeformablePSROIPooling",
       "has no second derivatives; keep it out of gradients that are differentiated again");
}

REGISTER_OP(DeformablePSROIPoolingBackward);

}  // namespace mge
