// All channels of some pixels at a time, in a table of (channels + a border of zeros) x pixels that
// stays in cache. Channels-last it is the other way round: the channels of one pixel are a line.

#include "core/ops/lrn/lrn.loops.h"

#include <algorithm>

#include "core/kernels/cpu/lanes.h"
#include "core/kernels/cpu/parallel.h"
#include "core/runtime/allocator.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;

constexpr int64_t kTable = 1 << 14;  // elements of a table, as long as 16 pixels fit

template <class A>
struct Scale {
  A k, alpha, beta;
  bool three_quarters;

  explicit Scale(const LrnLayout& at)
      : k(A(at.k)), alpha(A(at.alpha)), beta(A(at.beta)), three_quarters(at.beta == 0.75) {}
};

// s^beta
template <bool kThreeQuarters, class A>
[[gnu::always_inline]] inline A power(A s, A beta) {
  if constexpr (kThreeQuarters) {
    const A root = lanes::sqrt(s);
    return root * lanes::sqrt(root);
  } else {
    return lanes::pow(s, beta);
  }
}

// What a thread works on: `lines` lines of `width` elements that are summed over; line i of the
// input starts at i * pitch. One line of channels, or a line of pixels for each channel.
struct Tile {
  int64_t lines, width, pitch;
  bool along;  // sums go along the line instead of across lines
};

// sums[i] = the sum of from[i - half .. i + half] along or across lines. `from` has a border of
// zeros.
template <class A>
void sum_around(const Tile& t, const A* from, int64_t half, int64_t line, A* __restrict sums) {
  const int64_t step = t.along ? 1 : t.width;
  const A* first = from + (t.along ? 0 : line * t.width);
  for (int64_t i = 0; i < t.width; ++i) sums[i] = first[i];
  for (int64_t d = 1; d <= 2 * half; ++d) {
    const A* __restrict next = first + d * step;
    for (int64_t i = 0; i < t.width; ++i) sums[i] += next[i];
  }
}

template <bool kThreeQuarters, class T, class A>
void normalise(const Tile& t, const T* x, T* y, int64_t half, const Scale<A>& scale, A* table) {
  const int64_t border = t.along ? half : half * t.width;
  A* const squares = table + border;
  for (int64_t line = 0; line < t.lines; ++line) {
    const T* __restrict from = x + line * t.pitch;
    A* __restrict to = squares + line * t.width;
    for (int64_t i = 0; i < t.width; ++i) to[i] = A(from[i]) * A(from[i]);
  }
  A* __restrict const sums = squares + t.lines * t.width + border;
  for (int64_t line = 0; line < t.lines; ++line) {
    sum_around(t, table, half, line, sums);
    const T* __restrict from = x + line * t.pitch;
    T* __restrict to = y + line * t.pitch;
    for (int64_t i = 0; i < t.width; ++i) {
      const A s = lanes::fma(sums[i], scale.alpha, scale.k);
      to[i] = T(A(from[i]) / power<kThreeQuarters>(s, scale.beta));
    }
  }
}

template <bool kThreeQuarters, class T, class A>
void backward(const Tile& t, const T* dy, const T* x, T* dx, int64_t half, const Scale<A>& scale,
              A* table, A* products) {
  const int64_t border = t.along ? half : half * t.width;
  A* const squares = table + border;
  for (int64_t line = 0; line < t.lines; ++line) {
    const T* __restrict from = x + line * t.pitch;
    A* __restrict to = squares + line * t.width;
    for (int64_t i = 0; i < t.width; ++i) to[i] = A(from[i]) * A(from[i]);
  }
  A* __restrict const sums = squares + t.lines * t.width + border;
  A* const inverse = products + 2 * border + t.lines * t.width;  // s^-beta of all elements
  for (int64_t line = 0; line < t.lines; ++line) {
    sum_around(t, table, half, line, sums);
    const T* __restrict g = dy + line * t.pitch, * __restrict from = x + line * t.pitch;
    A* __restrict to = products + border + line * t.width;
    A* __restrict inv = inverse + line * t.width;
    for (int64_t i = 0; i < t.width; ++i) {
      const A s = lanes::fma(sums[i], scale.alpha, scale.k);
      const A p = A(1) / power<kThreeQuarters>(s, scale.beta);
      inv[i] = p;
      to[i] = A(g[i]) * A(from[i]) * p / s;
    }
  }
  const A factor = A(-2) * scale.alpha * scale.beta;
  for (int64_t line = 0; line < t.lines; ++line) {
    sum_around(t, products, half, line, sums);
    const T* __restrict g = dy + line * t.pitch, * __restrict from = x + line * t.pitch;
    const A* __restrict inv = inverse + line * t.width;
    T* __restrict to = dx + line * t.pitch;
    for (int64_t i = 0; i < t.width; ++i) {
      to[i] = T(lanes::fma(A(from[i]), factor * sums[i], A(g[i]) * inv[i]));
    }
  }
}

// Calls f(tile, first element, scratch of the thread) for all of the tensor.
template <class A, class F>
void each_tile(const LrnLayout& at, int64_t tables, F&& f) {
  const bool along = at.inner == 1;
  const int64_t most = std::max<int64_t>(16, kTable / (at.channels + 2 * at.half) / 16 * 16);
  const int64_t width = along ? at.channels : std::min(at.inner, most);
  const int64_t lines = along ? 1 : at.channels;
  const int64_t table = (along ? width + 2 * at.half : (lines + 2 * at.half) * width) + width;
  const int64_t blocks = along ? 1 : (at.inner + width - 1) / width;
  const int threads = num_threads();
  const int64_t need = tables * table;
  const Scratch scratch(sizeof(A) * static_cast<std::size_t>(need * threads));
  std::fill_n(scratch.as<A>(), need * threads, A{});
  const int64_t grain = std::max<int64_t>(1, 4096 / (lines * width));
  parallel_for(at.outer * blocks, grain, [&](int64_t begin, int64_t end) {
    A* mine = scratch.as<A>() + omp_get_thread_num() % threads * need;
    for (int64_t k = begin; k < end; ++k) {
      const int64_t from = k % blocks * width;
      const int64_t here = along ? width : std::min(width, at.inner - from);
      const int64_t border = along ? at.half : at.half * here;
      // The zeros behind a narrower last tile, and those that it wrote over.
      for (int64_t i = 0; i < tables; ++i) {
        A* t = mine + i * table;
        std::fill_n(t, border, A{});
        std::fill_n(t + border + lines * here, border, A{});
      }
      f(Tile{lines, here, at.inner, along}, k / blocks * at.channels * at.inner + from, mine,
        table);
    }
  });
}

template <class F>
void with_power(const LrnLayout& at, F&& f) {
  at.beta == 0.75 ? f(std::true_type{}) : f(std::false_type{});
}

}  // namespace

void lrn(DType dtype, const void* x, void* y, const LrnLayout& at) {
  visit_float("LRN", dtype, [&]<class T>(Tag<T>) {
    using A = ComputeType<T>;
    with_power(at, [&](auto fast) {
      each_tile<A>(at, 1, [&](const Tile& t, int64_t first, A* scratch, int64_t) {
        normalise<decltype(fast)::value>(t, static_cast<const T*>(x) + first,
                                         static_cast<T*>(y) + first, at.half, Scale<A>(at),
                                         scratch);
      });
    });
  });
}

void lrn_backward(DType dtype, const void* dy, const void* x, void* dx, const LrnLayout& at) {
  visit_float("LRNBackward", dtype, [&]<class T>(Tag<T>) {
    using A = ComputeType<T>;
    with_power(at, [&](auto fast) {
      each_tile<A>(at, 3, [&](const Tile& t, int64_t first, A* scratch, int64_t table) {
        backward<decltype(fast)::value>(
            t, static_cast<const T*>(dy) + first, static_cast<const T*>(x) + first,
            static_cast<T*>(dx) + first, at.half, Scale<A>(at), scratch, scratch + table);
      });
    });
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
