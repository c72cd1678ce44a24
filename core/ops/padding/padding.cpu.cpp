#include "core/ops/padding/padding.h"

#include "core/kernels/cpu/copy.h"
#include "core/kernels/cpu/nd_loop.h"
#include "core/kernels/cpu/parallel.h"
#include "core/runtime/allocator.h"

namespace mge {
namespace {

using std::int64_t;

char* at_element(const MutView& v, int64_t offset) {
  return static_cast<char*>(v.data) + offset * size_of(v.dtype);
}

// Positions [begin, end) of one axis.
MutView part(MutView v, int axis, int64_t begin, int64_t end) {
  v.data = at_element(v, begin * v.strides[axis]);
  v.shape[axis] = end - begin;
  return v;
}

void fill(const MutView& out, double value) {
  if (out.size() == 0) return;
  cpu::copy(View{&value, DType::float64, Shape{}, Strides{}}, out);
}

// Where position `at` of the padded axis comes from, as a position of the padded axis.
int64_t origin(PaddingMode mode, int64_t at, int64_t front, int64_t size) {
  if (mode == PaddingMode::REPLICATE) return std::clamp(at, front, front + size - 1);
  if (at < front) return 2 * front - at;
  return at >= front + size ? 2 * (front + size - 1) - at : at;
}

// Calls f(position, origin) for each position of the border, outwards from the edges.
template <class F>
void each_of_border(PaddingMode mode, int64_t front, int64_t size, int64_t back, F&& f) {
  for (int64_t i = front - 1; i >= 0; --i) f(i, origin(mode, i, front, size));
  for (int64_t i = front + size; i < front + size + back; ++i) f(i, origin(mode, i, front, size));
}

// Calls f(first element of a line along `axis`) for all lines, on all threads. T is of the width of
// the dtype.
template <class T, class F>
void each_line(const MutView& v, int axis, int64_t work, F&& f) {
  Shape shape = v.shape;
  shape[axis] = 1;
  const Strides* const strides[1] = {&v.strides};
  const cpu::NdLoop<1> loop(shape, strides);
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(work, 1));
  cpu::parallel_for(loop.total(), grain, [&](int64_t begin, int64_t end) {
    cpu::NdWalk<1> walk(loop, 0, begin);
    for (int64_t i = begin; i < end; ++i, walk.next()) f(v.ptr<T>() + walk.offset[0]);
  });
}

bool innermost(const MutView& v, int axis) {
  for (int i = 0; i < v.ndim(); ++i) {
    if (v.shape[i] > 1 && std::abs(v.strides[i]) < std::abs(v.strides[axis])) return false;
  }
  return true;
}

// Fills the border of one axis from what lies inside. Planes are copied whole, unless the axis is
// the innermost in memory: then lines are done one by one.
void fill_border(PaddingMode mode, const MutView& out, int axis, int64_t front, int64_t back) {
  const int64_t size = out.shape[axis] - front - back, step = out.strides[axis];
  if (!innermost(out, axis)) {
    each_of_border(mode, front, size, back, [&](int64_t to, int64_t from) {
      cpu::copy(part(out, axis, from, from + 1), part(out, axis, to, to + 1));
    });
    return;
  }
  visit_width(out.dtype, [&]<class T>(Tag<T>) {
    each_line<T>(out, axis, front + back, [&](T* line) {
      each_of_border(mode, front, size, back,
                     [&](int64_t to, int64_t from) { line[to * step] = line[from * step]; });
    });
  });
}

// Adds the border of one axis to where it came from.
template <class T>
void gather_border(PaddingMode mode, const MutView& v, int axis, int64_t front, int64_t back) {
  const int64_t size = v.shape[axis] - front - back, step = v.strides[axis];
  // A line along the innermost axis that is not the padded one, for long loops.
  each_line<T>(v, axis, front + back, [&](T* line) {
    each_of_border(mode, front, size, back,
                   [&](int64_t from, int64_t to) { line[to * step] += line[from * step]; });
  });
}

}  // namespace

void pad_constant(const View& x, const Dims& front, double value, const MutView& out) {
  MutView inner = out;
  for (int i = 0; i < out.ndim(); ++i) {
    const int64_t begin = front[i], end = begin + x.shape[i];
    fill(part(inner, i, 0, begin), value);
    fill(part(inner, i, end, inner.shape[i]), value);
    inner = part(inner, i, begin, end);
  }
  if (x.size() > 0) cpu::copy(x, inner);
}

void kernel(const Padding& op, CpuContext&, Views in, MutViews out) {
  const MutView& y = out[0];
  if (y.size() == 0) return;
  const PaddingWidths w = padding_widths(op, y.ndim());
  if (op.padding_mode == PaddingMode::CONSTANT) {
    return pad_constant(in[0], w.front, op.padding_val, y);
  }
  // Axis by axis: the lines of the first ones lie inside the borders of the later ones.
  MutView inner = y;
  for (int i = 0; i < y.ndim(); ++i) {
    inner = part(inner, i, w.front[i], w.front[i] + in[0].shape[i]);
  }
  cpu::copy(in[0], inner);
  for (int i = 0; i < y.ndim(); ++i) {
    if (!w.front[i] && !w.back[i]) continue;
    MutView grown = y;
    for (int k = i + 1; k < y.ndim(); ++k) {
      grown = part(grown, k, w.front[k], w.front[k] + in[0].shape[k]);
    }
    fill_border(op.padding_mode, grown, i, w.front[i], w.back[i]);
  }
}
REGISTER_KERNEL(Padding, cpu);

// The steps of the forward pass in reverse order, in a copy of dy.
void kernel(const PaddingBackward& op, CpuContext&, Views in, MutViews out) {
  const MutView& dx = out[0];
  if (dx.size() == 0) return;
  const PaddingWidths w = padding_widths(op, dx.ndim());
  const DType dtype = dx.dtype == DType::float64 ? DType::float64 : DType::float32;
  const Scratch scratch(static_cast<std::size_t>(in[0].size() * size_of(dtype)));
  MutView sums{scratch.as<void>(), dtype, in[0].shape, dense_like(in[0].shape, in[0].strides)};
  cpu::copy(in[0], sums);
  for (int i = dx.ndim() - 1; i >= 0; --i) {
    const int64_t front = w.front[i], back = w.back[i];
    if (op.padding_mode != PaddingMode::CONSTANT && (front || back)) {
      if (dtype == DType::float64) {
        gather_border<double>(op.padding_mode, sums, i, front, back);
      } else {
        gather_border<float>(op.padding_mode, sums, i, front, back);
      }
    }
    sums = part(sums, i, front, front + dx.shape[i]);
  }
  cpu::copy(sums, dx);
}
REGISTER_KERNEL(PaddingBackward, cpu);

}  // namespace mge
