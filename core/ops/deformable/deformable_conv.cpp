#include "core/ops/deformable/deformable_conv.h"

namespace mge {
namespace {

constexpr std::int64_t kMostSize = (std::int64_t{1} << 31) - 1;

template <class Op>
void check_attrs(const Op& op) {
  const char* name = Op::traits.name;
  if (op.mode != ConvMode::CROSS_CORRELATION) {
    fail(ErrorKind::not_implemented, name,
         "mode CONVOLUTION is not supported, use CROSS_CORRELATION");
  }
  const auto check = [&](const char* what, std::int64_t value, std::int64_t least) {
    if (value < least || value > kMostSize) {
      fail_value(name, "expected a ", what, " of ", least, " to 2^31 - 1, got ", value);
    }
  };
  check("stride", op.stride_h, 1), check("stride", op.stride_w, 1);
  check("dilation", op.dilate_h, 1), check("dilation", op.dilate_w, 1);
  check("padding", op.pad_h, 0), check("padding", op.pad_w, 0);
}

std::int64_t out_size(const char* op, std::int64_t in, std::int64_t kernel, std::int64_t stride,
                      std::int64_t pad, std::int64_t dilate) {
  const std::int64_t covers = (kernel - 1) * dilate + 1, padded = in + 2 * pad;
  if (covers > padded) {
    fail_value(op, "expected a kernel within the padded input of ", padded, ", got one of ", kernel,
               " with dilation ", dilate);
  }
  return (padded - covers) / stride + 1;
}

// Checks all operands; the shape of the output.
template <class Op>
Shape output_shape(const Op& op, const Specs& in) {
  const char* name = Op::traits.name;
  check_attrs(op);
  for (const Spec& s : in) {
    if (s.dtype != in[0].dtype) {
      fail_type(name, "expected operands of one dtype, got ", in[0].dtype, " and ", s.dtype);
    }
    for (std::int64_t size : s.shape) {
      if (size > kMostSize) fail_value(name, "an operand of shape ", s.shape, " is too large");
    }
  }
  if (!is_float(in[0].dtype)) fail_type(name, "expected a float dtype, got ", in[0].dtype);
  const Shape &x = in[0].shape, &w = in[1].shape, &offset = in[2].shape, &mask = in[3].shape;
  if (x.size() != 4) fail_value(name, "expected an input of (N, C, H, W), got shape ", x);
  if (w.size() != 4 && w.size() != 5) {
    fail_value(name,
               "expected a weight of (out, in, kh, kw) or (groups, out / groups, in / groups, kh, "
               "kw), got shape ",
               w);
  }
  const bool grouped = w.size() == 5;
  if (op.sparse == ConvSparse::GROUP && !grouped) {
    fail_value(name, "expected a weight in groups, of five dimensions, got shape ", w);
  }
  const std::int64_t groups = grouped ? w[0] : 1, kh = w[w.size() - 2], kw = w.back();
  const std::int64_t channels = groups * w[w.size() - 3];
  if (kh < 1 || kw < 1 || groups < 1) {
    fail_value(name, "expected a weight with a kernel, got shape ", w);
  }
  count(w);
  if (x[1] != channels) {
    fail_value(name, "expected an input of ", channels, " channels for a weight of shape ", w,
               ", got shape ", x);
  }
  const Shape out{x[0], groups * w[w.size() - 4],
                  out_size(name, x[2], kh, op.stride_h, op.pad_h, op.dilate_h),
                  out_size(name, x[3], kw, op.stride_w, op.pad_w, op.dilate_w)};
  count(out);
  const std::int64_t taps = kh * kw;
  const std::int64_t parts = mask.size() == 4 ? mask[1] / taps : 0;
  if (parts < 1 || mask != Shape{x[0], parts * taps, out[2], out[3]}) {
    fail_value(name, "expected a mask of (", x[0], ", d * ", taps, ", ", out[2], ", ", out[3],
               "), got shape ", mask);
  }
  if (offset != Shape{x[0], 2 * parts * taps, out[2], out[3]}) {
    fail_value(name, "expected an offset of (", x[0], ", ", 2 * parts * taps, ", ", out[2], ", ",
               out[3], ") for a mask of shape ", mask, ", got ", offset);
  }
  if (channels % parts != 0) {
    fail_value(name, "expected a number of channels that is a multiple of the ", parts,
               " parts of offset and mask, got ", channels);
  }
  return out;
}

Spec last(DType dtype, const Shape& shape) { return Spec(dtype, shape, channels_last(shape)); }

}  // namespace

Specs infer(const DeformableConv& op, const Specs& in) {
  if (in.size() != 4) fail_type("DeformableConv", "expected 4 inputs, got ", in.size());
  return {last(in[0].dtype, output_shape(op, in))};
}

Keep keep(const DeformableConv&, std::uint32_t) { return {0b1111, 0}; }

Values grad(const DeformableConv& op, const GradArgs& g) {
  if (!g.dy[0]) return Values(4);
  DeformableConvBackward back;
  back.stride_h = op.stride_h, back.stride_w = op.stride_w;
  back.pad_h = op.pad_h, back.pad_w = op.pad_w;
  back.dilate_h = op.dilate_h, back.dilate_w = op.dilate_w;
  back.mode = op.mode, back.sparse = op.sparse;
  Values in;
  for (const Value& v : g.inputs) in.push_back(v);
  in.push_back(g.dy[0]);
  return call_all(back, std::move(in));
}

REGISTER_OP(DeformableConv);

Specs infer(const DeformableConvBackward& op, const Specs& in) {
  const char* name = "DeformableConvBackward";
  if (in.size() != 5) fail_type(name, "expected 5 inputs, got ", in.size());
  const Shape out = output_shape(op, in);
  if (in[4].shape != out) {
    fail_value(name, "expected a gradient of shape ", out, ", got ", in[4].shape);
  }
  const DType dtype = in[0].dtype;
  return {last(dtype, in[0].shape), Spec(dtype, in[1].shape), last(dtype, in[2].shape),
          last(dtype, in[3].shape)};
}

Values grad(const DeformableConvBackward&, const GradArgs&) {
  fail(ErrorKind::not_implemented, "DeformableConv",
       "has no second derivatives; keep it out of gradients that are differentiated again");
}

REGISTER_OP(DeformableConvBackward);

}  // namespace mge
