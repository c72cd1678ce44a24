#include "core/ops/conv_bias/conv_bias.h"

#include "core/dispatch/dispatch.h"
#include "core/kernels/cpu/onednn.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

using std::int64_t;

template <class T>
Convolution plain(const T& op) {
  Convolution out;
  out.stride_h = op.stride_h, out.stride_w = op.stride_w;
  out.pad_h = op.pad_h, out.pad_w = op.pad_w;
  out.dilate_h = op.dilate_h, out.dilate_w = op.dilate_w;
  out.mode = op.mode;
  out.sparse = op.sparse;
  return out;
}

// A bias that the convolution takes itself.
bool per_channel(const Shape& bias, const Shape& out) {
  return bias == Shape{out[1]} || bias == Shape{1, out[1], 1, 1};
}

// Checks what is added to a result of spec `out`, and its dtype against the field.
void check_rest(const char* op, const std::optional<DType>& dtype, NonlineMode mode,
                const Specs& in, const Spec& out) {
  const bool curved = mode == NonlineMode::SIGMOID || mode == NonlineMode::H_SWISH;
  if (curved && !is_float(out.dtype)) {
    fail_type(op, "expected float operands for this activation, got ", in[0].dtype);
  }
  if (dtype && *dtype != out.dtype) {
    fail_type(op, "expected dtype ", out.dtype, ", that of the convolution, or none, got ", *dtype,
              "; quantised results are not there yet");
  }
  for (std::size_t i = 2; i < in.size(); ++i) {
    if (in[i].dtype != out.dtype) {
      fail_type(op, "expected a bias of dtype ", out.dtype, ", got ", in[i].dtype);
    }
  }
  if (in.size() > 2) {
    const Shape& bias = in[2].shape;
    if (!per_channel(bias, out.shape) &&
        (bias.size() != 4 || broadcast(op, bias, out.shape) != out.shape)) {
      fail_value(op, "expected a bias that broadcasts to ", out.shape, ", got shape ", bias);
    }
  }
  if (in.size() > 3 && in[3].shape != out.shape) {
    fail_value(op, "expected z of shape ", out.shape, ", got ", in[3].shape);
  }
}

void check_count(const char* op, const Specs& in) {
  if (in.size() < 2 || in.size() > 4) {
    fail_type(op, "expected 2 to 4 inputs (x, weight, bias, z), got ", in.size());
  }
}

Value image(const Value& bias) {
  return bias.ndim() == 1 ? reshape(bias, {1, bias.shape()[0], 1, 1}) : bias;
}

Value activated(NonlineMode mode, const Value& x) {
  switch (mode) {
    case NonlineMode::RELU:
      return elemwise(Elemwise::Mode::RELU, x);
    case NonlineMode::SIGMOID:
      return elemwise(Elemwise::Mode::SIGMOID, x);
    case NonlineMode::H_SWISH:
      return elemwise(Elemwise::Mode::H_SWISH, x);
    default:
      return x;
  }
}

Specs first_two(const Specs& in) {
  Specs out;
  out.push_back(in[0]);
  out.push_back(in[1]);
  return out;
}

Specs specs_of(const Values& in) {
  Specs out;
  for (const Value& v : in) out.push_back(v.spec());
  return out;
}

}  // namespace

Specs infer(const ConvBias& op, const Specs& in) {
  check_count("ConvBias", in);
  Spec out = infer_convolution("ConvBias", conv_attrs_2d(op), first_two(in));
  check_rest("ConvBias", op.dtype, op.nonlineMode, in, out);
  return {out};
}

Values decompose(const ConvBias& op, const Values& in) {
  const Spec out = infer(op, specs_of(in))[0];
  const bool inside =
      in.size() > 2 && in[2].dtype() == in[0].dtype() && per_channel(in[2].shape(), out.shape);
  Value y = inside ? call(plain(op), in[0], in[1], in[2]) : call(plain(op), in[0], in[1]);
  if (in.size() > 2 && !inside) y = add(y, image(in[2]));
  if (in.size() > 3) y = add(y, in[3]);
  return {activated(op.nonlineMode, y)};
}

// ReLU after a bias for each channel is part of oneDNN's convolution; the rest is composed.
Values execute(const ConvBias& op, Values& in) {
  Spec spec = infer(op, specs_of(in))[0];
  if (op.nonlineMode == NonlineMode::RELU && in.size() <= 3 && is_float(spec.dtype) &&
      (in.size() == 2 || per_channel(in[2].shape(), spec.shape))) {
    spec.device = in[0].device();
    Value out = Value::empty(spec);
    if (run_convolution_with("ConvBias", conv_attrs_2d(op), in, {.activation = ElementMode::RELU},
                             out.mut()))
      return {out};
  }
  const PauseGrad pause;  // the layer above has recorded this op as one node
  return decompose(op, in);
}
REGISTER_OP(ConvBias);

namespace {

// One convolution for all samples: each is a group of its own.
struct AsGroups {
  Shape x, weight, out;
};
AsGroups as_groups(const Spec& x, const Spec& w) {
  const int lead = w.ndim() - 2;
  if (x.ndim() != 4 || (lead != 3 && lead != 4) || w.shape[0] != x.shape[0]) {
    fail_value("BatchConvBias",
               "expected x of shape (N, C, H, W) and a weight of shape (N, out, in, kh, kw) or "
               "(N, groups, out / groups, in / groups, kh, kw), got ",
               x.shape, " and ", w.shape);
  }
  const int64_t n = x.shape[0], groups = lead == 4 ? w.shape[1] : 1;
  const int64_t out = w.shape[lead - 2], in = w.shape[lead - 1];
  if (groups * in != x.shape[1]) {
    fail_value("BatchConvBias", "expected an input of ", groups * in, " channels, got shape ",
               x.shape);
  }
  return {{1, n * x.shape[1], x.shape[2], x.shape[3]},
          {n * groups, out, in, w.shape[lead], w.shape[lead + 1]},
          {n, groups * out, 0, 0}};
}

}  // namespace

Specs infer(const BatchConvBias& op, const Specs& in) {
  check_count("BatchConvBias", in);
  const AsGroups at = as_groups(in[0], in[1]);
  if (at.weight[0] == 0) {
    fail_value("BatchConvBias", "expected at least one sample, got shape ", in[0].shape);
  }
  ConvAttrs attrs = conv_attrs_2d(op);
  attrs.sparse = ConvSparse::GROUP;
  Specs joined;
  joined.push_back(Spec(in[0].dtype, at.x));
  joined.push_back(Spec(in[1].dtype, at.weight));
  const Spec y = infer_convolution("BatchConvBias", attrs, joined);
  Shape shape = at.out;
  shape[2] = y.shape[2], shape[3] = y.shape[3];
  const Spec out(y.dtype, shape);
  check_rest("BatchConvBias", op.dtype, op.nonlineMode, in, out);
  return {out};
}

Values decompose(const BatchConvBias& op, const Values& in) {
  const Spec out = infer(op, specs_of(in))[0];
  const AsGroups at = as_groups(in[0].spec(), in[1].spec());
  Convolution conv = plain(op);
  conv.sparse = ConvSparse::GROUP;
  Value y = call(conv, reshape(in[0], at.x), reshape(in[1], at.weight));
  y = reshape(y, out.shape);
  if (in.size() > 2) y = add(y, image(in[2]));
  if (in.size() > 3) y = add(y, in[3]);
  return {activated(op.nonlineMode, y)};
}
REGISTER_OP(BatchConvBias);

}  // namespace mge
