// Attention in tiles: kQueryBlock queries by kKeyBlock keys at a time. The scores of a tile are
// made and used in strips of kStrip queries, which stay in the first cache.
//
// Scores are kept in units of log 2, so that 2^x takes the place of e^x: q is scaled by
// scale / log 2 once. Forward, each block of queries walks over the keys with a running maximum and
// sum (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). Backward, the
// weights of a tile come back from its scores and lse: 2^(s - lse / log 2).
//
// Every block is computed the same way whichever thread does it, and sums run over blocks in rising
// order: results do not depend on the number of threads.
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <new>
#include <utility>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "core/kernels/cpu/copy.h"
#include "core/kernels/cpu/gemm_tile.h"
#include "core/kernels/cpu/lanes.h"
#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/philox_words.h"
#include "core/ops/attention/attention.loops.h"
#include "core/runtime/allocator.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;

constexpr int64_t kQueryBlock = 96;  // a multiple of kMaxRows
constexpr int64_t kKeyBlock = 320;   // a multiple of kBlockWords and of kTileCols
constexpr int64_t kStrip = 12;       // queries whose scores are in the first cache at a time
constexpr double kLog2E = 1.44269504088896340736, kLn2 = 0.69314718055994530942;
constexpr double kThreadWork = 300000;  // multiplications that pay for a thread

constexpr int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
constexpr int64_t up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
template <class C>
constexpr int64_t padded(int64_t n) {
  return up(n, kLanes<C>);
}

// ---- rows of a tile -----------------------------------------------------------------------------

// a > b ? a : b, in one instruction for float.
template <class C>
[[gnu::always_inline]] inline Vec<C> greater(Vec<C> a, Vec<C> b) {
#if defined(__AVX512F__)
  if constexpr (std::is_same_v<C, float>) return _mm512_maskz_max_ps(0xffff, a, b);
#elif defined(__AVX2__)
  if constexpr (std::is_same_v<C, float>) return _mm256_max_ps(a, b);
#endif
  return a > b ? a : b;
}

// 2^x for x < 127 to 2^-25, and 0 below 2^-126.5: for weights, which are at most 1 but for
// rounding. NaN stays.
[[gnu::always_inline]] inline Vec<float> exp2(Vec<float> x) {
#if defined(__AVX512F__)
  const __mmask16 seen = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-126.5f), _CMP_NLT_UQ);
  const Vec<float> whole = _mm512_maskz_roundscale_ps(0xffff, x, _MM_FROUND_TO_NEAREST_INT);
#else
  x = greater<float>(Vec<float>{} - 127.0f, x);
  constexpr float magic = 12582912.0f;  // 1.5 * 2^23
  const Vec<float> shifted = x + magic, whole = shifted - magic;
#endif
  const Vec<float> r = x - whole;
  // [-0.5, 0.5], 2^-25.9
  Vec<float> p = Vec<float>{} + 1.535335905e-04f;
  for (const float c : {1.339887502e-03f, 9.618436918e-03f, 5.550332367e-02f, 2.402264774e-01f,
                        6.931471825e-01f, 1.0f}) {
    p = p * r + c;
  }
#if defined(__AVX512F__)
  return _mm512_maskz_scalef_ps(seen, p, whole);
#else
  typedef std::int32_t Words [[gnu::vector_size(kBytes)]];
  return p * std::bit_cast<Vec<float>>((std::bit_cast<Words>(shifted) << 23) + 0x3f800000);
#endif
}
[[gnu::always_inline]] inline Vec<double> exp2(Vec<double> x) {
  for (int l = 0; l < kLanes<double>; ++l) x[l] = std::exp2(x[l]);
  return x;
}
template <class C>
C exp2(C x) {
  return exp2(Vec<C>{} + x)[0];
}

template <int kBy, class V, std::size_t... l>
[[gnu::always_inline]] inline V rotated(V v, std::index_sequence<l...>) {
  return __builtin_shufflevector(v, v, ((l + kBy) % sizeof...(l))...);
}

// All lanes joined by f, in halves.
template <class C, int kHalf = kLanes<C> / 2, class F>
[[gnu::always_inline]] inline C fold(Vec<C> v, F f) {
  v = f(v, rotated<kHalf>(v, std::make_index_sequence<kLanes<C>>()));
  if constexpr (kHalf > 1) return fold<C, kHalf / 2>(v, f);
  return v[0];
}

// The rows that follow are whole vectors long.

template <class C>
[[gnu::always_inline]] inline C row_max(const C* s, int64_t n, C m) {
  Vec<C> most = Vec<C>{} + m;
  for (int64_t j = 0; j < n; j += kLanes<C>) most = greater<C>(load(s + j), most);
  return fold<C>(most, greater<C>);
}

// s = 2^(s - shift); their sum.
template <class C>
[[gnu::always_inline]] inline C exp_row(C* __restrict s, int64_t n, C shift) {
  Vec<C> sum{};
  for (int64_t j = 0; j < n; j += kLanes<C>) {
    const Vec<C> p = exp2(load(s + j) - shift);
    store(s + j, p);
    sum += p;
  }
  return fold<C>(sum, std::plus<>());
}

template <class C>
C dot_row(const C* a, const C* b, int64_t n) {
  Vec<C> sum{};
  for (int64_t j = 0; j < n; j += kLanes<C>) sum += load(a + j) * load(b + j);
  return fold<C>(sum, std::plus<>());
}

// Their sums are at least 1, or 0 where no key is seen.
template <class C>
double log_of_sum(double sum) {
  return std::is_same_v<C, float> ? lanes::wide_log(sum) : std::log(sum);
}

template <class C>
void scale_row(C* __restrict x, int64_t n, C factor) {
  for (int64_t j = 0; j < n; ++j) x[j] *= factor;
}

// s = the weights 2^(s + shift), g = the gradients of the scores. `keep` holds 0 or 1 / (1 - p) for
// each weight where weights are dropped; s then becomes what was kept.
template <bool dropout, class C>
[[gnu::always_inline]] inline void score_gradient_row(C* __restrict s, C* __restrict g, int64_t n,
                                                      C shift, C delta, const C* __restrict keep) {
  for (int64_t j = 0; j < n; j += kLanes<C>) {
    const Vec<C> p = exp2(load(s + j) + shift), f = dropout ? load(keep + j) : Vec<C>{} + C(1);
    store(g + j, p * (load(g + j) * f - delta));
    store(s + j, p * f);
  }
}

// ---- reading and writing rows of any dtype ------------------------------------------------------

// to = from * factor, side by side.
template <class C>
void scaled_copy(const C* __restrict from, int64_t n, C factor, C* __restrict to) {
  for (int64_t j = 0; j < n; ++j) to[j] = from[j] * factor;
}

template <class T, class C>
void read_row(const T* from, int64_t step, int64_t n, C factor, C* to) {
  if constexpr (std::is_same_v<T, C>) {
    if (step == 1) return scaled_copy(from, n, factor, to);
  } else if (step == 1) {
    convert(from, dtype_of<T>, to, dtype_of<C>, n);
    if (factor != C(1)) scale_row(to, n, factor);
    return;
  }
  using Wide = ComputeType<T>;
  for (int64_t j = 0; j < n; ++j) {
    to[j] = static_cast<C>(static_cast<Wide>(from[j * step])) * factor;
  }
}

// What is read from is scaled too, where that is another dtype than what is written.
template <class T, class C>
void write_row(C* from, int64_t n, C factor, T* to, int64_t step) {
  if constexpr (std::is_same_v<T, C>) {
    if (step == 1) return scaled_copy<C>(from, n, factor, to);
  } else if (step == 1) {
    scale_row(from, n, factor);
    convert(from, dtype_of<C>, to, dtype_of<T>, n);
    return;
  }
  for (int64_t j = 0; j < n; ++j) to[j * step] = T(from[j] * factor);
}

// One head of an operand.
template <class T>
struct HeadOf {
  T* data;
  int64_t row, col;
};
template <class T>
HeadOf<const T> head_of(const AttentionInput& t, int64_t image, int64_t head) {
  return {static_cast<const T*>(t.data) + image * t.image + head * t.head, t.row, t.col};
}
template <class T>
HeadOf<T> head_of(const AttentionOutput& t, int64_t image, int64_t head) {
  return {static_cast<T*>(t.data) + image * t.image + head * t.head, t.row, t.col};
}

// One row in whole vectors, with zeros at the end: where it lies if it is one, or else in `buffer`.
template <class T, class C>
const C* whole_row(const HeadOf<const T>& from, int64_t i, int64_t cols, C* buffer) {
  const T* row = from.data + i * from.row;
  if constexpr (std::is_same_v<T, C>) {
    if (from.col == 1 && cols == padded<C>(cols)) return row;
  }
  read_row(row, from.col, cols, C(1), buffer);
  for (int64_t j = cols; j < padded<C>(cols); ++j) buffer[j] = 0;
  return buffer;
}

// Heads of operands that are wanted soon, the last added first. Products bring a few of their rows
// into the second cache before each of their tiles: all at once would fill the queue of misses, and
// what is wanted now would wait.
class Ahead {
 public:
  void clear() { count_ = 0; }
  template <class Operand>
  void add(const Attention& at, const Operand& t, int64_t head, int64_t rows, int64_t cols) {
    if (t.col != 1 || rows == 0 || head >= at.images * at.heads) return;
    const int64_t first = head / at.heads * t.image + head % at.heads * t.head;
    const int64_t size = size_of(at.dtype);
    list_[count_++] = {static_cast<const char*>(t.data) + first * size, t.row * size, cols * size,
                       rows};
  }
  void fetch() {
    for (int row = 0; row < kRows && count_ > 0; ++row) {
      Rows& from = list_[count_ - 1];
      for (int64_t i = 0; i < from.bytes; i += 64) __builtin_prefetch(from.data + i, 0, 2);
      from.data += from.step;
      if (--from.count == 0) --count_;
    }
  }

 private:
  static constexpr int kRows = 8;
  struct Rows {
    const char* data;
    int64_t step, bytes, count;
  };
  Rows list_[8];
  int count_ = 0;
};

// Rows [begin, end) times `factor`, `width` apart, whose last columns are 0.
template <class T, class C>
void pack_rows(const HeadOf<const T>& from, int64_t begin, int64_t end, int64_t cols, C factor,
               C* to, int64_t width) {
  for (int64_t i = begin; i < end; ++i, to += width) {
    read_row(from.data + i * from.row, from.col, cols, factor, to);
    for (int64_t j = cols; j < width; ++j) to[j] = 0;
  }
}

// Exchanges what is off the diagonal of the 2 x 2 blocks of kHalf x kHalf numbers of two rows.
template <int kHalf, class V, std::size_t... l>
[[gnu::always_inline]] inline void exchange(V& a, V& b, std::index_sequence<l...>) {
  constexpr int n = sizeof...(l);
  const V low = __builtin_shufflevector(a, b, (l & kHalf ? n + l - kHalf : l)...);
  b = __builtin_shufflevector(a, b, (l & kHalf ? n + l : l + kHalf)...);
  a = low;
}

template <class C, int kHalf = 1>
[[gnu::always_inline]] inline void transpose(Vec<C> (&rows)[kLanes<C>]) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<C>; ++i) {
    if (!(i & kHalf)) {
      exchange<kHalf>(rows[i], rows[i + kHalf], std::make_index_sequence<kLanes<C>>());
    }
  }
  if constexpr (2 * kHalf < kLanes<C>) transpose<C, 2 * kHalf>(rows);
}

// to[p * to_step + i] = from[i * from_step + p] * factor for i < kLanes, p < cols; 0 for i >=
// count. Whole vectors are read.
template <class C>
void transpose_rows(const C* from, int64_t from_step, int64_t count, int64_t cols, C factor, C* to,
                    int64_t to_step) {
  for (int64_t p = 0; p < cols; p += kLanes<C>) {
    Vec<C> rows[kLanes<C>];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes<C>; ++i) {
      rows[i] = i < count ? load(from + i * from_step + p) : Vec<C>{};
    }
    transpose<C>(rows);
#pragma GCC unroll 16
    for (int i = 0; i < kLanes<C>; ++i) {
      if (p + i < cols) store(to + (p + i) * to_step, rows[i] * factor);
    }
  }
}

// The transpose times `factor` in panels of kTileCols rows: to[panel][column][row], 0 beyond the
// last row.
template <class T, class C>
void pack_panels(const HeadOf<const T>& from, int64_t rows, int64_t cols, C factor, C* to,
                 C* buffer) {
  constexpr int64_t kWidth = kTileCols<C>;
  for (int64_t i = 0; i < rows; i += kWidth, to += cols * kWidth) {
    const int64_t count = least(kWidth, rows - i);
    const C* source = buffer;
    int64_t step = padded<C>(cols);
    if constexpr (std::is_same_v<T, C>) {
      if (from.col != 1) {
        pack(to, kWidth, from.data + i * from.row, from.row, from.col, static_cast<int>(count),
             cols);
        scale_row(to, cols * kWidth, factor);
        continue;
      }
      if (cols == step) {
        source = from.data + i * from.row;
        step = from.row;
      }
    }
    if (source == buffer) {
      for (int64_t r = 0; r < count; ++r) {
        read_row(from.data + (i + r) * from.row, from.col, cols, C(1), buffer + r * step);
      }
    }
    for (int64_t r = 0; r < kWidth; r += kLanes<C>) {
      transpose_rows(source + r * step, step, count - r, cols, factor, to + r, kWidth);
    }
  }
}

// Rows that were summed up in a buffer.
template <class T, class C>
void write_rows(const HeadOf<C>& from, const C* buffer, int64_t begin, int64_t end, int64_t cols,
                const HeadOf<T>& to) {
  if (from.data != buffer) return;
  for (int64_t i = begin; i < end; ++i) {
    write_row(from.data + i * from.row, cols, C(1), to.data + i * to.row, to.col);
  }
}

template <class C>
constexpr C kHidden = -std::numeric_limits<C>::infinity();

enum class Ends : std::uint8_t { plain, accumulate, hide };

// c[rows, cols] = a[rows, depth] b[depth, cols]. Columns of b come in panels of kTileCols; c and
// b are padded to whole vectors. Ends: c is added to; what is beyond the last column is hidden, for
// which rows of c have one vector more.
template <class C>
void multiply(int64_t rows, int64_t cols, int64_t depth, const C* a, int64_t a_row, int64_t a_col,
              const C* b, int64_t b_row, int64_t b_panel, C* c, int64_t c_row, Ends ends,
              Ahead& ahead) {
  // Tiles of about one height: the first ones have a row more.
  const int64_t count = most(1, (rows + kMaxRows - 1) / kMaxRows);
  const int64_t low = rows / count, taller = rows % count;
  const TileEnds<C> tile_ends{.accumulate = true};
  for (int64_t j = 0; j < cols; j += kTileCols<C>, b += b_panel) {
    const int64_t left = cols - j;
    const int vectors = left > kLanes<C> ? 2 : 1;
    for (int64_t i = 0, height; i < rows; i += height) {
      height = i < taller * (low + 1) ? low + 1 : low;
      ahead.fetch();
      const Tile<C> tile = ends == Ends::accumulate ? tiles<C>[height - 1][vectors - 1]
                           : left <= kLanes<C> / 2  ? plain_tiles<C>.at[height - 1][0]
                                                    : plain_tiles<C>.at[height - 1][vectors];
      tile(depth, a + i * a_row, a_row, a_col, b, b_row, c + i * c_row + j, c_row, tile_ends);
    }
  }
  if (ends == Ends::hide && cols % kLanes<C> != 0) {
    for (int64_t i = 0; i < rows; ++i) store(c + i * c_row + cols, Vec<C>{} + kHidden<C>);
  }
}

// ---- masks --------------------------------------------------------------------------------------

template <class C>
void hide_row(const std::uint8_t* mask, int64_t step, int64_t n, C* __restrict s) {
  if (step == 1) {
    for (int64_t j = 0; j < n; ++j) s[j] = mask[j] ? kHidden<C> : s[j];
  } else {
    for (int64_t j = 0; j < n; ++j) s[j] = mask[j * step] ? kHidden<C> : s[j];
  }
}

template <class C>
void add_row(const C* __restrict mask, int64_t n, C* __restrict s) {
  for (int64_t j = 0; j < n; ++j) s[j] += mask[j] * C(kLog2E);
}

// The keys [j0, j0 + n) of a mask for one query; `buffer` holds n numbers.
template <class C>
void mask_row(const AttentionMask& m, int64_t offset, int64_t n, C* s, C* buffer) {
  if (m.dtype == DType::boolean) {
    hide_row(static_cast<const std::uint8_t*>(m.data) + offset, m.col, n, s);
    return;
  }
  if (m.dtype == dtype_of<C> && m.col == 1) {
    return add_row(static_cast<const C*>(m.data) + offset, n, s);
  }
  visit_float("ScaledDotProductAttention", m.dtype, [&]<class T>(Tag<T>) {
    read_row(static_cast<const T*>(m.data) + offset, m.col, n, C(1), buffer);
  });
  add_row(buffer, n, s);
}

// The range of a tile of scores, and whose they are.
struct TileRange {
  int64_t image, head;
  int64_t i0, rows, j0, cols;
};

template <class C>
void mask_tile(const Attention& at, const TileRange& r, C* s, int64_t width, C* buffer) {
  const bool diagonal = at.causal && r.j0 + r.cols - 1 > r.i0;
  if (!diagonal && at.mask_count == 0) return;
  for (int64_t i = 0; i < r.rows; ++i, s += width) {
    if (diagonal) {
      for (int64_t j = most(0, r.i0 + i + 1 - r.j0); j < r.cols; ++j) s[j] = kHidden<C>;
    }
    for (int m = 0; m < at.mask_count; ++m) {
      const AttentionMask& mask = at.masks[m];
      const int64_t offset =
          r.image * mask.image + r.head * mask.head + (r.i0 + i) * mask.row + r.j0 * mask.col;
      mask_row(mask, offset, r.cols, s, buffer);
    }
  }
}

// ---- dropout ------------------------------------------------------------------------------------

// Calls f(j, n, words) over a row of weights, where words are the random ones of [j, j + n).
template <class F>
void each_word_block(RandomStream stream, int64_t row, int64_t keys, int64_t j0, int64_t cols,
                     F&& f) {
  std::uint32_t words[kBlockWords];
  const int64_t blocks = (keys + kBlockWords - 1) / kBlockWords;
  for (int64_t j = 0; j < cols; j += kBlockWords) {
    philox_words(stream, row * blocks + (j0 + j) / kBlockWords, words);
    f(j, least(kBlockWords, cols - j), words);
  }
}

// Words below are dropped.
std::uint32_t drop_limit(double drop_prob) {
  return static_cast<std::uint32_t>(std::fmin(std::nearbyint(drop_prob * 0x1p32), 4294967295.0));
}

// 0 or 1 / (1 - p), for the keys [j0, j0 + cols) of one row of weights.
template <class C>
void keep_row(const Attention& at, int64_t row, int64_t j0, int64_t cols, C* keep) {
  const std::uint32_t limit = drop_limit(at.drop_prob);
  const C kept = C(1 / (1 - at.drop_prob));
  each_word_block(at.stream, row, at.keys, j0, cols,
                  [&](int64_t j, int64_t n, const std::uint32_t* words) {
                    for (int64_t l = 0; l < n; ++l) keep[j + l] = words[l] >= limit ? kept : C(0);
                  });
}

// ---- how the work is cut ------------------------------------------------------------------------

// Calls f(begin, rows) over strips of at most kStrip rows, of about one size.
template <class F>
void each_strip(int64_t rows, F&& f) {
  const int64_t count = (rows + kStrip - 1) / kStrip;
  for (int64_t t = 0; t < count; ++t) {
    const int64_t begin = rows * t / count;
    f(begin, rows * (t + 1) / count - begin);
  }
}

// From one row of scores to the next: a vector more than the keys, and an odd number of lines, so
// that rows do not evict one another.
template <class C>
int64_t score_step(const Attention& at) {
  constexpr int64_t line = 64 / sizeof(C);
  return ((least(at.keys, kKeyBlock) + kLanes<C> + line - 1) / line | 1) * line;
}

// Blocks of queries, of about one size: whole groups of kMaxRows, but for the last.
struct QueryBlocks {
  int64_t queries, size;
  QueryBlocks(int64_t n, int64_t largest) : queries(n) {
    const int64_t blocks = most(1, (n + largest - 1) / largest);
    size = most(kMaxRows, up((n + blocks - 1) / blocks, kMaxRows));
  }
  int64_t count() const { return (queries + size - 1) / size; }
  int64_t begin(int64_t b) const { return b * size; }
  int64_t rows(int64_t b) const { return least(size, queries - b * size); }
};

// How many keys the queries before `end` see.
int64_t visible(const Attention& at, int64_t end) {
  return at.causal ? least(at.keys, end) : at.keys;
}

// Calls f(begin, end, thread) over ranges of `units`, where each unit is about `work`
// multiplications.
template <class F>
void each_share(int64_t units, double work, int threads, F&& f) {
  const double grain = kThreadWork / (work > 1 ? work : 1);
  const int64_t step = most(1, grain < 1e15 ? static_cast<int64_t>(grain) : int64_t{1} << 50);
  if (threads <= 1 || step >= units) {
    f(int64_t{0}, units, 0);
    return;
  }
  parallel_for(units, step,
               [&](int64_t begin, int64_t end) { f(begin, end, omp_get_thread_num()); });
}

// Threads that may run, and so need memory of their own.
int team() { return omp_in_parallel() ? 1 : num_threads(); }

// Runs work(head, block, thread) for all heads and blocks; cost(block) units of work each, which
// are shared out evenly.
template <class Cost, class Work>
void each_block(int64_t heads, int64_t blocks, double unit_work, Cost&& cost, Work&& work) {
  int64_t per_head = 0;
  for (int64_t b = 0; b < blocks; ++b) per_head += cost(b);
  if (per_head == 0) return;
  each_share(heads * per_head, unit_work, team(), [&](int64_t begin, int64_t end, int thread) {
    for (int64_t h = begin / per_head; h < heads && h * per_head < end; ++h) {
      int64_t at = h * per_head;
      for (int64_t b = 0; b < blocks; at += cost(b), ++b) {
        if (at >= begin && at < end && cost(b) > 0) work(h, b, thread);
      }
    }
  });
}

// What a thread works with: a struct at the beginning of its share of one piece of memory, and its
// arrays behind that.
constexpr int64_t kOverhead = 512;

template <class C>
struct Taker {
  C* next;
  C* operator()(int64_t n) {
    C* const here = next;
    next += n;
    return here;
  }
};

template <class Buffers>
class Team {
 public:
  explicit Team(const Attention& at)
      : threads_(team()),
        share_(Buffers::bytes(at)),
        memory_(static_cast<std::size_t>(share_ * threads_)) {
    static_assert(sizeof(Buffers) <= kOverhead);
    for (int t = 0; t < threads_; ++t) Buffers::make(at, memory_.template as<char>() + t * share_);
  }
  int size() const { return threads_; }
  Buffers& operator[](int thread) const {
    return *std::launder(reinterpret_cast<Buffers*>(memory_.template as<char>() + thread * share_));
  }

 private:
  int threads_;
  int64_t share_;
  Scratch memory_;
};

// ---- forward ------------------------------------------------------------------------------------

template <class C>
struct ForwardBuffers {
  int64_t head = -1;  // whose keys and values are packed
  Ahead ahead;
  C *keys, *values;
  C *q, *scores, *row;  // of a strip
  C *out, *maximum;     // of a block of queries
  double* sum;          // of the weights of each query of the block

  static int64_t rows_buffer(const Attention& at) {
    return most(kKeyBlock, kTileCols<C> * padded<C>(most(at.depth, at.width)));
  }
  static int64_t bytes(const Attention& at) {
    const int64_t width = padded<C>(at.width);
    const int64_t numbers = up(at.keys, kTileCols<C>) * at.depth + at.keys * width +
                            kQueryBlock * (width + 1) + kStrip * (at.depth + score_step<C>(at)) +
                            rows_buffer(at) + kTileCols<C>;
    return kOverhead + kQueryBlock * static_cast<int64_t>(sizeof(double)) +
           up(numbers * static_cast<int64_t>(sizeof(C)), 64);
  }
  static ForwardBuffers* make(const Attention& at, char* memory) {
    auto* b = new (memory) ForwardBuffers;
    b->sum = reinterpret_cast<double*>(memory + kOverhead);
    Taker<C> take{reinterpret_cast<C*>(b->sum + kQueryBlock)};
    b->keys = take(up(at.keys, kTileCols<C>) * at.depth);
    b->values = take(at.keys * padded<C>(at.width));
    b->scores = take(kStrip * score_step<C>(at));
    b->out = take(kQueryBlock * padded<C>(at.width));
    b->maximum = take(kQueryBlock);
    b->q = take(kStrip * at.depth);
    b->row = take(rows_buffer(at));
    return b;
  }
};

// The weights of a strip in place of its scores, and what was summed up before brought to the new
// maximum. All maxima come first, so that no row waits for its own.
template <class C>
void online_softmax(const Attention& at, const TileRange& r, C* out, C* maximum, double* sum,
                    ForwardBuffers<C>& b) {
  const int64_t width = padded<C>(at.width), cols = padded<C>(r.cols), step = score_step<C>(at);
  C shift[kStrip];
  for (int64_t i = 0; i < r.rows; ++i) {
    const C before = maximum[i], m = row_max(b.scores + i * step, cols, before);
    maximum[i] = m;
    shift[i] = m == kHidden<C> ? C(0) : m;
    if (r.j0 > 0 && m != before) {
      const C factor = exp2(before - m);
      sum[i] *= static_cast<double>(factor);
      scale_row(out + i * width, width, factor);
    }
  }
  for (int64_t i = 0; i < r.rows; ++i) {
    sum[i] += static_cast<double>(exp_row(b.scores + i * step, cols, shift[i]));
  }
  if (at.drop_prob > 0) {
    for (int64_t i = 0; i < r.rows; ++i) {
      C* s = b.scores + i * step;
      keep_row(at, (r.image * at.heads + r.head) * at.queries + r.i0 + i, r.j0, r.cols, b.row);
      for (int64_t j = 0; j < r.cols; ++j) s[j] *= b.row[j];
    }
  }
}

// The results of a strip and the logarithms of the sums of its weights.
template <class T, class C>
void write_strip(const Attention& at, int64_t head, int64_t i0, int64_t rows, C* out,
                 const C* maximum, const double* sum, const AttentionOutput& y, C* lse) {
  const HeadOf<T> to = head_of<T>(y, head / at.heads, head % at.heads);
  for (int64_t i = 0; i < rows; ++i) {
    const C factor = sum[i] == 0 ? C(0) : static_cast<C>(1 / sum[i]);
    write_row(out + i * padded<C>(at.width), at.width, factor, to.data + (i0 + i) * to.row, to.col);
  }
  for (int64_t i = 0; i < rows; ++i) {
    lse[head * at.queries + i0 + i] =
        static_cast<C>(static_cast<double>(maximum[i]) * kLn2 + log_of_sum<C>(sum[i]));
  }
}

template <class T, class C>
void forward_block(const Attention& at, int64_t head, int64_t i0, int64_t rows,
                   ForwardBuffers<C>& b, const AttentionOutput& y, C* lse) {
  const int64_t image = head / at.heads, h = head % at.heads;
  const int64_t width = padded<C>(at.width), step = score_step<C>(at);
  const int64_t keys = visible(at, i0 + rows);
  for (int64_t i = 0; i < rows; ++i) {
    b.maximum[i] = kHidden<C>;
    b.sum[i] = 0;
  }
  for (int64_t j0 = 0; j0 == 0 || j0 < keys; j0 += kKeyBlock) {
    each_strip(rows, [&](int64_t i, int64_t n) {
      const int64_t seen = visible(at, i0 + i + n);
      if (j0 > 0 && j0 >= seen) return;
      const TileRange r{image, h, i0 + i, n, j0, least(kKeyBlock, seen - j0)};
      C* out = b.out + i * width;
      pack_rows(head_of<T>(at.q, image, h), r.i0, r.i0 + n, at.depth, C(at.scale * kLog2E), b.q,
                at.depth);
      multiply<C>(n, r.cols, at.depth, b.q, at.depth, 1, b.keys + j0 * at.depth, kTileCols<C>,
                  at.depth * kTileCols<C>, b.scores, step, Ends::hide, b.ahead);
      mask_tile(at, r, b.scores, step, b.row);
      online_softmax(at, r, out, b.maximum + i, b.sum + i, b);
      multiply<C>(n, width, r.cols, b.scores, step, 1, b.values + j0 * width, width, kTileCols<C>,
                  out, width, j0 > 0 ? Ends::accumulate : Ends::plain, b.ahead);
      if (j0 + kKeyBlock >= seen) {
        write_strip<T>(at, head, r.i0, n, out, b.maximum + i, b.sum + i, y, lse);
      }
    });
  }
}

template <class T>
void forward(const Attention& at, const AttentionOutput& y, ComputeType<T>* lse) {
  using C = ComputeType<T>;
  const QueryBlocks blocks(at.queries, kQueryBlock);
  const int64_t heads = at.images * at.heads;
  const Team<ForwardBuffers<C>> buffers(at);
  const auto cost = [&](int64_t b) {
    return 1 + visible(at, blocks.begin(b) + blocks.rows(b)) / kKeyBlock;
  };
  const double tile_work = static_cast<double>(blocks.size * least(at.keys, kKeyBlock)) *
                           static_cast<double>(at.depth + at.width);
  each_block(heads, blocks.count(), tile_work, cost, [&](int64_t head, int64_t block, int thread) {
    ForwardBuffers<C>& b = buffers[thread];
    if (b.head != head) {
      b.head = head;
      const int64_t image = head / at.heads, h = head % at.heads;
      pack_panels(head_of<T>(at.k, image, h), at.keys, at.depth, C(1), b.keys, b.row);
      pack_rows(head_of<T>(at.v, image, h), 0, at.keys, at.width, C(1), b.values,
                padded<C>(at.width));
    }
    if (block == 0) {
      // What is read for the next head and written for this one.
      b.ahead.clear();
      b.ahead.add(at, at.q, head + 1, at.queries, at.depth);
      b.ahead.add(at, at.v, head + 1, at.keys, at.width);
      b.ahead.add(at, at.k, head + 1, at.keys, at.depth);
      b.ahead.add(at, y, head, at.queries, at.width);
    }
    forward_block<T, C>(at, head, blocks.begin(block), blocks.rows(block), b, y, lse);
  });
}

// ---- backward -----------------------------------------------------------------------------------

struct BackwardOperands {
  AttentionInput dy, y;
  const void* lse;
  AttentionOutput dq, dk, dv;
};

// Gradients of keys are summed over a block at a time: the fewer blocks, the less is read again.
// But a tile on the diagonal of a causal mask is computed as a whole, and should be small.
int64_t largest_backward_block(const Attention& at) {
  if (at.causal) return kQueryBlock;
  return most(kMaxRows, least(2 * kQueryBlock + kMaxRows, up(at.queries, kMaxRows)));
}

// Memory of one thread: a head, packed, and its gradients.
template <class C>
struct BackwardBuffers {
  int64_t head = -1;
  Ahead ahead;
  C *keys, *values;  // panels
  C *k, *q, *dy;     // rows
  C *dq_buffer, *dk_buffer, *dv_buffer;
  HeadOf<C> dq, dk, dv;
  C *shift, *delta;             // -lse in units of log 2, and sum(dy * y), of each query
  C *scores, *gradients, *row;  // of a tile

  static int64_t rows_buffer(const Attention& at) {
    return most(kKeyBlock, kTileCols<C> * padded<C>(most(at.depth, at.width)));
  }
  static int64_t bytes(const Attention& at) {
    const int64_t depth = padded<C>(at.depth), width = padded<C>(at.width);
    const int64_t numbers = up(at.keys, kTileCols<C>) * (at.depth + at.width) +
                            at.keys * (2 * depth + width) + at.queries * (2 * depth + width + 2) +
                            2 * largest_backward_block(at) * score_step<C>(at) + rows_buffer(at) +
                            kTileCols<C>;
    return kOverhead + up(numbers * static_cast<int64_t>(sizeof(C)), 64);
  }
  static BackwardBuffers* make(const Attention& at, char* memory) {
    const int64_t depth = padded<C>(at.depth), width = padded<C>(at.width);
    auto* b = new (memory) BackwardBuffers;
    Taker<C> take{reinterpret_cast<C*>(memory + kOverhead)};
    b->keys = take(up(at.keys, kTileCols<C>) * at.depth);
    b->values = take(up(at.keys, kTileCols<C>) * at.width);
    b->k = take(at.keys * depth);
    b->dk_buffer = take(at.keys * depth);
    b->dv_buffer = take(at.keys * width);
    b->q = take(at.queries * depth);
    b->dq_buffer = take(at.queries * depth);
    b->dy = take(at.queries * width);
    b->scores = take(largest_backward_block(at) * score_step<C>(at));
    b->gradients = take(largest_backward_block(at) * score_step<C>(at));
    b->shift = take(at.queries);
    b->delta = take(at.queries);
    b->row = take(rows_buffer(at));
    return b;
  }
};

// Where a gradient is summed up: where it belongs, if whole vectors can be written there.
template <class T, class C>
HeadOf<C> gradient_rows(const HeadOf<T>& to, int64_t cols, C* buffer) {
  if constexpr (std::is_same_v<T, C>) {
    if (to.col == 1 && cols == padded<C>(cols)) return to;
  }
  return {buffer, padded<C>(cols), 1};
}

template <class T, class C>
void pack_head(const Attention& at, const BackwardOperands& o, int64_t head,
               BackwardBuffers<C>& b) {
  b.head = head;
  const int64_t image = head / at.heads, h = head % at.heads;
  const int64_t depth = padded<C>(at.depth), width = padded<C>(at.width);
  // What is multiplied with the panels comes out as it is needed: scores in units of log 2, and
  // gradients of scores with the scale that the gradients of queries and keys want.
  const C scale = C(at.scale);
  pack_panels(head_of<T>(at.k, image, h), at.keys, at.depth, C(at.scale * kLog2E), b.keys, b.row);
  pack_panels(head_of<T>(at.v, image, h), at.keys, at.width, scale, b.values, b.row);
  pack_rows(head_of<T>(at.k, image, h), 0, at.keys, at.depth, C(1), b.k, depth);
  pack_rows(head_of<T>(at.q, image, h), 0, at.queries, at.depth, C(1), b.q, depth);
  pack_rows(head_of<T>(o.dy, image, h), 0, at.queries, at.width, C(1), b.dy, width);
  const HeadOf<const T> y = head_of<T>(o.y, image, h);
  const C* lse = static_cast<const C*>(o.lse) + head * at.queries;
  for (int64_t i = 0; i < at.queries; ++i) {
    b.delta[i] = scale * dot_row(whole_row(y, i, at.width, b.row), b.dy + i * width, width);
    b.shift[i] = lse[i] == kHidden<C> ? kHidden<C> : static_cast<C>(-lse[i] * kLog2E);
  }
  b.dq = gradient_rows(head_of<T>(o.dq, image, h), at.depth, b.dq_buffer);
  b.dk = gradient_rows(head_of<T>(o.dk, image, h), at.depth, b.dk_buffer);
  b.dv = gradient_rows(head_of<T>(o.dv, image, h), at.width, b.dv_buffer);
}

struct Wanted {
  bool queries, keys;
};

// The weights of a strip of a tile and the gradients of its scores, which are written at s and g.
template <class C>
void strip_gradients(const Attention& at, const TileRange& r, BackwardBuffers<C>& b, C* s, C* g) {
  const int64_t depth = padded<C>(at.depth), width = padded<C>(at.width), step = score_step<C>(at);
  multiply<C>(r.rows, r.cols, at.depth, b.q + r.i0 * depth, depth, 1, b.keys + r.j0 * at.depth,
              kTileCols<C>, at.depth * kTileCols<C>, s, step, Ends::plain, b.ahead);
  mask_tile(at, r, s, step, b.row);
  multiply<C>(r.rows, r.cols, at.width, b.dy + r.i0 * width, width, 1, b.values + r.j0 * at.width,
              kTileCols<C>, at.width * kTileCols<C>, g, step, Ends::plain, b.ahead);
  // Whole vectors: what is beyond the last key is read by nobody.
  const int64_t cols = padded<C>(r.cols);
  const C *shift = b.shift + r.i0, *delta = b.delta + r.i0;
  for (int64_t i = 0; i < r.rows; ++i, s += step, g += step) {
    if (at.drop_prob > 0) {
      keep_row(at, (r.image * at.heads + r.head) * at.queries + r.i0 + i, r.j0, r.cols, b.row);
      score_gradient_row<true>(s, g, cols, shift[i], delta[i], b.row);
    } else {
      score_gradient_row<false, C>(s, g, cols, shift[i], delta[i], nullptr);
    }
  }
}

// One tile: its weights and gradients, and what they add to the gradients of queries and keys.
template <class C>
void backward_tile(const Attention& at, const TileRange& r, Wanted wanted, BackwardBuffers<C>& b) {
  const int64_t depth = padded<C>(at.depth), width = padded<C>(at.width), step = score_step<C>(at);
  const int64_t i0 = r.i0, j0 = r.j0;
  each_strip(r.rows, [&](int64_t i, int64_t n) {
    C *s = b.scores + i * step, *g = b.gradients + i * step;
    const int64_t cols = most(0, least(r.cols, visible(at, i0 + i + n) - j0));
    strip_gradients(at, {r.image, r.head, i0 + i, n, j0, cols}, b, s, g);
    for (int64_t row = 0; row < n; ++row) {
      for (int64_t j = cols; j < r.cols; ++j) s[row * step + j] = g[row * step + j] = 0;
    }
    if (wanted.queries) {
      multiply<C>(n, depth, cols, g, step, 1, b.k + j0 * depth, depth, kTileCols<C>,
                  b.dq.data + (i0 + i) * b.dq.row, b.dq.row,
                  j0 > 0 ? Ends::accumulate : Ends::plain, b.ahead);
    }
  });
  if (wanted.keys) {
    const Ends ends = i0 > 0 || at.causal ? Ends::accumulate : Ends::plain;
    multiply<C>(r.cols, width, r.rows, b.scores, 1, step, b.dy + i0 * width, width, kTileCols<C>,
                b.dv.data + j0 * b.dv.row, b.dv.row, ends, b.ahead);
    multiply<C>(r.cols, depth, r.rows, b.gradients, 1, step, b.q + i0 * depth, depth, kTileCols<C>,
                b.dk.data + j0 * b.dk.row, b.dk.row, ends, b.ahead);
  }
}

// The tiles of queries [i0, i0 + rows) and keys [begin, end).
template <class C>
void backward_strip(const Attention& at, int64_t head, int64_t i0, int64_t rows, int64_t begin,
                    int64_t end, Wanted wanted, BackwardBuffers<C>& b) {
  const int64_t keys = least(end, visible(at, i0 + rows));
  for (int64_t j0 = begin; j0 < keys; j0 += kKeyBlock) {
    const TileRange r{head / at.heads, head % at.heads, i0, rows, j0, least(kKeyBlock, keys - j0)};
    backward_tile(at, r, wanted, b);
  }
}

template <class T>
struct Backward {
  using C = ComputeType<T>;
  const Attention& at;
  const BackwardOperands& o;
  QueryBlocks blocks;
  const Team<BackwardBuffers<C>>& buffers;

  BackwardBuffers<C>& open(int64_t head, int thread) const {
    BackwardBuffers<C>& b = buffers[thread];
    if (b.head != head) pack_head<T, C>(at, o, head, b);
    return b;
  }
  // The first tile of a row of gradients writes, those that follow add. Rows that no tile comes to
  // are 0, and all rows of keys where queries see some of them.
  void clear(const HeadOf<C>& to, int64_t begin, int64_t end, int64_t cols) const {
    for (int64_t i = begin; i < end; ++i) {
      std::memset(to.data + i * to.row, 0, static_cast<std::size_t>(padded<C>(cols)) * sizeof(C));
    }
  }
  void begin_queries(int64_t begin, int64_t end, BackwardBuffers<C>& b) const {
    if (at.keys == 0) clear(b.dq, begin, end, at.depth);
  }
  void begin_keys(int64_t begin, int64_t end, BackwardBuffers<C>& b) const {
    if (!at.causal && at.queries > 0) return;
    clear(b.dk, begin, end, at.depth);
    clear(b.dv, begin, end, at.width);
  }
  void end_queries(int64_t head, int64_t begin, int64_t end, BackwardBuffers<C>& b) const {
    write_rows(b.dq, b.dq_buffer, begin, end, at.depth,
               head_of<T>(o.dq, head / at.heads, head % at.heads));
  }
  void end_keys(int64_t head, int64_t begin, int64_t end, BackwardBuffers<C>& b) const {
    write_rows(b.dk, b.dk_buffer, begin, end, at.depth,
               head_of<T>(o.dk, head / at.heads, head % at.heads));
    write_rows(b.dv, b.dv_buffer, begin, end, at.width,
               head_of<T>(o.dv, head / at.heads, head % at.heads));
  }

  // What is read for the next head and written for this one.
  void fetch_ahead(int64_t head, Ahead& ahead) const {
    ahead.clear();
    ahead.add(at, o.y, head + 1, at.queries, at.width);
    ahead.add(at, o.dy, head + 1, at.queries, at.width);
    ahead.add(at, at.q, head + 1, at.queries, at.depth);
    ahead.add(at, at.v, head + 1, at.keys, at.width);
    ahead.add(at, at.k, head + 1, at.keys, at.depth);
    ahead.add(at, o.dv, head, at.keys, at.width);
    ahead.add(at, o.dk, head, at.keys, at.depth);
    ahead.add(at, o.dq, head, at.queries, at.depth);
  }

  double tile_work(double products) const {
    return products * static_cast<double>(blocks.size * least(at.keys, kKeyBlock)) *
           static_cast<double>(at.depth + at.width) / 2;
  }

  // Each head on one thread.
  void by_head() const {
    const auto cost = [&](int64_t) { return int64_t{1}; };
    const double tiles = static_cast<double>(blocks.count() * (at.keys / kKeyBlock + 1));
    each_block(at.images * at.heads, 1, tile_work(5) * tiles, cost,
               [&](int64_t head, int64_t, int thread) {
                 BackwardBuffers<C>& b = open(head, thread);
                 fetch_ahead(head, b.ahead);
                 begin_queries(0, at.queries, b);
                 begin_keys(0, at.keys, b);
                 for (int64_t q = 0; q < blocks.count(); ++q) {
                   backward_strip(at, head, blocks.begin(q), blocks.rows(q), 0, at.keys,
                                  {true, true}, b);
                 }
                 end_queries(head, 0, at.queries, b);
                 end_keys(head, 0, at.keys, b);
               });
  }

  // Heads cut by queries, then by keys: the tiles are computed twice.
  void by_part() const {
    const int64_t heads = at.images * at.heads;
    const auto query_cost = [&](int64_t b) {
      return 1 + visible(at, blocks.begin(b) + blocks.rows(b)) / kKeyBlock;
    };
    each_block(heads, blocks.count(), tile_work(3), query_cost,
               [&](int64_t head, int64_t q, int thread) {
                 BackwardBuffers<C>& b = open(head, thread);
                 const int64_t i0 = blocks.begin(q), rows = blocks.rows(q);
                 begin_queries(i0, i0 + rows, b);
                 backward_strip(at, head, i0, rows, 0, at.keys, {true, false}, b);
                 end_queries(head, i0, i0 + rows, b);
               });
    const int64_t key_blocks = (at.keys + kKeyBlock - 1) / kKeyBlock;
    const auto key_cost = [&](int64_t b) {
      return at.causal ? most(1, blocks.count() - b * kKeyBlock / blocks.size) : int64_t{1};
    };
    each_block(
        heads, key_blocks, tile_work(4), key_cost, [&](int64_t head, int64_t block, int thread) {
          BackwardBuffers<C>& b = open(head, thread);
          const int64_t j0 = block * kKeyBlock, j1 = least(at.keys, j0 + kKeyBlock);
          begin_keys(j0, j1, b);
          for (int64_t q = 0; q < blocks.count(); ++q) {
            backward_strip(at, head, blocks.begin(q), blocks.rows(q), j0, j1, {false, true}, b);
          }
          end_keys(head, j0, j1, b);
        });
  }
};

template <class T>
void backward(const Attention& at, const BackwardOperands& o) {
  using C = ComputeType<T>;
  const int64_t heads = at.images * at.heads;
  const Team<BackwardBuffers<C>> buffers(at);
  const int threads = buffers.size();
  const Backward<T> run{at, o, QueryBlocks(at.queries, largest_backward_block(at)), buffers};
  // Where the threads' shares of whole heads differ much, parts of heads are shared out, although
  // that takes 7 products instead of 5.
  const int64_t rounds = (heads + threads - 1) / threads;
  if (rounds * threads * 5 <= heads * 7) {
    run.by_head();
  } else {
    run.by_part();
  }
}

}  // namespace

void attention_forward(const Attention& at, const AttentionOutput& y, void* lse) {
  if (at.images * at.heads * at.queries == 0) return;
  visit_float("ScaledDotProductAttention", at.dtype,
              [&]<class T>(Tag<T>) { forward<T>(at, y, static_cast<ComputeType<T>*>(lse)); });
}

void attention_backward(const Attention& at, const AttentionInput& dy, const AttentionInput& y,
                        const void* lse, const AttentionOutput& dq, const AttentionOutput& dk,
                        const AttentionOutput& dv) {
  if (at.images * at.heads == 0) return;
  const BackwardOperands o{dy, y, lse, dq, dk, dv};
  visit_float("ScaledDotProductAttentionBackward", at.dtype,
              [&]<class T>(Tag<T>) { backward<T>(at, o); });
}

void attention_dropout_mask(RandomStream stream, double drop_prob, int64_t rows, int64_t keys,
                            bool* keep) {
  const std::uint32_t limit = drop_limit(drop_prob);
  parallel_for(rows, 1 + 4096 / keys, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      each_word_block(stream, i, keys, 0, keys,
                      [&](int64_t j, int64_t n, const std::uint32_t* words) {
                        bool* to = keep + i * keys + j;
                        for (int64_t l = 0; l < n; ++l) to[l] = words[l] >= limit;
                      });
    }
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
