// At each position a small matrix product: patches (batch x depth) by weights (depth x out). The
// weights are most of the memory and are read (or written) once.

#include "core/ops/local_conv/local_conv.loops.h"

#include <algorithm>

#include "core/kernels/cpu/parallel.h"
#include "core/runtime/allocator.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;

template <class T>
constexpr int64_t kLane = 64 / static_cast<int64_t>(sizeof(T));  // of one 512-bit register

struct Position {
  int64_t group, h, w;
};
Position position_of(const LocalLayout& p, int64_t i) {
  return {i / (p.out_w * p.out_h), i / p.out_w % p.out_h, i % p.out_w};
}

// Calls f(index of the tap, offset in a plane) for the taps at a position that lie inside.
template <class F>
void each_tap(const LocalLayout& p, const Position& at, F&& f) {
  int64_t tap = 0;
  for (int64_t a = 0; a < p.kernel_h; ++a) {
    const int64_t kh = p.flip ? p.kernel_h - 1 - a : a;
    const int64_t h = at.h * p.stride_h - p.pad_h + kh * p.dilate_h;
    for (int64_t b = 0; b < p.kernel_w; ++b, ++tap) {
      const int64_t kw = p.flip ? p.kernel_w - 1 - b : b;
      const int64_t w = at.w * p.stride_w - p.pad_w + kw * p.dilate_w;
      if (h < 0 || h >= p.h || w < 0 || w >= p.w) continue;
      f(tap, h * p.x_step[2] + w * p.x_step[3]);
    }
  }
}

// patches[n][c * taps + tap] for channels [c0, c1) of the group, zeros in the padding.
template <class T>
void read_patches(const LocalLayout& p, const Position& at, const T* x, int64_t c0, int64_t c1,
                  T* patches) {
  const int64_t taps = p.taps(), depth = (c1 - c0) * taps;
  std::fill_n(patches, p.batch * depth, T{});
  for (int64_t n = 0; n < p.batch; ++n) {
    const T* image = x + n * p.x_step[0] + (at.group * p.in + c0) * p.x_step[1];
    T* to = patches + n * depth;
    each_tap(p, at, [&](int64_t tap, int64_t offset) {
      const T* from = image + offset;
      for (int64_t c = 0; c < c1 - c0; ++c) to[c * taps + tap] = from[c * p.x_step[1]];
    });
  }
}

// The outputs at a position as rows of `out` elements, one for each sample.
template <class T>
void read_outputs(const LocalLayout& p, const Position& at, const T* y, T* rows) {
  for (int64_t n = 0; n < p.batch; ++n) {
    const T* from = y + n * p.y_step[0] + at.group * p.out * p.y_step[1] + at.h * p.y_step[2] +
                    at.w * p.y_step[3];
    for (int64_t o = 0; o < p.out; ++o) rows[n * p.out + o] = from[o * p.y_step[1]];
  }
}

// rows[n][o] = sum over k of patches[n][k] * weight[k][o] for `count` samples and `width` columns.
template <int64_t kCount, class T>
void multiply_block(const T* patches, const T* weight, T* rows, int64_t depth, int64_t out,
                    int64_t width) {
  constexpr int64_t kWidth = 2 * kLane<T>;
  T sums[kCount][kWidth] = {};
  if (width == kWidth) {
    for (int64_t k = 0; k < depth; ++k) {
      const T* w = weight + k * out;
      for (int64_t n = 0; n < kCount; ++n) {
        const T v = patches[n * depth + k];
        for (int64_t o = 0; o < kWidth; ++o) sums[n][o] += v * w[o];
      }
    }
  } else {
    for (int64_t k = 0; k < depth; ++k) {
      const T* w = weight + k * out;
      for (int64_t n = 0; n < kCount; ++n) {
        const T v = patches[n * depth + k];
        for (int64_t o = 0; o < width; ++o) sums[n][o] += v * w[o];
      }
    }
  }
  for (int64_t n = 0; n < kCount; ++n) std::copy_n(sums[n], width, rows + n * out);
}

// Calls f(constant) with a block of samples: 4 at a time, then 2, then 1.
template <class F>
void each_block(int64_t batch, F&& f) {
  int64_t n = 0;
  for (; n + 4 <= batch; n += 4) f(n, std::integral_constant<int64_t, 4>{});
  for (; n + 2 <= batch; n += 2) f(n, std::integral_constant<int64_t, 2>{});
  for (; n < batch; ++n) f(n, std::integral_constant<int64_t, 1>{});
}

template <class T>
void multiply(const T* patches, const T* weight, T* rows, int64_t batch, int64_t depth,
              int64_t out) {
  for (int64_t o = 0; o < out; o += 2 * kLane<T>) {
    const int64_t width = std::min(2 * kLane<T>, out - o);
    each_block(batch, [&](int64_t n, auto count) {
      multiply_block<decltype(count)::value>(patches + n * depth, weight + o, rows + n * out + o,
                                             depth, out, width);
    });
  }
}

// patches[n][k] = sum over o of rows[n][o] * weight[k][o]
template <class T>
void multiply_back(const T* rows, const T* weight, T* patches, int64_t batch, int64_t depth,
                   int64_t out) {
  constexpr int64_t kL = kLane<T>;
  each_block(batch, [&](int64_t first, auto count) {
    constexpr int64_t kCount = decltype(count)::value;
    for (int64_t k = 0; k < depth; ++k) {
      const T* w = weight + k * out;
      const T* y = rows + first * out;
      T sums[kCount][kL] = {};
      int64_t o = 0;
      for (; o + kL <= out; o += kL) {
        for (int64_t n = 0; n < kCount; ++n) {
          for (int64_t j = 0; j < kL; ++j) sums[n][j] += y[n * out + o + j] * w[o + j];
        }
      }
      for (int64_t n = 0; n < kCount; ++n) {
        for (int64_t j = o; j < out; ++j) sums[n][j - o] += y[n * out + j] * w[j];
        for (int64_t half = kL / 2; half > 0; half /= 2) {
          for (int64_t j = 0; j < half; ++j) sums[n][j] += sums[n][j + half];
        }
        patches[(first + n) * depth + k] = sums[n][0];
      }
    }
  });
}

// weight[k][o] = sum over n of patches[n][k] * rows[n][o]
template <class T>
void multiply_outer(const T* patches, const T* rows, T* weight, int64_t batch, int64_t depth,
                    int64_t out) {
  for (int64_t k = 0; k < depth; ++k) {
    T* __restrict w = weight + k * out;
    std::fill_n(w, out, T{});
    for (int64_t n = 0; n < batch; ++n) {
      const T v = patches[n * depth + k];
      const T* __restrict y = rows + n * out;
      for (int64_t o = 0; o < out; ++o) w[o] += v * y[o];
    }
  }
}

// Calls f(task, scratch of `need` elements) for each task, on all threads.
template <class T, class F>
void each_task(int64_t tasks, int64_t grain, int64_t need, F&& f) {
  const int threads = num_threads();
  const Scratch scratch(sizeof(T) * static_cast<std::size_t>(need * threads));
  parallel_for(tasks, grain, [&](int64_t begin, int64_t end) {
    T* mine = scratch.as<T>() + omp_get_thread_num() % threads * need;
    for (int64_t i = begin; i < end; ++i) f(i, mine);
  });
}

template <class T, class F>
void each_position(const LocalLayout& p, F&& f) {
  const int64_t work = std::max<int64_t>(1, p.batch * p.depth() * p.out);
  each_task<T>(p.groups * p.out_h * p.out_w, std::max<int64_t>(1, 65536 / work),
               p.batch * (p.depth() + p.out), f);
}

template <class T>
void forward(const T* x, const T* weight, T* y, const LocalLayout& p) {
  each_position<T>(p, [&](int64_t i, T* patches) {
    const Position at = position_of(p, i);
    T* const rows = patches + p.batch * p.depth();
    read_patches(p, at, x, 0, p.in, patches);
    multiply(patches, weight + i * p.depth() * p.out, rows, p.batch, p.depth(), p.out);
    for (int64_t n = 0; n < p.batch; ++n) {
      T* to = y + n * p.y_step[0] + at.group * p.out * p.y_step[1] + at.h * p.y_step[2] +
              at.w * p.y_step[3];
      for (int64_t o = 0; o < p.out; ++o) to[o * p.y_step[1]] = rows[n * p.out + o];
    }
  });
}

// A task is some channels of a group at all positions, in order: no two tasks write to one place,
// and the sums do not depend on the threads.
template <class T>
void backward_data(const T* weight, const T* y, T* x, const LocalLayout& p) {
  const int64_t chunk = std::max<int64_t>(1, (p.in + 7) / 8), chunks = (p.in + chunk - 1) / chunk;
  const int64_t taps = p.taps(), positions = p.out_h * p.out_w;
  each_task<T>(p.groups * chunks, 1, p.batch * (chunk * taps + p.out), [&](int64_t task, T* rows) {
    const int64_t group = task / chunks, c0 = task % chunks * chunk;
    const int64_t c1 = std::min(p.in, c0 + chunk), depth = (c1 - c0) * taps;
    T* const patches = rows + p.batch * p.out;
    for (int64_t i = 0; i < positions; ++i) {
      const Position at{group, i / p.out_w, i % p.out_w};
      read_outputs(p, at, y, rows);
      const T* w = weight + ((group * positions + i) * p.in + c0) * taps * p.out;
      multiply_back(rows, w, patches, p.batch, depth, p.out);
      for (int64_t n = 0; n < p.batch; ++n) {
        T* image = x + n * p.x_step[0] + (group * p.in + c0) * p.x_step[1];
        const T* from = patches + n * depth;
        each_tap(p, at, [&](int64_t tap, int64_t offset) {
          for (int64_t c = 0; c < c1 - c0; ++c) {
            image[offset + c * p.x_step[1]] += from[c * taps + tap];
          }
        });
      }
    }
  });
}

template <class T>
void backward_filter(const T* x, const T* y, T* weight, const LocalLayout& p) {
  each_position<T>(p, [&](int64_t i, T* patches) {
    const Position at = position_of(p, i);
    T* const rows = patches + p.batch * p.depth();
    read_patches(p, at, x, 0, p.in, patches);
    read_outputs(p, at, y, rows);
    multiply_outer(patches, rows, weight + i * p.depth() * p.out, p.batch, p.depth(), p.out);
  });
}

template <class F>
void with_type(DType dtype, F&& f) {
  dtype == DType::float64 ? f(Tag<double>{}) : f(Tag<float>{});
}

}  // namespace

void local_forward(DType dtype, const void* x, const void* weight, void* y, const LocalLayout& at) {
  with_type(dtype, [&]<class T>(Tag<T>) {
    forward(static_cast<const T*>(x), static_cast<const T*>(weight), static_cast<T*>(y), at);
  });
}

void local_backward_data(DType dtype, const void* weight, const void* y, void* x,
                         const LocalLayout& at) {
  with_type(dtype, [&]<class T>(Tag<T>) {
    backward_data(static_cast<const T*>(weight), static_cast<const T*>(y), static_cast<T*>(x), at);
  });
}

void local_backward_filter(DType dtype, const void* x, const void* y, void* weight,
                           const LocalLayout& at) {
  with_type(dtype, [&]<class T>(Tag<T>) {
    backward_filter(static_cast<const T*>(x), static_cast<const T*>(y), static_cast<T*>(weight),
                    at);
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
