#include "core/ops/local_conv/local_conv.h"

namespace mge {
namespace {

using std::int64_t;

void check_operands(const char* op, const Specs& in) {
  if (in.size() != 2) fail_type(op, "expected 2 inputs, got ", in.size());
  for (const Spec& s : in) {
    if (!is_float(s.dtype)) fail_type(op, "expected a float dtype, got ", s.dtype);
    if (s.dtype != in[0].dtype) {
      fail_type(op, "expected operands of one dtype, got ", in[0].dtype, " and ", s.dtype);
    }
  }
}

// The shape of the result; raises where x, the weight and the attributes do not belong together.
template <class T>
Shape output_shape(const char* name, const T& op, const Shape& x, const Shape& w) {
  if (x.size() != 4) fail_value(name, "expected an input of shape (N, C, H, W), got ", x);
  if (w.size() != 7 || w[0] < 1) {
    fail_value(name,
               "expected a weight of shape (groups, OH, OW, in / groups, kh, kw, out / groups), "
               "got ",
               w);
  }
  if (x[1] != w[0] * w[3]) {
    fail_value(name, "expected an input of ", w[0] * w[3], " channels for a weight of shape ", w,
               ", got shape ", x);
  }
  // The positions are those of a plain convolution with this kernel.
  ConvAttrs attrs = conv_attrs_2d(op);
  attrs.sparse = ConvSparse::DENSE;
  Specs plain;
  plain.push_back(Spec(DType::float32, Shape{x[0], 1, x[2], x[3]}));
  plain.push_back(Spec(DType::float32, Shape{1, 1, w[4], w[5]}));
  const Shape at = infer_convolution(name, attrs, plain).shape;
  if (at[2] != w[1] || at[3] != w[2]) {
    fail_value(name, "expected a weight for ", at[2], " x ", at[3], " positions of an input of ", x,
               ", got shape ", w);
  }
  count(w);
  const Shape out{x[0], w[0] * w[6], w[1], w[2]};
  count(out);
  return out;
}

Spec activation(DType dtype, const Shape& shape) {
  return Spec(dtype, shape, channels_last(shape));
}

template <class To, class From>
To same_attrs(const From& from) {
  To to;
  to.stride_h = from.stride_h, to.stride_w = from.stride_w;
  to.pad_h = from.pad_h, to.pad_w = from.pad_w;
  to.dilate_h = from.dilate_h, to.dilate_w = from.dilate_w;
  to.mode = from.mode;
  to.sparse = from.sparse;
  return to;
}

template <class From>
Value backward_data(const From& op, const Value& weight, const Value& dy, const Shape& x) {
  auto data = same_attrs<GroupLocalBackwardData>(op);
  data.output_size = {x[2], x[3]};
  return call(data, weight, dy);
}
template <class From>
Value backward_filter(const From& op, const Value& x, const Value& dy, const Shape& weight) {
  auto filter = same_attrs<GroupLocalBackwardFilter>(op);
  filter.weight_shape = weight;
  return call(filter, x, dy);
}

// Each input is needed for the gradient of the other.
Keep keep_other(std::uint32_t needs) {
  return {(needs & 1u ? 2u : 0u) | (needs & 2u ? 1u : 0u), 0};
}

}  // namespace

Specs infer(const GroupLocal& op, const Specs& in) {
  check_operands("GroupLocal", in);
  return {activation(in[0].dtype, output_shape("GroupLocal", op, in[0].shape, in[1].shape))};
}
Keep keep(const GroupLocal&, std::uint32_t needs) { return keep_other(needs); }
Values grad(const GroupLocal& op, const GradArgs& g) {
  Values out(2);
  const Value& dy = g.dy[0];
  if (g.need(0)) out[0] = backward_data(op, g.inputs[1], dy, g.in_specs[0].shape);
  if (g.need(1)) out[1] = backward_filter(op, g.inputs[0], dy, g.in_specs[1].shape);
  return out;
}
REGISTER_OP(GroupLocal);

Specs infer(const GroupLocalBackwardData& op, const Specs& in) {
  const char* name = "GroupLocalBackwardData";
  check_operands(name, in);
  const Shape &w = in[0].shape, &dy = in[1].shape;
  if (op.output_size.size() != 2 || op.output_size[0] < 1 || op.output_size[1] < 1) {
    fail_value(name, "expected an output size of 2 positive numbers, got ", op.output_size);
  }
  if (w.size() != 7 || dy.size() != 4) {
    fail_value(name, "expected a weight of 7 and a gradient of 4 dimensions, got ", w, " and ", dy);
  }
  int64_t channels = 0;
  if (__builtin_mul_overflow(w[0], w[3], &channels)) fail_value(name, "a weight of ", w);
  const Shape x{dy[0], channels, op.output_size[0], op.output_size[1]};
  count(x);
  const Shape want = output_shape(name, op, x, w);
  if (dy != want) fail_value(name, "expected a gradient of shape ", want, ", got ", dy);
  return {activation(in[0].dtype, x)};
}
Keep keep(const GroupLocalBackwardData&, std::uint32_t needs) { return keep_other(needs); }
Values grad(const GroupLocalBackwardData& op, const GradArgs& g) {
  Values out(2);
  const Value& up = g.dy[0];
  if (g.need(0)) out[0] = backward_filter(op, up, g.inputs[1], g.in_specs[0].shape);
  if (g.need(1)) out[1] = call(same_attrs<GroupLocal>(op), up, g.inputs[0]);
  return out;
}
REGISTER_OP(GroupLocalBackwardData);

Specs infer(const GroupLocalBackwardFilter& op, const Specs& in) {
  const char* name = "GroupLocalBackwardFilter";
  check_operands(name, in);
  const Shape want = output_shape(name, op, in[0].shape, op.weight_shape);
  if (in[1].shape != want) {
    fail_value(name, "expected a gradient of shape ", want, ", got ", in[1].shape);
  }
  return {Spec(in[0].dtype, op.weight_shape)};
}
Keep keep(const GroupLocalBackwardFilter&, std::uint32_t needs) { return keep_other(needs); }
Values grad(const GroupLocalBackwardFilter& op, const GradArgs& g) {
  Values out(2);
  const Value& up = g.dy[0];
  if (g.need(0)) out[0] = backward_data(op, up, g.inputs[1], g.in_specs[0].shape);
  if (g.need(1)) out[1] = call(same_attrs<GroupLocal>(op), g.inputs[0], up);
  return out;
}
REGISTER_OP(GroupLocalBackwardFilter);

}  // namespace mge
