// A packed, register-blocked matrix product, after Goto and van de Geijn, "Anatomy of
// High-Performance Matrix Multiplication" (2008): a tile of C stays in registers while a column of
// A and a row of B stream past it. A small operand whose layout fits is read where it is: at these
// sizes packing costs as much as the product.
#include <cstdint>

#include "core/kernels/cpu/gemm.h"
#include "core/kernels/cpu/gemm_tile.h"
#include "core/kernels/cpu/parallel.h"
#include "core/runtime/allocator.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;

constexpr int64_t kDepth = 256;      // of a block of A and B: a sliver of B takes 32 KiB, within L1
constexpr int64_t kBlockRows = 120;  // of A: 120 KiB of float32, within L2
constexpr int64_t kBlockCols = 1024;     // of B
constexpr int64_t kInPlace = 64 << 10;   // bytes of an operand that is read where it is
constexpr int64_t kRun = 1024;           // elements of a row of C that stay in L1
constexpr int64_t kFewRows = 4;          // of C, for which B is not packed
constexpr int64_t kThreadWork = 300000;  // multiplications that pay for a thread
// The same where each number of a matrix is used once, at the speed of memory.
constexpr int64_t kVectorThreadWork = 60000;

constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr double smaller_of(double a, double b) { return a < b ? a : b; }
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// ---- one product on one thread
// --------------------------------------------------------------------

template <class T>
struct Part {  // a Gemm with its type
  int64_t m, n, k;
  const T* a;
  const T* b;
  T* c;
  int64_t a_row, a_col, b_row, b_col, c_row, c_col;
  bool accumulate;
};

// Elements of scratch that one thread needs.
template <class T>
int64_t scratch_size(const Part<T>& g) {
  const int64_t depth = smaller(g.k, kDepth);
  const int64_t cols = ceil_div(smaller(g.n, kBlockCols), kTileCols<T>) * kTileCols<T>;
  return depth * (cols + smaller(g.m, kBlockRows) + kMaxRows) + kMaxRows * kTileCols<T> +
         kFewRows * kRun;
}

template <class T>
bool read_a_in_place(const Part<T>& g) {
  if (g.n <= 2 * kTileCols<T>) return true;
  // Rows at a multiple of the L1 way size would evict one another.
  const bool clash = g.a_row * static_cast<int64_t>(sizeof(T)) % 2048 == 0 && g.m > 4;
  return !clash && g.m * g.k * static_cast<int64_t>(sizeof(T)) <= kInPlace;
}

template <class T>
bool read_b_in_place(const Part<T>& g) {
  return g.b_col == 1 && g.n * g.k * static_cast<int64_t>(sizeof(T)) <= kInPlace;
}

// One tile, which may reach over the edge of C or have spread columns: then through a buffer.
template <class T>
void put_tile(int rows, int cols, int64_t depth, const T* a, int64_t a_row, int64_t a_col,
              const T* b, int64_t b_row, T* c, int64_t c_row, int64_t c_col, bool accumulate,
              T* buffer) {
  const int vectors = cols > kLanes<T> ? 2 : 1;
  const Tile<T> run = tiles<T>[rows - 1][vectors - 1];
  if (c_col == 1 && cols == vectors * kLanes<T>) {
    run(depth, a, a_row, a_col, b, b_row, c, c_row, {.accumulate = accumulate});
    return;
  }
  run(depth, a, a_row, a_col, b, b_row, buffer, kTileCols<T>, {});
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < cols; ++j) {
      T& to = c[i * c_row + j * c_col];
      const T sum = buffer[i * kTileCols<T> + j];
      to = accumulate ? to + sum : sum;
    }
  }
}

template <class T>
void product(const Part<T>& g, T* scratch) {
  constexpr int kCols = kTileCols<T>;
  const bool a_here = read_a_in_place(g), b_here = read_b_in_place(g);
  T* const buffer = scratch;
  T* const b_packed = buffer + kMaxRows * kCols;
  const int64_t b_width = ceil_div(smaller(g.n, kBlockCols), kCols) * kCols;
  T* const a_packed = b_packed + smaller(g.k, kDepth) * b_width;

  for (int64_t j0 = 0; j0 < g.n; j0 += kBlockCols) {
    const int64_t cols = smaller(kBlockCols, g.n - j0);
    for (int64_t p0 = 0; p0 < g.k; p0 += kDepth) {
      const int64_t depth = smaller(kDepth, g.k - p0);
      const bool accumulate = g.accumulate || p0 > 0;
      const T* const b_block = g.b + p0 * g.b_row + j0 * g.b_col;
      for (int64_t j = 0; j < cols; j += kCols) {
        const int n = static_cast<int>(smaller(kCols, cols - j));
        if (b_here && n % kLanes<T> == 0) continue;
        pack(b_packed + j * depth, kCols, b_block + j * g.b_col, g.b_col, g.b_row, n, depth);
      }
      for (int64_t i0 = 0; i0 < g.m; i0 += kBlockRows) {
        const int64_t rows = smaller(kBlockRows, g.m - i0);
        const int64_t count = ceil_div(rows, kMaxRows);
        const T* const a_block = g.a + i0 * g.a_row + p0 * g.a_col;
        if (!a_here) {
          for (int64_t t = 0; t < count; ++t) {
            const int64_t i = rows * t / count;
            const int height = static_cast<int>(rows * (t + 1) / count - i);
            pack(a_packed + i * depth, height, a_block + i * g.a_row, g.a_row, g.a_col, height,
                 depth);
          }
        }
        for (int64_t j = 0; j < cols; j += kCols) {
          const int n = static_cast<int>(smaller(kCols, cols - j));
          const bool direct = b_here && n % kLanes<T> == 0;
          const T* const b = direct ? b_block + j : b_packed + j * depth;
          for (int64_t t = 0; t < count; ++t) {
            const int64_t i = rows * t / count;
            const int height = static_cast<int>(rows * (t + 1) / count - i);
            put_tile(height, n, depth, a_here ? a_block + i * g.a_row : a_packed + i * depth,
                     a_here ? g.a_row : 1, a_here ? g.a_col : height, b, direct ? g.b_row : kCols,
                     g.c + (i0 + i) * g.c_row + (j0 + j) * g.c_col, g.c_row, g.c_col, accumulate,
                     buffer);
          }
        }
      }
    }
  }
}

// ---- few rows or columns: inner products along k, nothing is packed
// ------------------------------

template <class T>
struct Widest {
  using type = T;
};
template <>
struct Widest<float> {
  using type = double;
};

template <class T>
[[gnu::always_inline]] inline T sum_lanes(Vec<T> v) {
  T lanes[kLanes<T>];
  store(lanes, v);
  for (int w = kLanes<T> / 2; w > 0; w /= 2) {
    for (int i = 0; i < w; ++i) lanes[i] += lanes[i + w];
  }
  return lanes[0];
}

constexpr int64_t kDotDepth = 2048;  // after this many terms a float sum goes to a double

// sums[i][j] += A[i, 0:depth] . B[0:depth, j], both contiguous along the depth.
template <class T, int Rows, int Cols>
[[gnu::noinline]] void dots(int64_t depth, const T* a, int64_t a_row, const T* b, int64_t b_col,
                            typename Widest<T>::type (*sums)[4]) {
  constexpr int kUnroll = Rows * Cols >= 8 ? 1 : 4;  // enough chains to hide the latency
  constexpr int kStep = kUnroll * kLanes<T>;
  Vec<T> acc[kUnroll][Rows][Cols] = {};
  const auto step = [&](const T* at_a, const T* at_b, int u) __attribute__((always_inline)) {
    Vec<T> bv[Cols];
#pragma GCC unroll 4
    for (int j = 0; j < Cols; ++j) bv[j] = load(at_b + j * b_col);
#pragma GCC unroll 4
    for (int i = 0; i < Rows; ++i) {
      const Vec<T> av = load(at_a + i * a_row);
#pragma GCC unroll 4
      for (int j = 0; j < Cols; ++j) acc[u][i][j] += av * bv[j];
    }
  };
  int64_t p = 0;
  for (; p + kStep <= depth; p += kStep) {
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll; ++u) step(a + p + u * kLanes<T>, b + p + u * kLanes<T>, u);
  }
  for (; p + kLanes<T> <= depth; p += kLanes<T>) step(a + p, b + p, 0);
#pragma GCC unroll 4
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < Cols; ++j) {
      Vec<T> total = acc[0][i][j];
#pragma GCC unroll 4
      for (int u = 1; u < kUnroll; ++u) total += acc[u][i][j];
      T sum = sum_lanes<T>(total);
      for (int64_t q = p; q < depth; ++q) sum += a[i * a_row + q] * b[j * b_col + q];
      sums[i][j] += sum;
    }
  }
}

template <class T>
using Dots = void (*)(int64_t, const T*, int64_t, const T*, int64_t,
                      typename Widest<T>::type (*)[4]);
template <class T>
constexpr Dots<T> dots_of[4][4] = {
    {dots<T, 1, 1>, dots<T, 1, 2>, dots<T, 1, 3>, dots<T, 1, 4>},
    {dots<T, 2, 1>, dots<T, 2, 2>, dots<T, 2, 3>, dots<T, 2, 4>},
    {dots<T, 3, 1>, dots<T, 3, 2>, dots<T, 3, 3>, dots<T, 3, 4>},
    {dots<T, 4, 1>, dots<T, 4, 2>, dots<T, 4, 3>, dots<T, 4, 4>},
};

// Calls f(i, j, sum) for every element of C, where the sum is over the terms [p0, p1).
template <class T, class F>
[[gnu::always_inline]] inline void each_inner_product(const Part<T>& g, int64_t p0, int64_t p1,
                                                      F&& f) {
  for (int64_t j = 0; j < g.n; j += 4) {
    const int cols = static_cast<int>(smaller(4, g.n - j));
    for (int64_t i = 0; i < g.m; i += 4) {
      const int rows = static_cast<int>(smaller(4, g.m - i));
      typename Widest<T>::type sums[4][4] = {};
      for (int64_t p = p0; p < p1; p += kDotDepth) {
        dots_of<T>[rows - 1][cols - 1](smaller(kDotDepth, p1 - p), g.a + i* g.a_row + p, g.a_row,
                                       g.b + j* g.b_col + p, g.b_col, sums);
      }
      for (int r = 0; r < rows; ++r) {
        for (int s = 0; s < cols; ++s) f(i + r, j + s, sums[r][s]);
      }
    }
  }
}

template <class T>
void inner_products(const Part<T>& g) {
  each_inner_product(g, 0, g.k, [&](int64_t i, int64_t j, typename Widest<T>::type sum) {
    T& to = g.c[i * g.c_row + j * g.c_col];
    to = static_cast<T>(g.accumulate ? to + sum : sum);
  });
}

// A few very long sums: threads take pieces of fixed length, which are added in order.
constexpr int64_t kPiece = 1 << 15;

template <class T>
bool long_and_few(const Part<T>& g) {
  return g.m * g.n <= 64 && g.k >= 4 * kPiece && g.a_col == 1 && g.b_row == 1;
}

template <class T>
void long_inner_products(const Part<T>& g) {
  using Sum = typename Widest<T>::type;
  const int64_t pieces = ceil_div(g.k, kPiece), size = g.m * g.n;
  const Scratch scratch(static_cast<std::size_t>(pieces * size) * sizeof(Sum));
  Sum* const sums = scratch.as<Sum>();
  parallel_for(pieces, 2, [&](int64_t begin, int64_t end) {
    for (int64_t q = begin; q < end; ++q) {
      each_inner_product(
          g, q * kPiece, smaller(g.k, (q + 1) * kPiece),
          [&](int64_t i, int64_t j, Sum sum) { sums[q * size + i * g.n + j] = sum; });
    }
  });
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      T& to = g.c[i * g.c_row + j * g.c_col];
      Sum sum = g.accumulate ? static_cast<Sum>(to) : Sum{};
      for (int64_t q = 0; q < pieces; ++q) sum += sums[q * size + i * g.n + j];
      to = static_cast<T>(sum);
    }
  }
}

// Summing the lanes costs what about 64 terms do, and packing pays when a row is used often.
template <class T>
bool few(const Part<T>& g) {
  if (g.a_col != 1 || g.b_row != 1 || g.k < 2 * kLanes<T>) return false;
  const int64_t less = smaller(g.m, g.n);
  return less == 1 || (less <= 8 && g.k >= 64 * less);
}

// ---- few rows times a large matrix: long runs of B's rows, so that memory streams
// -------------------

// sums[0:n] += a[0] * b[0, 0:n] + ... + a[Rows - 1] * b[Rows - 1, 0:n]
template <class T, int Rows>
[[gnu::noinline]] void add_rows(int64_t n, const T* a, int64_t a_col, const T* b, int64_t b_row,
                                T* sums) {
  Vec<T> scale[Rows];
#pragma GCC unroll 4
  for (int r = 0; r < Rows; ++r) scale[r] = Vec<T>{} + a[r * a_col];
  int64_t j = 0;
  for (; j + kLanes<T> <= n; j += kLanes<T>) {
    Vec<T> sum = load(sums + j);
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) sum += scale[r] * load(b + r * b_row + j);
    store(sums + j, sum);
  }
  for (; j < n; ++j) {
    T sum = sums[j];
#pragma GCC unroll 4
    for (int r = 0; r < Rows; ++r) sum += a[r * a_col] * b[r * b_row + j];
    sums[j] = sum;
  }
}

template <class T>
bool few_rows(const Part<T>& g) {
  if (g.b_col != 1 || g.c_col != 1) return false;
  return g.m == 1 ? g.n > kTileCols<T> : g.m <= kFewRows && !read_b_in_place(g);
}

// sums[i, 0:n] = the sum over `depth` terms, four rows of B at a time.
template <class T>
void add_block(const Part<T>& g, const T* a, const T* b, int64_t n, int64_t depth, T* sums) {
  for (int64_t i = 0; i < g.m * kRun; ++i) sums[i] = T{};
  int64_t p = 0;
  for (; p + 4 <= depth; p += 4) {
    for (int64_t i = 0; i < g.m; ++i) {
      add_rows<T, 4>(n, a + i * g.a_row + p * g.a_col, g.a_col, b + p * g.b_row, g.b_row,
                     sums + i * kRun);
    }
  }
  for (; p < depth; ++p) {
    for (int64_t i = 0; i < g.m; ++i) {
      add_rows<T, 1>(n, a + i * g.a_row + p * g.a_col, g.a_col, b + p * g.b_row, g.b_row,
                     sums + i * kRun);
    }
  }
}

template <class T>
void row_products(const Part<T>& g, T* sums) {
  for (int64_t j = 0; j < g.n; j += kRun) {
    const int64_t n = smaller(kRun, g.n - j);
    for (int64_t p0 = 0; p0 < g.k; p0 += kDepth) {
      add_block(g, g.a + p0 * g.a_col, g.b + p0 * g.b_row + j, n, smaller(kDepth, g.k - p0), sums);
      const bool accumulate = g.accumulate || p0 > 0;
      for (int64_t i = 0; i < g.m; ++i) {
        T* c = g.c + i * g.c_row + j;
        const T* sum = sums + i * kRun;
        for (int64_t q = 0; q < n; ++q) c[q] = accumulate ? c[q] + sum[q] : sum[q];
      }
    }
  }
}

// ---- all products of a batch, on all threads
// ------------------------------------------------------

template <class T>
void run_part(const Part<T>& g, T* scratch) {
  if (few_rows(g)) {
    row_products(g, scratch);
  } else if (few(g)) {
    inner_products(g);
  } else {
    product(g, scratch);
  }
}

// How each product is cut: into `rows` x `cols` parts of whole tiles.
struct Cut {
  int64_t rows = 1, cols = 1;
};
template <class T>
Cut cut_for(const Part<T>& g, int64_t parts) {
  Cut cut;
  while (cut.rows * cut.cols < parts) {
    const int64_t height = g.m / cut.rows, width = g.n / cut.cols;
    if (height < 2 * kMaxRows && width < 2 * kTileCols<T>) break;
    if (height >= width || width < 2 * kTileCols<T>) {
      cut.rows *= 2;
    } else {
      cut.cols *= 2;
    }
  }
  return cut;
}

// The part of [0, n) with number i of `parts`, in units of `unit`.
inline int64_t cut_at(int64_t n, int64_t parts, int64_t i, int64_t unit) {
  return smaller(n, ceil_div(n, unit) * i / parts * unit);
}

template <class T>
Part<T> part_of(const Part<T>& g, const Cut& cut, int64_t which) {
  const int64_t r = which / cut.cols, s = which % cut.cols;
  const int64_t i0 = cut_at(g.m, cut.rows, r, 4), i1 = cut_at(g.m, cut.rows, r + 1, 4);
  const int64_t j0 = cut_at(g.n, cut.cols, s, kTileCols<T>);
  const int64_t j1 = cut_at(g.n, cut.cols, s + 1, kTileCols<T>);
  Part<T> out = g;
  out.m = i1 - i0;
  out.n = j1 - j0;
  out.a += i0 * g.a_row;
  out.b += j0 * g.b_col;
  out.c += i0 * g.c_row + j0 * g.c_col;
  return out;
}

// C^T = B^T A^T where that makes rows of C contiguous, or vectors run along the long side.
template <class T>
bool better_turned(const Gemm& g) {
  const bool spread = g.c_col != 1 && g.c_row == 1 && g.m > 1;
  const bool narrow = g.n < kLanes<T> && g.a_row == 1 && g.m > g.n;
  return spread || narrow;
}

template <class T>
void swap(T& x, T& y) {
  const T old = x;
  x = y;
  y = old;
}

template <class T>
Part<T> whole(const Gemm& g, bool turned) {
  Part<T> p{g.m,
            g.n,
            g.k,
            static_cast<const T*>(g.a),
            static_cast<const T*>(g.b),
            static_cast<T*>(g.c),
            g.a_row,
            g.a_col,
            g.b_row,
            g.b_col,
            g.c_row,
            g.c_col,
            g.accumulate};
  if (turned) {
    swap(p.m, p.n);
    swap(p.a, p.b);
    swap(p.a_row, p.b_col);
    swap(p.a_col, p.b_row);
    swap(p.c_row, p.c_col);
  }
  return p;
}

template <class T>
void clear(const Part<T>& g) {
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) g.c[i * g.c_row + j * g.c_col] = T{};
  }
}

// The operands of product number `index` of the batch.
template <class T>
Part<T> at_batch(const Gemm& g, Part<T> p, bool turned, int64_t index) {
  int64_t a = 0, b = 0, c = 0;
  for (int d = g.batch.size() - 1; d >= 0; --d) {
    const int64_t i = index % g.batch[d];
    index /= g.batch[d];
    a += i * g.a_batch[d];
    b += i * g.b_batch[d];
    c += i * g.c_batch[d];
  }
  p.a += turned ? b : a;
  p.b += turned ? a : b;
  p.c += c;
  return p;
}

template <class T>
void run(const Gemm& g) {
  const bool turned = better_turned<T>(g);
  const Part<T> one = whole<T>(g, turned);
  int64_t batch = 1;
  for (int d = 0; d < g.batch.size(); ++d) batch *= g.batch[d];
  if (batch == 0 || g.m == 0 || g.n == 0) return;
  if (g.k == 0) {
    if (g.accumulate) return;
    for (int64_t i = 0; i < batch; ++i) clear(at_batch(g, one, turned, i));
    return;
  }
  if (long_and_few(one)) {
    for (int64_t i = 0; i < batch; ++i) long_inner_products(at_batch(g, one, turned, i));
    return;
  }
  const double work = static_cast<double>(g.m) * static_cast<double>(g.n) *
                      static_cast<double>(g.k) * static_cast<double>(batch);
  const double thread_work = smaller(g.m, g.n) == 1 ? kVectorThreadWork : kThreadWork;
  const bool alone = g.alone || work < 2 * thread_work || omp_in_parallel();
  const int64_t threads =
      alone ? 1 : smaller(num_threads(), static_cast<int64_t>(smaller_of(work / thread_work, 1e6)));
  const Cut cut = batch >= threads ? Cut{} : cut_for(one, ceil_div(threads, batch));
  const int64_t tasks = batch * cut.rows * cut.cols;
  const int64_t need = scratch_size(one);
  const Scratch scratch(static_cast<std::size_t>(threads * need) * sizeof(T));
  const auto work_on = [&](int64_t begin, int64_t end) {
    T* mine = scratch.as<T>() + (threads > 1 ? omp_get_thread_num() * need : 0);
    for (int64_t t = begin; t < end; ++t) {
      const Part<T> p = at_batch(g, one, turned, t / (cut.rows * cut.cols));
      run_part(part_of(p, cut, t % (cut.rows * cut.cols)), mine);
    }
  };
  if (threads <= 1) {
    work_on(0, tasks);
  } else {
    parallel_for(tasks, ceil_div(tasks, threads), work_on);
  }
}

}  // namespace

void gemm_float32(const Gemm& g) { run<float>(g); }
void gemm_float64(const Gemm& g) { run<double>(g); }
// Unsigned: what wraps is defined then, and the bits are the same.
void gemm_int32(const Gemm& g) { run<std::uint32_t>(g); }
void gemm_int64(const Gemm& g) { run<std::uint64_t>(g); }

}  // namespace mge::cpu::MGE_SIMD_NS
