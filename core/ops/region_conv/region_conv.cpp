#include "core/ops/region_conv/region_conv.h"

#include "core/ops/elementwise/elementwise.h"
#include "core/ops/indexing/indexing.h"
#include "core/ops/matmul/matmul.h"
#include "core/ops/shape/shape.h"
#include "core/ops/sliding_window/sliding_window.h"

namespace mge {
namespace {

using std::int64_t;
using Forward = RegionRestrictedConvolution;
using BackwardData = RegionRestrictedConvolutionBackwardData;
using BackwardFilter = RegionRestrictedConvolutionBackwardFilter;

// Sizes of one group, and of the image.
struct Sizes {
  int64_t n, groups, in, out, h, w, out_h, out_w, kh, kw;
  int64_t positions() const { return out_h * out_w; }
  int64_t depth() const { return in * kh * kw; }
  Shape x() const { return {n, groups * in, h, w}; }
  Shape y() const { return {n, groups * out, out_h, out_w}; }
  Shape windows() const { return {n, groups * in, out_h, out_w, kh, kw}; }
};

Shape regions(const Shape& image) { return {image[0], image[2], image[3]}; }

// Checks everything but the shapes of x and y themselves.
template <class T>
Sizes check(const char* name, const T& op, const Shape& x, const Shape& w, const Specs& in) {
  for (std::size_t i = 0; i < 2; ++i) {
    if (!is_float(in[i].dtype)) fail_type(name, "expected a float dtype, got ", in[i].dtype);
    if (!is_integer(in[2 + i].dtype)) {
      fail_type(name, "expected regions of an integer dtype, got ", in[2 + i].dtype);
    }
  }
  if (in[0].dtype != in[1].dtype) {
    fail_type(name, "expected operands of one dtype, got ", in[0].dtype, " and ", in[1].dtype);
  }
  Specs plain;
  plain.push_back(Spec(DType::float32, x));
  plain.push_back(Spec(DType::float32, w));
  const Shape y = infer_convolution(name, conv_attrs_2d(op), plain).shape;
  if (in[2].shape != regions(x)) {
    fail_value(name, "expected rin of shape ", regions(x), " for an input of ", x, ", got ",
               in[2].shape);
  }
  if (in[3].shape != regions(y)) {
    fail_value(name, "expected rout of shape ", regions(y), " for an output of ", y, ", got ",
               in[3].shape);
  }
  const int lead = w.size() - 2;
  const int64_t groups = lead == 3 ? w[0] : 1;
  return {x[0], groups, w[lead - 1], w[lead - 2], x[2], x[3], y[2], y[3], w[lead], w[lead + 1]};
}

void check_count(const char* name, const Specs& in) {
  if (in.size() != 4) fail_type(name, "expected 4 inputs, got ", in.size());
}

Spec activation(DType dtype, const Shape& shape) {
  count(shape);
  return Spec(dtype, shape, channels_last(shape));
}

// The image that a gradient `dy` belongs to.
Shape image_of(const Shape& w, const Shape& dy, const Shape& rin) {
  const char* name = BackwardData::traits.name;
  const int lead = w.size() - 2;
  if (dy.size() != 4 || rin.size() != 3 || (lead != 2 && lead != 3)) {
    fail_value(name,
               "expected a gradient of 4, a weight of 4 or 5 and rin of 3 dimensions, got shapes ",
               dy, ", ", w, " and ", rin);
  }
  int64_t channels = w[lead - 1];
  if (lead == 3 && __builtin_mul_overflow(channels, w[0], &channels)) {
    fail_value(name, "a weight of shape ", w, " is too large");
  }
  return {dy[0], channels, rin[1], rin[2]};
}

bool depthwise(const Shape& w) { return w.size() == 5 && w[1] == 1 && w[2] == 1; }

template <class To, class From>
To same_attrs(const From& from) {
  To to;
  to.stride_h = from.stride_h, to.stride_w = from.stride_w;
  to.pad_h = from.pad_h, to.pad_w = from.pad_w;
  to.dilate_h = from.dilate_h, to.dilate_w = from.dilate_w;
  if constexpr (requires { to.mode; }) {
    to.mode = from.mode;
    to.sparse = from.sparse;
  }
  return to;
}

// Each of x (or dy) and the weight is needed for the gradient of the other; the regions always.
Keep keep_other(std::uint32_t needs) {
  return {(needs & 1u ? 2u : 0u) | (needs & 2u ? 1u : 0u) | 0b1100u, 0};
}

Specs specs_of(const Values& in) {
  Specs out;
  for (const Value& v : in) out.push_back(v.spec());
  return out;
}

// ---- as compositions
// ------------------------------------------------------------------------------

// 16-bit floats are computed in float32 and rounded once.
Value widened(const Value& v) { return is_low_float(v.dtype()) ? cast(v, DType::float32) : v; }

template <class T>
Images2Neibs windows_of(const T& op, const Sizes& s) {
  auto out = same_attrs<Images2Neibs>(op);
  out.window_h = s.kh, out.window_w = s.kw;
  return out;
}

// (N, 1, OH, OW, kh, kw): which taps count.
template <class T>
Value mask_of(const T& op, const Sizes& s, const Value& rin, const Value& rout) {
  const Value in = reshape(cast(rin, DType::int64), {s.n, 1, s.h, s.w});
  const Value out = reshape(cast(rout, DType::int64), {s.n, 1, s.out_h, s.out_w, 1, 1});
  return equal(call(windows_of(op, s), in), out);
}

Value masked(const Value& mask, const Value& windows) {
  return where(mask, windows, scalar_like(windows, 0));
}

// (groups, out, depth), as a correlation has it.
template <class T>
Value matrix_of(const T& op, const Sizes& s, const Value& weight) {
  const Value w = op.mode == ConvMode::CONVOLUTION ? flip(weight, {-2, -1}) : weight;
  return reshape(w, {s.groups, s.out, s.depth()});
}

// (N, groups, positions, depth): the masked patches of x.
template <class T>
Value patches_of(const T& op, const Sizes& s, const Value& mask, const Value& x) {
  const Value all = masked(mask, call(windows_of(op, s), x));
  const Value split = reshape(all, {s.n, s.groups, s.in, s.positions(), s.kh * s.kw});
  return reshape(transpose(split, {0, 1, 3, 2, 4}), {s.n, s.groups, s.positions(), s.depth()});
}

// (N, groups, out, positions)
Value rows_of(const Sizes& s, const Value& y) {
  return reshape(y, {s.n, s.groups, s.out, s.positions()});
}

}  // namespace

// ---- forward
// --------------------------------------------------------------------------------------

Specs infer(const Forward& op, const Specs& in) {
  check_count(op.traits.name, in);
  const Sizes s = check(op.traits.name, op, in[0].shape, in[1].shape, in);
  return {activation(in[0].dtype, s.y())};
}
bool fits(const Forward&, const Specs& in) { return depthwise(in[1].shape); }
Values decompose(const Forward& op, const Values& in) {
  const Sizes s = check(op.traits.name, op, in[0].shape(), in[1].shape(), specs_of(in));
  const Value mask = mask_of(op, s, in[2], in[3]);
  const Value patches = patches_of(op, s, mask, widened(in[0]));
  const Value y = matmul(matrix_of(op, s, widened(in[1])), patches, false, true);
  return {cast(reshape(y, s.y()), in[0].dtype())};
}
Keep keep(const Forward&, std::uint32_t needs) { return keep_other(needs); }
Values grad(const Forward& op, const GradArgs& g) {
  Values out(4);
  const Value &dy = g.dy[0], &rin = g.inputs[2], &rout = g.inputs[3];
  if (g.need(0)) out[0] = call(same_attrs<BackwardData>(op), g.inputs[1], dy, rin, rout);
  if (g.need(1)) {
    auto filter = same_attrs<BackwardFilter>(op);
    filter.weight_shape = g.in_specs[1].shape;
    out[1] = call(filter, g.inputs[0], dy, rin, rout);
  }
  return out;
}
REGISTER_OP(RegionRestrictedConvolution);

// ---- the gradient of x
// ----------------------------------------------------------------------------

Specs infer(const BackwardData& op, const Specs& in) {
  check_count(op.traits.name, in);
  const Shape x = image_of(in[0].shape, in[1].shape, in[2].shape);
  const Sizes s = check(op.traits.name, op, x, in[0].shape, in);
  if (in[1].shape != s.y()) {
    fail_value(op.traits.name, "expected a gradient of shape ", s.y(), ", got ", in[1].shape);
  }
  return {activation(in[1].dtype, x)};
}
bool fits(const BackwardData&, const Specs& in) { return depthwise(in[0].shape); }
Values decompose(const BackwardData& op, const Values& in) {
  const Shape x = image_of(in[0].shape(), in[1].shape(), in[2].shape());
  const Sizes s = check(op.traits.name, op, x, in[0].shape(), specs_of(in));
  const Value w = matrix_of(op, s, widened(in[0]));
  const Value patches = matmul(rows_of(s, widened(in[1])), w, true, false);
  const Value split = reshape(patches, {s.n, s.groups, s.positions(), s.in, s.kh * s.kw});
  const Value all = reshape(transpose(split, {0, 1, 3, 2, 4}), s.windows());
  auto back = same_attrs<SlidingWindowTranspose>(op);
  back.window_h = s.kh, back.window_w = s.kw;
  back.out_h = s.h, back.out_w = s.w;
  const Value dx = call(back, masked(mask_of(op, s, in[2], in[3]), all));
  return {cast(dx, in[1].dtype())};
}
Keep keep(const BackwardData&, std::uint32_t needs) { return keep_other(needs); }
Values grad(const BackwardData& op, const GradArgs& g) {
  Values out(4);
  const Value &up = g.dy[0], &rin = g.inputs[2], &rout = g.inputs[3];
  if (g.need(0)) {
    auto filter = same_attrs<BackwardFilter>(op);
    filter.weight_shape = g.in_specs[0].shape;
    out[0] = call(filter, up, g.inputs[1], rin, rout);
  }
  if (g.need(1)) out[1] = call(same_attrs<Forward>(op), up, g.inputs[0], rin, rout);
  return out;
}
REGISTER_OP(RegionRestrictedConvolutionBackwardData);

// ---- the gradient of the weight
// -------------------------------------------------------------------

Specs infer(const BackwardFilter& op, const Specs& in) {
  check_count(op.traits.name, in);
  const Sizes s = check(op.traits.name, op, in[0].shape, op.weight_shape, in);
  if (in[1].shape != s.y()) {
    fail_value(op.traits.name, "expected a gradient of shape ", s.y(), ", got ", in[1].shape);
  }
  return {Spec(in[0].dtype, op.weight_shape)};
}
bool fits(const BackwardFilter& op, const Specs&) { return depthwise(op.weight_shape); }
Values decompose(const BackwardFilter& op, const Values& in) {
  const Sizes s = check(op.traits.name, op, in[0].shape(), op.weight_shape, specs_of(in));
  const Value patches = patches_of(op, s, mask_of(op, s, in[2], in[3]), widened(in[0]));
  // The samples are one more axis that is summed over.
  const Value columns =
      reshape(transpose(patches, {1, 0, 2, 3}), {s.groups, s.n * s.positions(), s.depth()});
  const Value rows = reshape(transpose(rows_of(s, widened(in[1])), {1, 2, 0, 3}),
                             {s.groups, s.out, s.n * s.positions()});
  const Value dw = reshape(matmul(rows, columns), op.weight_shape);
  const Value turned = op.mode == ConvMode::CONVOLUTION ? flip(dw, {-2, -1}) : dw;
  return {cast(turned, in[0].dtype())};
}
Keep keep(const BackwardFilter&, std::uint32_t needs) { return keep_other(needs); }
Values grad(const BackwardFilter& op, const GradArgs& g) {
  Values out(4);
  const Value &up = g.dy[0], &rin = g.inputs[2], &rout = g.inputs[3];
  if (g.need(0)) out[0] = call(same_attrs<BackwardData>(op), up, g.inputs[1], rin, rout);
  if (g.need(1)) out[1] = call(same_attrs<Forward>(op), g.inputs[0], up, rin, rout);
  return out;
}
REGISTER_OP(RegionRestrictedConvolutionBackwardFilter);

}  // namespace mge
