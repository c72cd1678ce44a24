#include "core/ops/padding/padding.h"

#include <limits>

#include "core/ops/indexing/indexing.h"

namespace mge {
namespace {

using std::int64_t;

constexpr int64_t kMost = int64_t{1} << 40;

// Checks the widths; `x` is the shape without the border.
template <class T>
PaddingWidths check(const char* name, const T& op, const Shape& x) {
  const PaddingWidths all = padding_widths(op, kMaxDims), w = padding_widths(op, x.size());
  for (int i = 0; i < kMaxDims; ++i) {
    if (all.front[i] < 0 || all.back[i] < 0 || all.front[i] > kMost || all.back[i] > kMost) {
      fail_value(name, "expected widths from 0 to 2^40, got ", all.front[i], " and ", all.back[i],
                 " for axis ", i);
    }
    if (i >= x.size()) {
      if (all.front[i] == 0 && all.back[i] == 0) continue;
      fail_value(name, "expected widths for the ", x.size(), " axes of shape ", x,
                 ", got some for axis ", i);
    }
    const int64_t most = std::max(w.front[i], w.back[i]);
    if (most == 0 || op.padding_mode == PaddingMode::CONSTANT) continue;
    if (x[i] == 0) fail_value(name, "axis ", i, " of shape ", x, " is empty and has no edge");
    if (op.padding_mode == PaddingMode::REFLECT && most >= x[i]) {
      fail_value(name, "expected widths below the size ", x[i], " of axis ", i,
                 " for reflection, got ", w.front[i], " and ", w.back[i]);
    }
  }
  return w;
}

Shape padded(const Shape& x, const PaddingWidths& w) {
  Shape out = x;
  for (int i = 0; i < x.size(); ++i) out[i] += w.front[i] + w.back[i];
  count(out);
  return out;
}

template <class To, class From>
To same_border(const From& op) {
  To to;
  to.front_offset_dim0 = op.front_offset_dim0, to.back_offset_dim0 = op.back_offset_dim0;
  to.front_offset_dim1 = op.front_offset_dim1, to.back_offset_dim1 = op.back_offset_dim1;
  to.front_offset_dim2 = op.front_offset_dim2, to.back_offset_dim2 = op.back_offset_dim2;
  to.front_offset_dim3 = op.front_offset_dim3, to.back_offset_dim3 = op.back_offset_dim3;
  to.front_offset_dim4 = op.front_offset_dim4, to.back_offset_dim4 = op.back_offset_dim4;
  to.front_offset_dim5 = op.front_offset_dim5, to.back_offset_dim5 = op.back_offset_dim5;
  to.front_offset_dim6 = op.front_offset_dim6, to.back_offset_dim6 = op.back_offset_dim6;
  to.front_offset_dim7 = op.front_offset_dim7, to.back_offset_dim7 = op.back_offset_dim7;
  to.padding_mode = op.padding_mode;
  return to;
}

}  // namespace

Specs infer(const Padding& op, const Specs& in) {
  if (in.size() != 1) fail_type("Padding", "expected 1 input, got ", in.size());
  const Shape& x = in[0].shape;
  const Shape out = padded(x, check("Padding", op, x));
  return {Spec(in[0].dtype, out, dense_like(out, in[0].strides))};
}
Keep keep(const Padding&, std::uint32_t) { return {0, 0}; }
Values grad(const Padding& op, const GradArgs& g) {
  if (op.padding_mode != PaddingMode::CONSTANT) {
    return {call(same_border<PaddingBackward>(op), g.dy[0])};
  }
  const Shape& x = g.in_specs[0].shape;
  const PaddingWidths w = padding_widths(op, x.size());
  Value dx = g.dy[0];
  for (int i = 0; i < x.size(); ++i) {
    if (w.front[i] || w.back[i]) dx = slice(dx, i, w.front[i], w.front[i] + x[i]);
  }
  return {dx};
}
REGISTER_OP(Padding);

Specs infer(const PaddingBackward& op, const Specs& in) {
  if (in.size() != 1) fail_type("PaddingBackward", "expected 1 input, got ", in.size());
  if (!is_float(in[0].dtype)) {
    fail_type("PaddingBackward", "expected a float dtype, got ", in[0].dtype);
  }
  const PaddingWidths w = padding_widths(op, in[0].ndim());
  Shape out = in[0].shape;
  for (int i = 0; i < out.size(); ++i) {
    const int64_t size = out[i];
    if (w.front[i] < 0 || w.back[i] < 0 || w.front[i] > size || w.back[i] > size - w.front[i]) {
      fail_value("PaddingBackward", "a border of ", w.front[i], " and ", w.back[i],
                 " does not fit axis ", i, " of shape ", in[0].shape);
    }
    out[i] -= w.front[i] + w.back[i];
  }
  check("PaddingBackward", op, out);
  return {Spec(in[0].dtype, out, dense_like(out, in[0].strides))};
}
Keep keep(const PaddingBackward&, std::uint32_t) { return {0, 0}; }
Values grad(const PaddingBackward& op, const GradArgs& g) {
  return {call(same_border<Padding>(op), g.dy[0])};
}
REGISTER_OP(PaddingBackward);

}  // namespace mge
