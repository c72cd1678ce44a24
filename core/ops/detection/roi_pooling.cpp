#include "core/ops/detection/roi_pooling.h"

#include "core/ops/detection/rois.h"

namespace mge {
namespace {

template <class Op>
void check_attrs(const Op& op) {
  detection::check_output_size(Op::traits.name, op.pooled_height, op.pooled_width);
  if (!std::isfinite(op.scale)) {
    fail_value(Op::traits.name, "expected a finite scale, got ", op.scale);
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

// The number of a pixel is an int32.
void check_pixels(const char* op, const Shape& image) {
  if (image[2] * image[3] > detection::kMostSize) {
    fail_value(op, "expected an image of less than 2^31 pixels, got shape ", image);
  }
}

template <class To, class From>
To same_attrs(const From& from) {
  To to;
  to.mode = from.mode, to.scale = from.scale;
  to.pooled_height = from.pooled_height, to.pooled_width = from.pooled_width;
  return to;
}

}  // namespace

Specs infer(const ROIPooling& op, const Specs& in) {
  check_count("ROIPooling", in, 2);
  check_attrs(op);
  detection::check_image("ROIPooling", "an input", in[0]);
  detection::check_rois("ROIPooling", in[1]);
  const Shape shape = pooled_shape(op, in[1].shape, in[0].shape[1]);
  if (op.mode == RoiMode::AVERAGE) return {last(in[0].dtype, shape)};
  check_pixels("ROIPooling", in[0].shape);
  return {last(in[0].dtype, shape), last(DType::int32, shape)};
}

Keep keep(const ROIPooling& op, std::uint32_t) {
  return {0b10, op.mode == RoiMode::MAX ? 0b10u : 0u};
}

// Boxes get no gradient.
Values grad(const ROIPooling& op, const GradArgs& g) {
  Values out(2);
  if (!g.dy[0] || !g.need(0)) return out;
  auto back = same_attrs<ROIPoolingBackward>(op);
  back.input_shape = g.in_specs[0].shape;
  out[0] = op.mode == RoiMode::AVERAGE ? call(back, g.dy[0], g.inputs[1])
                                       : call(back, g.dy[0], g.inputs[1], g.outputs[1]);
  return out;
}

REGISTER_OP(ROIPooling);

Specs infer(const ROIPoolingBackward& op, const Specs& in) {
  const char* name = "ROIPoolingBackward";
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
  if (max) {
    check_pixels(name, op.input_shape);
    check_index(name, in[2], shape);
  }
  return {last(in[0].dtype, op.input_shape)};
}

Keep keep(const ROIPoolingBackward&, std::uint32_t) { return {0b110, 0}; }

Values grad(const ROIPoolingBackward& op, const GradArgs& g) {
  Values out(g.in_specs.size());
  if (!g.dy[0] || !g.need(0)) return out;
  out[0] = op.mode == RoiMode::AVERAGE
               ? call(same_attrs<ROIPooling>(op), g.dy[0], g.inputs[1])
               : call(same_attrs<ROIPoolingPick>(op), g.dy[0], g.inputs[1], g.inputs[2]);
  return out;
}

REGISTER_OP(ROIPoolingBackward);

Specs infer(const ROIPoolingPick& op, const Specs& in) {
  check_count("ROIPoolingPick", in, 3);
  check_attrs(op);
  if (op.mode != RoiMode::MAX) fail_value("ROIPoolingPick", "expected mode MAX");
  detection::check_image("ROIPoolingPick", "an input", in[0]);
  detection::check_rois("ROIPoolingPick", in[1]);
  check_pixels("ROIPoolingPick", in[0].shape);
  const Shape shape = pooled_shape(op, in[1].shape, in[0].shape[1]);
  check_index("ROIPoolingPick", in[2], shape);
  return {last(in[0].dtype, shape)};
}

Keep keep(const ROIPoolingPick&, std::uint32_t) { return {0b110, 0}; }

Values grad(const ROIPoolingPick& op, const GradArgs& g) {
  Values out(3);
  if (!g.dy[0] || !g.need(0)) return out;
  auto back = same_attrs<ROIPoolingBackward>(op);
  back.input_shape = g.in_specs[0].shape;
  out[0] = call(back, g.dy[0], g.inputs[1], g.inputs[2]);
  return out;
}

REGISTER_OP(ROIPoolingPick);

}  // namespace mge
