#include "core/ops/detection/roi_align.h"

#include "core/ops/detection/rois.h"

namespace mge {
namespace {

constexpr std::int64_t kMostSamples = 1024;  // along one axis of a bin

template <class Op>
void check_attrs(const Op& op) {
  const char* name = Op::traits.name;
  detection::check_output_size(name, op.pooled_height, op.pooled_width);
  for (std::int64_t samples : {op.sample_height, op.sample_width}) {
    if (samples < 0 || samples > kMostSamples) {
      fail_value(name, "expected 0 to ", kMostSamples, " sample points along an axis, got ",
                 samples);
    }
  }
  if (!std::isfinite(op.spatial_scale) || !std::isfinite(op.offset)) {
    fail_value(name, "expected a finite spatial_scale and offset, got ", op.spatial_scale, " and ",
               op.offset);
  }
}

template <class Op>
Shape pooled_shape(const Op& op, const Shape& rois, std::int64_t channels) {
  const Shape out{rois[0], channels, op.pooled_height, op.pooled_width};
  count(out);
  return out;
}

Spec last(DType dtype, const Shape& shape) { return Spec(dtype, shape, channels_last(shape)); }

void check_count(const char* op, const Specs& in, std::size_t count) {
  if (in.size() != count) fail_type(op, "expected ", count, " inputs, got ", in.size());
}

void check_index(const char* op, const Spec& index, const Shape& shape) {
  if (index.dtype != DType::int32) {
    fail_type(op, "expected an index of dtype int32, got ", index.dtype);
  }
  if (index.shape != shape) {
    fail_value(op, "expected an index of shape ", shape, ", got ", index.shape);
  }
}

template <class To, class From>
To same_attrs(const From& from) {
  To to;
  to.mode = from.mode, to.format = from.format;
  to.spatial_scale = from.spatial_scale, to.offset = from.offset;
  to.pooled_height = from.pooled_height, to.pooled_width = from.pooled_width;
  to.sample_height = from.sample_height, to.sample_width = from.sample_width;
  return to;
}

}  // namespace

Specs infer(const ROIAlign& op, const Specs& in) {
  check_count("ROIAlign", in, 2);
  check_attrs(op);
  detection::check_image("ROIAlign", "an input", in[0]);
  detection::check_rois("ROIAlign", in[1]);
  const Shape shape = pooled_shape(op, in[1].shape, in[0].shape[1]);
  if (op.mode == RoiMode::AVERAGE) return {last(in[0].dtype, shape)};
  return {last(in[0].dtype, shape), last(DType::int32, shape)};
}

Keep keep(const ROIAlign& op, std::uint32_t) {
  return {0b10, op.mode == RoiMode::MAX ? 0b10u : 0u};
}

// Boxes get no gradient.
Values grad(const ROIAlign& op, const GradArgs& g) {
  Values out(2);
  if (!g.dy[0] || !g.need(0)) return out;
  auto back = same_attrs<ROIAlignBackward>(op);
  back.input_shape = g.in_specs[0].shape;
  out[0] = op.mode == RoiMode::AVERAGE ? call(back, g.dy[0], g.inputs[1])
                                       : call(back, g.dy[0], g.inputs[1], g.outputs[1]);
  return out;
}

REGISTER_OP(ROIAlign);

Specs infer(const ROIAlignBackward& op, const Specs& in) {
  const char* name = "ROIAlignBackward";
  const bool max = op.mode == RoiMode::MAX;
  check_count(name, in, max ? 3 : 2);
  check_attrs(op);
  detection::check_image(name, "a gradient", in[0]);
  detection::check_rois(name, in[1]);
  detection::check_image_shape(name, op.input_shape);
  const Shape shape = pooled_shape(op, in[1].shape, op.input_shape[1]);
  if (in[0].shape != shape) {
    fail_value(name, "expected a gradient of shape ", shape, ", got ", in[0].shape);
  }
  if (max) check_index(name, in[2], shape);
  return {last(in[0].dtype, op.input_shape)};
}

Keep keep(const ROIAlignBackward&, std::uint32_t) { return {0b110, 0}; }

Values grad(const ROIAlignBackward& op, const GradArgs& g) {
  Values out(g.in_specs.size());
  if (!g.dy[0] || !g.need(0)) return out;
  out[0] = op.mode == RoiMode::AVERAGE
               ? call(same_attrs<ROIAlign>(op), g.dy[0], g.inputs[1])
               : call(same_attrs<ROIAlignPick>(op), g.dy[0], g.inputs[1], g.inputs[2]);
  return out;
}

REGISTER_OP(ROIAlignBackward);

Specs infer(const ROIAlignPick& op, const Specs& in) {
  check_count("ROIAlignPick", in, 3);
  check_attrs(op);
  if (op.mode != RoiMode::MAX) fail_value("ROIAlignPick", "expected mode MAX");
  detection::check_image("ROIAlignPick", "an input", in[0]);
  detection::check_rois("ROIAlignPick", in[1]);
  const Shape shape = pooled_shape(op, in[1].shape, in[0].shape[1]);
  check_index("ROIAlignPick", in[2], shape);
  return {last(in[0].dtype, shape)};
}

Keep keep(const ROIAlignPick&, std::uint32_t) { return {0b110, 0}; }

Values grad(const ROIAlignPick& op, const GradArgs& g) {
  Values out(3);
  if (!g.dy[0] || !g.need(0)) return out;
  auto back = same_attrs<ROIAlignBackward>(op);
  back.input_shape = g.in_specs[0].shape;
  out[0] = call(back, g.dy[0], g.inputs[1], g.inputs[2]);
  return out;
}

REGISTER_OP(ROIAlignPick);

}  // namespace mge
