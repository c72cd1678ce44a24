#include "core/ops/convolution/convolution.h"

#include <limits>

#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

using std::int64_t;

constexpr int64_t kMostSize = std::numeric_limits<std::int32_t>::max();  // what oneDNN counts in

template <class T>
ConvAttrs attrs_of(const T& op) {
  if constexpr (requires { op.stride_d; }) {
    return {3,
            {op.stride_d, op.stride_h, op.stride_w},
            {op.pad_d, op.pad_h, op.pad_w},
            {op.dilate_d, op.dilate_h, op.dilate_w},
            op.mode,
            op.sparse};
  } else {
    return conv_attrs_2d(op);
  }
}

// Copies what two ops of one rank have in common.
template <class To, class From>
To with_attrs_of(const From& from) {
  To to;
  to.stride_h = from.stride_h;
  to.stride_w = from.stride_w;
  to.pad_h = from.pad_h;
  to.pad_w = from.pad_w;
  to.dilate_h = from.dilate_h;
  to.dilate_w = from.dilate_w;
  to.mode = from.mode;
  to.sparse = from.sparse;
  if constexpr (requires { from.stride_d; }) {
    to.stride_d = from.stride_d;
    to.pad_d = from.pad_d;
    to.dilate_d = from.dilate_d;
  }
  return to;
}

void check_attrs(const char* op, const ConvAttrs& a) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(a.spatial); ++i) {
    if (a.stride[i] < 1 || a.stride[i] > kMostSize) {
      fail_value(op, "expected a stride of 1 to 2^31 - 1, got ", a.stride[i]);
    }
    if (a.dilate[i] < 1 || a.dilate[i] > kMostSize) {
      fail_value(op, "expected a dilation of 1 to 2^31 - 1, got ", a.dilate[i]);
    }
    if (a.pad[i] < 0 || a.pad[i] > kMostSize) {
      fail_value(op, "expected a padding of 0 to 2^31 - 1, got ", a.pad[i]);
    }
  }
}

void check_dtypes(const char* op, const Specs& in) {
  for (const Spec& s : in) {
    if (s.dtype != in[0].dtype) {
      fail_type(op, "expected operands of one dtype, got ", in[0].dtype, " and ", s.dtype);
    }
  }
  if (is_bool(in[0].dtype)) fail_type(op, "expected numbers, got bool");
}

void check_rank(const char* op, const char* what, const ConvAttrs& a, const Shape& shape) {
  if (shape.size() != a.spatial + 2) {
    fail_value(op, "expected ", what, " of ", a.spatial + 2, " dimensions, got shape ", shape);
  }
}

// Channels as the weight has them.
struct Channels {
  int64_t groups, out, in;
};
Channels check_weight(const char* op, const ConvAttrs& a, const Shape& w) {
  const int64_t lead = w.size() - a.spatial;
  if (lead != 2 && lead != 3) {
    fail_value(op,
               "expected a weight of shape (out, in, kernel...) or (groups, out / groups, in / "
               "groups, kernel...) over ",
               a.spatial, " spatial axes, got ", w);
  }
  if (a.sparse == ConvSparse::GROUP && lead != 3) {
    fail_value(
        op, "expected a weight in groups, (groups, out / groups, in / groups, kernel...), got ", w);
  }
  for (int i = static_cast<int>(lead); i < w.size(); ++i) {
    if (w[i] < 1) fail_value(op, "expected a kernel of at least 1, got a weight of shape ", w);
  }
  count(w);
  if (lead == 2) return {1, w[0], w[1]};
  if (w[0] < 1) fail_value(op, "expected at least one group, got a weight of shape ", w);
  return {w[0], w[0] * w[1], w[0] * w[2]};
}

// The spatial size that a kernel covers.
int64_t extent(const ConvAttrs& a, const Shape& w, int i) {
  const int64_t k = w[w.size() - a.spatial + i];
  int64_t reach = 0;
  if (__builtin_mul_overflow(k - 1, a.dilate[static_cast<std::size_t>(i)], &reach)) {
    return std::numeric_limits<int64_t>::max();
  }
  return reach + 1;
}

int64_t forward_size(const char* op, const ConvAttrs& a, const Shape& x, const Shape& w, int i) {
  const auto at = static_cast<std::size_t>(i);
  const int64_t padded = x[2 + i] + 2 * a.pad[at], covers = extent(a, w, i);
  if (covers > padded) {
    fail_value(op, "expected a kernel within the padded input, got a weight of shape ", w,
               " with dilation ", a.dilate[at], " for an input of shape ", x, " with padding ",
               a.pad[at]);
  }
  const int64_t out = (padded - covers) / a.stride[at] + 1;
  if (out > kMostSize)
    fail_value(op, "an output of ", out, " elements along one axis is too large");
  return out;
}

DType out_dtype(DType in) { return is_integer(in) && size_of(in) < 4 ? DType::int32 : in; }

// Channels-last where that is what the kernels write.
Spec activation(DType dtype, const Shape& shape) {
  count(shape);
  const bool last = dtype == DType::float32 || is_low_float(dtype);
  return Spec(dtype, shape, last ? channels_last(shape) : row_major(shape));
}

Shape forward_shape(const char* op, const ConvAttrs& a, const Shape& x, const Shape& w) {
  check_rank(op, "an input", a, x);
  const Channels c = check_weight(op, a, w);
  if (x[1] != c.in) {
    fail_value(op, "expected an input of ", c.in, " channels for a weight of shape ", w, " in ",
               c.groups, c.groups == 1 ? " group" : " groups", ", got shape ", x);
  }
  Shape out{x[0], c.out};
  for (int i = 0; i < a.spatial; ++i) out.push_back(forward_size(op, a, x, w, i));
  return out;
}

void check_bias(const char* op, const ConvAttrs& a, const Shape& bias, int64_t channels) {
  Shape full = Dims::filled(a.spatial + 2, 1);
  full[1] = channels;
  if (bias != Shape{channels} && bias != full) {
    fail_value(op, "expected a bias of shape ", full, ", got ", bias);
  }
}

Specs infer_forward(const char* op, const ConvAttrs& a, const Specs& in) {
  if (in.size() != 2 && in.size() != 3) fail_type(op, "expected 2 or 3 inputs, got ", in.size());
  check_attrs(op, a);
  check_dtypes(op, in);
  const Shape out = forward_shape(op, a, in[0].shape, in[1].shape);
  if (in.size() == 3) check_bias(op, a, in[2].shape, out[1]);
  return {activation(out_dtype(in[0].dtype), out)};
}

// The least input whose forward pass gives `diff`.
Dims least_size(const char* op, const ConvAttrs& a, const Shape& w, const Shape& diff) {
  Dims out;
  for (int i = 0; i < a.spatial; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const int64_t covers = extent(a, w, i);
    if (covers > kMostSize || diff[2 + i] > kMostSize) {
      fail_value(op, "a weight of shape ", w, " with dilation ", a.dilate[at], " is too large");
    }
    const int64_t size = (diff[2 + i] - 1) * a.stride[at] + covers - 2 * a.pad[at];
    if (diff[2 + i] < 1 || size < 1 || size > kMostSize) {
      fail_value(op, "an input of shape ", diff, " and a weight of shape ", w, " with padding ",
                 a.pad[at], " give an output of size ", size);
    }
    out.push_back(size);
  }
  return out;
}

Specs infer_backward_data(const char* op, const ConvAttrs& a, const Dims& wanted, const Specs& in) {
  if (in.size() != 2) fail_type(op, "expected 2 inputs, got ", in.size());
  check_attrs(op, a);
  check_dtypes(op, in);
  const Shape &w = in[0].shape, &diff = in[1].shape;
  check_rank(op, "an input", a, diff);
  const Channels c = check_weight(op, a, w);
  if (diff[1] != c.out) {
    fail_value(op, "expected an input of ", c.out, " channels for a weight of shape ", w,
               ", got shape ", diff);
  }
  if (!wanted.empty() && wanted.size() != a.spatial) {
    fail_value(op, "expected an output size of ", a.spatial, " numbers, got ", wanted);
  }
  const Dims size = wanted.empty() ? least_size(op, a, w, diff) : wanted;
  Shape out{diff[0], c.in};
  for (int64_t s : size) out.push_back(s);
  count(out);
  if (forward_shape(op, a, out, w) != diff) {
    fail_value(op, "no output of size ", size, " belongs to an input of shape ", diff,
               " and a weight of shape ", w);
  }
  return {activation(out_dtype(in[0].dtype), out)};
}

Specs infer_backward_filter(const char* op, const ConvAttrs& a, const Shape& w, const Specs& in) {
  if (in.size() != 2) fail_type(op, "expected 2 inputs, got ", in.size());
  check_attrs(op, a);
  check_dtypes(op, in);
  const Shape want = forward_shape(op, a, in[0].shape, w);
  if (in[1].shape != want) {
    fail_value(op, "expected a gradient of shape ", want, " for an input of shape ", in[0].shape,
               " and a weight of shape ", w, ", got ", in[1].shape);
  }
  return {Spec(out_dtype(in[0].dtype), w)};
}

Specs specs_of(const Values& in) {
  Specs out;
  out.reserve(in.size());
  for (const Value& v : in) out.push_back(v.spec());
  return out;
}

template <class T>
Value empty_output(const T& op, const Values& in) {
  Spec spec = infer(op, specs_of(in))[0];
  spec.device = in[0].device();
  return Value::empty(spec);
}

Dims spatial_of(const Shape& shape) { return Dims(std::span(shape.begin() + 2, shape.end())); }

// Every axis but the channels.
Dims all_but_channels(int ndim) {
  Dims axes{0};
  for (int i = 2; i < ndim; ++i) axes.push_back(i);
  return axes;
}

template <class Data, class Filter, class T>
Values grad_forward(const T& op, const GradArgs& g) {
  const Value dy = g.dy_or_zeros(0);
  Values out(g.in_specs.size());
  if (g.need(0)) {
    auto data = with_attrs_of<Data>(op);
    data.output_size = spatial_of(g.in_specs[0].shape);
    out[0] = call(data, g.inputs[1], dy);
  }
  if (g.need(1)) {
    auto filter = with_attrs_of<Filter>(op);
    filter.weight_shape = g.in_specs[1].shape;
    out[1] = call(filter, g.inputs[0], dy);
  }
  if (out.size() > 2 && g.need(2)) {
    out[2] = reshape(sum(dy, all_but_channels(dy.ndim()), false), g.in_specs[2].shape);
  }
  return out;
}

template <class Forward, class Filter, class T>
Values grad_backward_data(const T& op, const GradArgs& g) {
  const Value up = g.dy_or_zeros(0);
  Values out(2);
  if (g.need(0)) {
    auto filter = with_attrs_of<Filter>(op);
    filter.weight_shape = g.in_specs[0].shape;
    out[0] = call(filter, up, g.inputs[1]);
  }
  if (g.need(1)) out[1] = call(with_attrs_of<Forward>(op), up, g.inputs[0]);
  return out;
}

template <class Forward, class Data, class T>
Values grad_backward_filter(const T& op, const GradArgs& g) {
  const Value up = g.dy_or_zeros(0);
  Values out(2);
  if (g.need(0)) {
    auto data = with_attrs_of<Data>(op);
    data.output_size = spatial_of(g.in_specs[0].shape);
    out[0] = call(data, up, g.inputs[1]);
  }
  if (g.need(1)) out[1] = call(with_attrs_of<Forward>(op), g.inputs[0], up);
  return out;
}

// Each of the first two inputs is needed for the gradient of the other.
Keep keep_other(std::uint32_t needs) {
  return {(needs & 1u ? 2u : 0u) | (needs & 2u ? 1u : 0u), 0};
}

}  // namespace

Spec infer_convolution(const char* op, const ConvAttrs& attrs, const Specs& in) {
  return infer_forward(op, attrs, in)[0];
}

#define MGE_DEFINE_CONV(Forward, Data, Filter)                                                    \
  Specs infer(const Forward& op, const Specs& in) {                                               \
    return infer_forward(#Forward, attrs_of(op), in);                                             \
  }                                                                                               \
  Values execute(const Forward& op, Values& in) {                                                 \
    Value out = empty_output(op, in);                                                             \
    run_convolution(#Forward, attrs_of(op), in, out.mut());                                       \
    return {out};                                                                                 \
  }                                                                                               \
  Values grad(const Forward& op, const GradArgs& g) { return grad_forward<Data, Filter>(op, g); } \
  Keep keep(const Forward&, std::uint32_t needs) { return keep_other(needs); }                    \
  REGISTER_OP(Forward);                                                                           \
  Specs infer(const Data& op, const Specs& in) {                                                  \
    return infer_backward_data(#Data, attrs_of(op), op.output_size, in);                          \
  }                                                                                               \
  Values execute(const Data& op, Values& in) {                                                    \
    Value out = empty_output(op, in);                                                             \
    run_backward_data(#Data, attrs_of(op), in[0], in[1], out.mut());                              \
    return {out};                                                                                 \
  }                                                                                               \
  Values grad(const Data& op, const GradArgs& g) {                                                \
    return grad_backward_data<Forward, Filter>(op, g);                                            \
  }                                                                                               \
  Keep keep(const Data&, std::uint32_t needs) { return keep_other(needs); }                       \
  REGISTER_OP(Data);                                                                              \
  Specs infer(const Filter& op, const Specs& in) {                                                \
    return infer_backward_filter(#Filter, attrs_of(op), op.weight_shape, in);                     \
  }                                                                                               \
  Values execute(const Filter& op, Values& in) {                                                  \
    Value out = empty_output(op, in);                                                             \
    run_backward_filter(#Filter, attrs_of(op), in[0], in[1], out.mut());                          \
    return {out};                                                                                 \
  }                                                                                               \
  Values grad(const Filter& op, const GradArgs& g) {                                              \
    return grad_backward_filter<Forward, Data>(op, g);                                            \
  }                                                                                               \
  Keep keep(const Filter&, std::uint32_t needs) { return keep_other(needs); }                     \
  REGISTER_OP(Filter)

MGE_DEFINE_CONV(Convolution, ConvolutionBackwardData, ConvolutionBackwardFilter);
MGE_DEFINE_CONV(Convolution3D, Convolution3DBackwardData, Convolution3DBackwardFilter);

}  // namespace mge
