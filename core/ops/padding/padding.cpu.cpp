#include "core/ops/padding/padding.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

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

// Where position `at` of the padded axis comes from, as a position of the padded axis.
int64_t origin(PaddingMode mode, int64_t at, int64_t front, int64_t size) {
  if (mode == PaddingMode::REPLICATE) return std::clamp(at, front, front + size - 1);
  if (at < front) return 2 * front - at;
  return at >= front + size ? 2 * (front + size - 1) - at : at;
}

// Calls f(position, origin) for each position of the border.
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

// Adds the border of one axis to where it came from.
template <class T>
void gather_border(PaddingMode mode, const MutView& v, int axis, int64_t front, int64_t back) {
  const int64_t size = v.shape[axis] - front - back, step = v.strides[axis];
  each_line<T>(v, axis, front + back, [&](T* line) {
    each_of_border(mode, front, size, back,
                   [&](int64_t from, int64_t to) { line[to * step] += line[from * step]; });
  });
}

// The forward pass as rows of the output. A row runs along one axis, the innermost in memory that
// is padded or does not lie side by side in x; each of its positions is a unit of elements that do.
// The next axis makes planes of rows; the others say which plane of x they come from.
class Rows {
 public:
  Rows(PaddingMode mode, const View& x, const PaddingWidths& w, const MutView& out) : mode_(mode) {
    std::vector<int> axes;  // from the outermost in memory to the innermost
    for (int i = 0; i < out.ndim(); ++i) {
      if (out.shape[i] > 1 || w.front[i] + w.back[i] > 0) axes.push_back(i);
    }
    std::stable_sort(axes.begin(), axes.end(),
                     [&](int a, int b) { return out.strides[a] > out.strides[b]; });
    while (!axes.empty()) {
      const int i = axes.back();
      if (w.front[i] || w.back[i] || x.strides[i] != unit_) break;
      unit_ *= x.shape[i];
      axes.pop_back();
    }
    for (Axis* inner : {&row_, &column_}) {
      if (axes.empty()) break;
      *inner = axis(x, w, axes.back());
      axes.pop_back();
    }
    for (int i : axes) outer_.push_back(axis(x, w, i));
  }

  // Fills the rows of a dense output.
  template <class T>
  void run(const T* x, T value, T* out) const {
    int64_t planes = 1;
    for (const Axis& a : outer_) planes *= a.padded();
    const int64_t length = row_.padded() * unit_, height = column_.padded();
    const int64_t grain = std::max<int64_t>(1, 16384 / length);
    cpu::parallel_for(planes * height, grain, [&](int64_t begin, int64_t end) {
      Walk walk(*this, begin / height);
      for (int64_t r = begin; r < end; walk.next()) {
        const int64_t first = r % height, last = std::min(height, first + end - r);
        for (int64_t h = first; h < last; ++h, ++r) {
          const int64_t from = column_.from[static_cast<std::size_t>(h)];
          if (walk.outside == 0 && from != kOutside) {
            fill_row(x + walk.offset + from, value, out + r * length);
          } else {
            std::fill_n(out + r * length, length, value);
          }
        }
      }
    });
  }

 private:
  struct Axis {
    int64_t size = 1, step = 0, front = 0, back = 0;
    std::vector<int64_t> from{0};  // where each position comes from in x, or kOutside

    int64_t padded() const { return front + size + back; }
  };
  static constexpr int64_t kOutside = std::numeric_limits<int64_t>::min();

  Axis axis(const View& x, const PaddingWidths& w, int i) const {
    Axis a{x.shape[i], x.strides[i], w.front[i], w.back[i], {}};
    a.from.reserve(static_cast<std::size_t>(a.padded()));
    for (int64_t at = 0; at < a.padded(); ++at) {
      const bool inside = at >= a.front && at < a.front + a.size;
      const int64_t source = inside ? at : origin(mode_, at, a.front, a.size);
      const bool constant = !inside && mode_ == PaddingMode::CONSTANT;
      a.from.push_back(constant ? kOutside : (source - a.front) * a.step);
    }
    return a;
  }

  // Goes through the rows in order: where each begins in x, and in how many axes it lies in a
  // border of constants.
  struct Walk {
    Walk(const Rows& all, int64_t row) : rows(all) {
      for (std::size_t i = rows.outer_.size(); i-- > 0;) {
        const Axis& a = rows.outer_[i];
        at[i] = row % a.padded();
        row /= a.padded();
        add(a.from[static_cast<std::size_t>(at[i])]);
      }
    }
    void next() {
      for (std::size_t i = rows.outer_.size(); i-- > 0;) {
        const Axis& a = rows.outer_[i];
        take(a.from[static_cast<std::size_t>(at[i])]);
        const bool wraps = ++at[i] == a.padded();
        if (wraps) at[i] = 0;
        add(a.from[static_cast<std::size_t>(at[i])]);
        if (!wraps) return;
      }
    }
    void add(int64_t from) { from == kOutside ? ++outside : offset += from; }
    void take(int64_t from) { from == kOutside ? --outside : offset -= from; }

    const Rows& rows;
    std::array<int64_t, kMaxDims> at{};
    int64_t offset = 0, outside = 0;
  };

  template <class T>
  void fill_row(const T* x, T value, T* out) const {
    fill_border(x, value, out, 0, row_.front);
    T* const to = out + row_.front * unit_;
    if (row_.step == unit_) {
      std::copy_n(x, row_.size * unit_, to);
    } else if (unit_ == 1) {
      for (int64_t i = 0; i < row_.size; ++i) to[i] = x[i * row_.step];
    } else {
      for (int64_t i = 0; i < row_.size; ++i) std::copy_n(x + i * row_.step, unit_, to + i * unit_);
    }
    fill_border(x, value, out, row_.front + row_.size, row_.padded());
  }

  // Positions [begin, end) of a row.
  template <class T>
  void fill_border(const T* x, T value, T* out, int64_t begin, int64_t end) const {
    const int64_t* const from = row_.from.data();
    if (mode_ == PaddingMode::CONSTANT) {
      for (int64_t i = begin * unit_; i < end * unit_; ++i) out[i] = value;
    } else if (unit_ == 1) {
      for (int64_t i = begin; i < end; ++i) out[i] = x[from[i]];
    } else {
      for (int64_t i = begin; i < end; ++i) std::copy_n(x + from[i], unit_, out + i * unit_);
    }
  }

  PaddingMode mode_;
  int64_t unit_ = 1;
  Axis row_, column_;
  std::vector<Axis> outer_;
};

void pad(PaddingMode mode, const View& x, const PaddingWidths& w, double value,
         const MutView& out) {
  const Rows rows(mode, x, w, out);
  visit_width(out.dtype, [&]<class T>(Tag<T>) {
    T element;
    cpu::convert(&value, DType::float64, &element, out.dtype, 1);
    rows.run(x.ptr<T>(), element, out.ptr<T>());
  });
}

}  // namespace

void pad_constant(const View& x, const PaddingWidths& widths, double value, const MutView& out) {
  pad(PaddingMode::CONSTANT, x, widths, value, out);
}

void kernel(const Padding& op, CpuContext&, Views in, MutViews out) {
  if (out[0].size() == 0) return;
  pad(op.padding_mode, in[0], padding_widths(op, out[0].ndim()), op.padding_val, out[0]);
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
