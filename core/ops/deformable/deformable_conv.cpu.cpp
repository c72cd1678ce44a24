#include "core/ops/deformable/deformable_conv.h"

#include <algorithm>
#include <cstring>

#include "core/kernels/cpu/gemm.h"
#include "core/kernels/cpu/onednn.h"
#include "core/kernels/cpu/packed.h"
#include "core/kernels/cpu/parallel.h"
#include "core/ops/deformable/deformable_conv.loops.h"
#include "core/ops/detection/rois.h"

namespace mge {
namespace {

using cpu::DeformLayout;
using cpu::Packed;
using detection::Staged;
using std::int64_t;

constexpr int64_t kPieceBytes = 4 << 20;  // of columns that are held at a time

template <class Op>
DeformLayout layout_of(const Op& op, const Shape& x, const Shape& w, const Shape& mask) {
  const int64_t kh = w[w.size() - 2], kw = w.back();
  return {.n = x[0],
          .c = x[1],
          .h = x[2],
          .w = x[3],
          .out_h = mask[2],
          .out_w = mask[3],
          .kernel_h = kh,
          .kernel_w = kw,
          .stride_h = op.stride_h,
          .stride_w = op.stride_w,
          .pad_h = op.pad_h,
          .pad_w = op.pad_w,
          .dilate_h = op.dilate_h,
          .dilate_w = op.dilate_w,
          .groups = w.size() == 5 ? w[0] : 1,
          .parts = mask[1] / (kh * kw)};
}

Packed pack(const View& v, DType dtype) { return Packed(v, dtype, channels_last(v.shape)); }

// Strides of a weight whose taps come before its channels: (groups, out, taps, in).
Strides taps_first(const Shape& w) {
  const int n = w.size();
  Strides s = row_major(w);
  s[n - 3] = 1;
  s[n - 1] = w[n - 3];
  s[n - 2] = w[n - 1] * w[n - 3];
  return s;
}

// c = a @ b for matrices of float32 or float64, (rows, columns) with any strides.
void product(const char* op, const View& a, const View& b, const MutView& c) {
  if (c.dtype == DType::float32 && cpu::dnn::matmul(op, a, b, nullptr, c)) return;
  cpu::Gemm g;
  g.m = c.shape[0], g.n = c.shape[1], g.k = a.shape[1];
  g.a = a.data, g.b = b.data, g.c = c.data;
  g.a_row = a.strides[0], g.a_col = a.strides[1];
  g.b_row = b.strides[0], g.b_col = b.strides[1];
  g.c_row = c.strides[0], g.c_col = c.strides[1];
  cpu::gemm(c.dtype, g);
}

// The matrices of one group, for `rows` output positions.
struct GroupViews {
  DType dtype;
  const DeformLayout& at;
  int64_t out;  // output channels of a group

  int64_t depth() const { return at.taps() * (at.c / at.groups); }
  template <class P>
  P shifted(P data, int64_t elements) const {
    if constexpr (std::is_const_v<std::remove_pointer_t<P>>) {
      return static_cast<const char*>(data) + elements * size_of(dtype);
    } else {
      return static_cast<char*>(data) + elements * size_of(dtype);
    }
  }
  MutView columns(void* data, int64_t rows, int64_t g) const {
    return {shifted(data, g * depth()), dtype, {rows, depth()}, {at.columns(), 1}};
  }
  View weight(const void* data, int64_t g) const {  // (out, depth)
    return {shifted(data, g * out * depth()), dtype, {out, depth()}, {depth(), 1}};
  }
  MutView weight(void* data, int64_t g) const {
    return {shifted(data, g * out * depth()), dtype, {out, depth()}, {depth(), 1}};
  }
  MutView result(void* data, int64_t first_row, int64_t rows, int64_t g) const {
    const int64_t all = out * at.groups;
    return {shifted(data, first_row * all + g * out), dtype, {rows, out}, {all, 1}};
  }
  View result(const void* data, int64_t first_row, int64_t rows, int64_t g) const {
    const int64_t all = out * at.groups;
    return {shifted(data, first_row * all + g * out), dtype, {rows, out}, {all, 1}};
  }
};

View transposed(const View& v) {
  return {v.data, v.dtype, {v.shape[1], v.shape[0]}, {v.strides[1], v.strides[0]}};
}

int64_t piece_rows(const DeformLayout& at, DType dtype) {
  const int64_t bytes = std::max<int64_t>(1, at.columns() * size_of(dtype));
  return std::clamp<int64_t>(kPieceBytes / bytes, 32, std::max<int64_t>(32, at.rows()));
}

void fill_zero(const MutView& v) {
  if (v.size() > 0) std::memset(v.data, 0, static_cast<std::size_t>(v.size() * size_of(v.dtype)));
}

template <class A>
void add_to(A* to, const A* from, int64_t n) {
  cpu::parallel_for(n, 65536, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] += from[i];
  });
}

}  // namespace

void kernel(const DeformableConv& op, CpuContext&, Views in, MutViews out) {
  const MutView& y = out[0];
  if (y.size() == 0) return;
  const DeformLayout at = layout_of(op, in[0].shape, in[1].shape, in[3].shape);
  if (at.c == 0) return fill_zero(y);
  const DType dtype = cpu::compute_dtype(y.dtype);
  const Packed x = pack(in[0], dtype), offset = pack(in[2], dtype), mask = pack(in[3], dtype);
  const Packed weight(in[1], dtype, taps_first(in[1].shape));
  const Staged result(y, dtype, channels_last(y.shape));
  const GroupViews views{dtype, at, y.shape[1] / at.groups};
  const int64_t piece = std::min(piece_rows(at, dtype), at.rows());
  const Scratch columns(static_cast<std::size_t>(piece * at.columns() * size_of(dtype)));
  for (int64_t begin = 0; begin < at.rows(); begin += piece) {
    const int64_t rows = std::min(piece, at.rows() - begin);
    MGE_DISPATCH(deform_columns)
    (dtype, x.data(), offset.data(), mask.data(), columns.as<void>(), begin, begin + rows, at);
    for (int64_t g = 0; g < at.groups; ++g) {
      product("DeformableConv", views.columns(columns.as<void>(), rows, g),
              transposed(views.weight(weight.data(), g)),
              views.result(result.data(), begin, rows, g));
    }
  }
  result.finish();
}
REGISTER_KERNEL(DeformableConv, cpu);

void kernel(const DeformableConvBackward& op, CpuContext&, Views in, MutViews out) {
  const DeformLayout at = layout_of(op, in[0].shape, in[1].shape, in[3].shape);
  if (in[4].size() == 0 || at.c == 0) {
    for (const MutView& v : out) fill_zero(v);
    return;
  }
  const DType dtype = cpu::compute_dtype(in[0].dtype);
  const auto bytes = [&](int64_t n) { return static_cast<std::size_t>(n * size_of(dtype)); };
  const Packed x = pack(in[0], dtype), offset = pack(in[2], dtype), mask = pack(in[3], dtype);
  const Packed dy = pack(in[4], dtype), weight(in[1], dtype, taps_first(in[1].shape));
  const Staged dx(out[0], dtype, channels_last(out[0].shape));
  const Staged dw(out[1], dtype, taps_first(out[1].shape));
  const Staged doffset(out[2], dtype, channels_last(out[2].shape));
  const Staged dmask(out[3], dtype, channels_last(out[3].shape));
  const GroupViews views{dtype, at, in[4].shape[1] / at.groups};
  const int64_t piece = std::min(piece_rows(at, dtype), at.rows()), weights = out[1].size();
  const Scratch columns(bytes(piece * at.columns())), dcolumns(bytes(piece * at.columns()));
  const Scratch points(static_cast<std::size_t>(piece * at.parts * at.taps()) *
                       sizeof(cpu::DeformPoint));
  const Scratch part(bytes(weights));  // of dw, from one piece
  if (out[0].size() > 0) std::memset(dx.data(), 0, bytes(out[0].size()));
  for (int64_t begin = 0; begin < at.rows(); begin += piece) {
    const int64_t rows = std::min(piece, at.rows() - begin), end = begin + rows;
    for (int64_t g = 0; g < at.groups; ++g) {
      product("DeformableConvBackward", views.result(dy.data(), begin, rows, g),
              views.weight(weight.data(), g), views.columns(dcolumns.as<void>(), rows, g));
    }
    MGE_DISPATCH(deform_columns_backward)
    (dtype, x.data(), offset.data(), mask.data(), dcolumns.as<void>(), columns.as<void>(),
     doffset.data(), dmask.data(), points.as<cpu::DeformPoint>(), begin, end, at);
    MGE_DISPATCH(deform_scatter)
    (dtype, dcolumns.as<void>(), mask.data(), points.as<cpu::DeformPoint>(), dx.data(), begin, end,
     at);
    void* const to = begin == 0 ? dw.data() : part.as<void>();
    for (int64_t g = 0; g < at.groups; ++g) {
      product("DeformableConvBackward", transposed(views.result(dy.data(), begin, rows, g)),
              views.columns(columns.as<void>(), rows, g), views.weight(to, g));
    }
    if (begin == 0) continue;
    if (dtype == DType::float32) {
      add_to(static_cast<float*>(dw.data()), part.as<float>(), weights);
    } else {
      add_to(static_cast<double*>(dw.data()), part.as<double>(), weights);
    }
  }
  dx.finish(), dw.finish(), doffset.finish(), dmask.finish();
}
REGISTER_KERNEL(DeformableConvBackward, cpu);

}  // namespace mge
