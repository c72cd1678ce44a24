#include "core/kernels/cpu/im2col.h"

#include "core/kernels/cpu/gemm.h"
#include "core/kernels/cpu/parallel.h"

namespace mge::cpu::im2col {
namespace {

using std::int64_t;
using Size3 = std::array<int64_t, 3>;

// A convolution over three spatial axes, of which the first ones may have size 1. `x` is the side
// that is unfolded, `y` the other. Channels are those of one group.
struct Problem {
  int64_t batch, groups, in, out;
  Size3 x_size{1, 1, 1}, y_size{1, 1, 1}, kernel{1, 1, 1};
  Size3 stride{1, 1, 1}, pad{0, 0, 0}, dilate{1, 1, 1};
  int64_t x_batch, x_channel, y_batch, y_channel, y_step;
  Size3 x_step{0, 0, 0};

  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t depth() const { return in * taps(); }            // of the product
  int64_t lines() const { return y_size[0] * y_size[1]; }  // of y_size[2] positions each
};

Problem problem_of(const dnn::Conv& conv, const View& x, const Shape& weight, const View& y) {
  Problem p{};
  p.batch = x.shape[0];
  p.groups = conv.groups;
  p.in = x.shape[1] / conv.groups;
  p.out = y.shape[1] / conv.groups;
  p.x_batch = x.strides[0];
  p.x_channel = x.strides[1];
  p.y_batch = y.strides[0];
  p.y_channel = y.strides[1];
  p.y_step = 0;
  for (int i = 0; i < 3; ++i)
    p.x_size[i] = p.y_size[i] = p.kernel[i] = p.stride[i] = p.dilate[i] = 1;
  const int first = 3 - conv.spatial;
  for (int i = 0; i < conv.spatial; ++i) {
    const auto to = static_cast<std::size_t>(first + i), from = static_cast<std::size_t>(i);
    p.x_size[to] = x.shape[2 + i];
    p.x_step[to] = x.strides[2 + i];
    p.y_size[to] = y.shape[2 + i];
    p.kernel[to] = weight[weight.size() - conv.spatial + i];
    p.stride[to] = conv.stride[from];
    p.pad[to] = conv.pad[from];
    p.dilate[to] = conv.dilate[from];
  }
  // The innermost axis that moves tells the step from one position to the next.
  for (int i = y.ndim() - 1; i >= 2 && p.y_step == 0; --i) {
    if (y.shape[i] > 1) p.y_step = y.strides[i];
  }
  if (p.y_step == 0) p.y_step = 1;
  return p;
}

// Positions o with 0 <= o * stride + offset < size, within [0, n).
struct Range {
  int64_t begin, end;
};
Range valid(int64_t n, int64_t stride, int64_t offset, int64_t size) {
  const int64_t begin = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  const int64_t end = offset >= size ? 0 : (size - 1 - offset) / stride + 1;
  return {std::min(begin, n), std::max(std::min(begin, n), std::min(end, n))};
}

// Calls f(row of the patch matrix, first column of the line, valid columns, address in x) for each
// channel in [c0, c1), tap and line in [l0, l1). Rows count from channel c0, columns from line l0.
template <class T, class F>
void for_each_line(const Problem& p, T* x, int64_t c0, int64_t c1, int64_t l0, int64_t l1, F&& f) {
  int64_t row = 0;
  for (int64_t c = c0; c < c1; ++c) {
    for (int64_t kd = 0; kd < p.kernel[0]; ++kd) {
      for (int64_t kh = 0; kh < p.kernel[1]; ++kh) {
        for (int64_t kw = 0; kw < p.kernel[2]; ++kw, ++row) {
          const int64_t offset = kw * p.dilate[2] - p.pad[2];
          const Range w = valid(p.y_size[2], p.stride[2], offset, p.x_size[2]);
          for (int64_t l = l0; l < l1; ++l) {
            const int64_t d = l / p.y_size[1] * p.stride[0] - p.pad[0] + kd * p.dilate[0];
            const int64_t h = l % p.y_size[1] * p.stride[1] - p.pad[1] + kh * p.dilate[1];
            const bool inside = d >= 0 && d < p.x_size[0] && h >= 0 && h < p.x_size[1];
            const Range range = inside ? w : Range{0, 0};
            const int64_t at = c * p.x_channel + d * p.x_step[0] + h * p.x_step[1] +
                               (range.begin * p.stride[2] + offset) * p.x_step[2];
            f(row, (l - l0) * p.y_size[2], range, inside && range.begin < range.end ? x + at : x);
          }
        }
      }
    }
  }
}

// to: (channels * taps) x (positions of the lines), row-major.
template <class T>
void unfold(const Problem& p, const T* x, int64_t c0, int64_t c1, int64_t l0, int64_t l1, T* to) {
  const int64_t width = (l1 - l0) * p.y_size[2], step = p.stride[2] * p.x_step[2];
  for_each_line(p, x, c0, c1, l0, l1, [&](int64_t row, int64_t column, Range r, const T* from) {
    T* line = to + row * width + column;
    std::fill(line, line + r.begin, T{});
    if (step == 1) {
      std::copy(from, from + (r.end - r.begin), line + r.begin);
    } else {
      for (int64_t i = r.begin; i < r.end; ++i) line[i] = from[(i - r.begin) * step];
    }
    std::fill(line + r.end, line + p.y_size[2], T{});
  });
}

// x += the patches folded back.
template <class T>
void fold(const Problem& p, const T* patches, int64_t l0, int64_t l1, T* x) {
  const int64_t width = (l1 - l0) * p.y_size[2], step = p.stride[2] * p.x_step[2];
  for_each_line(p, x, 0, p.in, l0, l1, [&](int64_t row, int64_t column, Range r, T* to) {
    const T* line = patches + row * width + column;
    for (int64_t i = r.begin; i < r.end; ++i) to[(i - r.begin) * step] += line[i];
  });
}

constexpr int64_t kPatchElements = 1 << 17;  // of one thread's patch matrix, as long as a line fits

int64_t lines_at_once(const Problem& p, int64_t depth) {
  return std::clamp<int64_t>(kPatchElements / std::max<int64_t>(depth * p.y_size[2], 1), 1,
                             p.lines());
}

// Calls f(task, scratch) for each task, on all threads; scratch holds `need` elements.
template <class T, class F>
void for_each_task(int64_t tasks, int64_t need, F&& f) {
  const bool alone = omp_in_parallel();
  const int64_t threads = alone ? 1 : std::min<int64_t>(num_threads(), tasks);
  const Scratch scratch(static_cast<std::size_t>(threads * need) * sizeof(T));
  parallel_for(tasks, (tasks + threads - 1) / threads, [&](int64_t begin, int64_t end) {
    T* mine = scratch.as<T>() + (alone ? 0 : omp_get_thread_num() * need);
    for (int64_t t = begin; t < end; ++t) f(t, mine);
  });
}

// y[out, positions] += weight[out, depth] * patches[depth, positions]
template <class T>
void forward(const Problem& p, const T* x, const T* weight, T* y) {
  const int64_t depth = p.depth(), many = lines_at_once(p, depth);
  const int64_t chunks = (p.lines() + many - 1) / many;
  for_each_task<T>(
      p.batch * p.groups * chunks, depth * many * p.y_size[2], [&](int64_t t, T* patches) {
        const int64_t chunk = t % chunks, group = t / chunks % p.groups, n = t / chunks / p.groups;
        const int64_t l0 = chunk * many, l1 = std::min(l0 + many, p.lines());
        unfold(p, x + n * p.x_batch + group * p.in * p.x_channel, 0, p.in, l0, l1, patches);
        Gemm g;
        g.m = p.out;
        g.n = (l1 - l0) * p.y_size[2];
        g.k = depth;
        g.a = weight + group * p.out * depth;
        g.a_row = depth;
        g.a_col = 1;
        g.b = patches;
        g.b_row = g.n;
        g.b_col = 1;
        g.c = y + n * p.y_batch + group * p.out * p.y_channel + l0 * p.y_size[2] * p.y_step;
        g.c_row = p.y_channel;
        g.c_col = p.y_step;
        g.accumulate = true;
        gemm(dtype_of<T>, g);
      });
}

// patches[depth, positions] = weight^T[depth, out] * y[out, positions], folded into x
template <class T>
void backward_data(const Problem& p, const T* weight, const T* y, T* x) {
  const int64_t depth = p.depth(), many = lines_at_once(p, depth);
  for_each_task<T>(p.batch * p.groups, depth * many * p.y_size[2], [&](int64_t t, T* patches) {
    const int64_t group = t % p.groups, n = t / p.groups;
    for (int64_t l0 = 0; l0 < p.lines(); l0 += many) {
      const int64_t l1 = std::min(l0 + many, p.lines());
      Gemm g;
      g.m = depth;
      g.n = (l1 - l0) * p.y_size[2];
      g.k = p.out;
      g.a = weight + group * p.out * depth;
      g.a_row = 1;
      g.a_col = depth;
      g.b = y + n * p.y_batch + group * p.out * p.y_channel + l0 * p.y_size[2] * p.y_step;
      g.b_row = p.y_channel;
      g.b_col = p.y_step;
      g.c = patches;
      g.c_row = g.n;
      g.c_col = 1;
      gemm(dtype_of<T>, g);
      fold(p, patches, l0, l1, x + n * p.x_batch + group * p.in * p.x_channel);
    }
  });
}

// weight[out, depth] += y[out, positions] * patches^T[positions, depth]. A task is some channels of
// one group, through the whole batch in order: the sums do not depend on the threads.
template <class T>
void backward_filter(const Problem& p, const T* x, const T* y, T* weight) {
  const int64_t taps = p.taps(), depth = p.depth();
  const int64_t channels = std::clamp<int64_t>(32 / taps, 1, p.in);
  const int64_t chunks = (p.in + channels - 1) / channels;
  const int64_t many = lines_at_once(p, channels * taps);
  for_each_task<T>(
      p.groups * chunks, channels * taps * many * p.y_size[2], [&](int64_t t, T* patches) {
        const int64_t group = t / chunks, c0 = t % chunks * channels;
        const int64_t c1 = std::min(c0 + channels, p.in);
        for (int64_t n = 0; n < p.batch; ++n) {
          for (int64_t l0 = 0; l0 < p.lines(); l0 += many) {
            const int64_t l1 = std::min(l0 + many, p.lines());
            unfold(p, x + n * p.x_batch + group * p.in * p.x_channel, c0, c1, l0, l1, patches);
            Gemm g;
            g.m = p.out;
            g.n = (c1 - c0) * taps;
            g.k = (l1 - l0) * p.y_size[2];
            g.a = y + n * p.y_batch + group * p.out * p.y_channel + l0 * p.y_size[2] * p.y_step;
            g.a_row = p.y_channel;
            g.a_col = p.y_step;
            g.b = patches;
            g.b_row = 1;
            g.b_col = g.k;
            g.c = weight + group * p.out * depth + c0 * taps;
            g.c_row = depth;
            g.c_col = 1;
            g.accumulate = true;
            gemm(dtype_of<T>, g);
          }
        }
      });
}

template <class F>
void with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32:
      return f(Tag<float>{});
    case DType::float64:
      return f(Tag<double>{});
    case DType::int32:
    case DType::uint32:  // products and sums have the same bits
      return f(Tag<std::int32_t>{});
    case DType::int64:
    case DType::uint64:
      return f(Tag<std::int64_t>{});
    default:
      fail_type("Convolution", "unsupported dtype ", dtype);
  }
}

}  // namespace

void convolution(const dnn::Conv& conv, const View& src, const View& weight, const MutView& out) {
  const Problem p = problem_of(conv, src, weight.shape, out);
  with_type(out.dtype,
            [&]<class T>(Tag<T>) { forward(p, src.ptr<T>(), weight.ptr<T>(), out.ptr<T>()); });
}

void backward_data(const dnn::Conv& conv, const View& weight, const View& diff,
                   const MutView& out) {
  const Problem p = problem_of(conv, out, weight.shape, diff);
  with_type(out.dtype, [&]<class T>(Tag<T>) {
    backward_data(p, weight.ptr<T>(), diff.ptr<T>(), out.ptr<T>());
  });
}

void backward_filter(const dnn::Conv& conv, const View& src, const View& diff, const MutView& out) {
  const Problem p = problem_of(conv, src, out.shape, diff);
  with_type(out.dtype, [&]<class T>(Tag<T>) {
    backward_filter(p, src.ptr<T>(), diff.ptr<T>(), out.ptr<T>());
  });
}

}  // namespace mge::cpu::im2col
