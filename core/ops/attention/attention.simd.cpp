// Attention in tiles: kQueryBlock queries by kKeyBlock keys of the scores are in memory at a time.
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
#include <limits>
#include <new>

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
constexpr int64_t kKeyBlock = 256;   // a multiple of kBlockWords and of kTileCols
constexpr int64_t kRowPad = 16;      // keeps rows of a tile from evicting one another
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

// 2^x for x < 127 to 2^-25, and 0 below 2^-126.5: for weights, which are at most 1 but for
// rounding. NaN stays; the bound is written as the hardware's maximum takes it.
[[gnu::always_inline]] inline float exp2(float x) {
  x = -127.0f > x ? -127.0f : x;
  constexpr float magic = 12582912.0f;  // 1.5 * 2^23
  const float shifted = x + magic;
  const float r = x - (shifted - magic);
  // [-0.5, 0.5], 2^-25.9
  const float p = lanes::poly(r, 1.0f, 6.931471825e-01f, 2.402264774e-01f, 5.550332367e-02f,
                              9.618436918e-03f, 1.339887502e-03f, 1.535335905e-04f);
  return p * std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) << 23) + 0x3f800000u);
}
[[gnu::always_inline]] inline double exp2(double x) { return std::exp2(x); }

template <class C>
C row_max(const C* __restrict s, int64_t n, C m) {
#pragma omp simd reduction(max : m)
  for (int64_t j = 0; j < n; ++j) m = s[j] > m ? s[j] : m;
  return m;
}

// s = 2^(s - shift); their sum.
template <class C>
C exp_row(C* __restrict s, int64_t n, C shift) {
  C sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < n; ++j) {
    s[j] = exp2(s[j] - shift);
    sum += s[j];
  }
  return sum;
}

template <class C>
void scale_row(C* __restrict x, int64_t n, C factor) {
  for (int64_t j = 0; j < n; ++j) x[j] *= factor;
}

// s = the weights 2^(s + shift), g = the gradients of the scores. `keep` holds 0 or 1 / (1 - p) for
// each weight where weights are dropped; s then becomes what was kept.
template <bool dropout, class C>
void score_gradient_row(C* __restrict s, C* __restrict g, int64_t n, C shift, C delta,
                        const C* __restrict keep) {
  for (int64_t j = 0; j < n; ++j) {
    const C p = exp2(s[j] + shift), f = dropout ? keep[j] : C(1);
    g[j] = p * (g[j] * f - delta);
    s[j] = p * f;
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

// Rows [begin, end) times `factor`, `width` apart, whose last columns are 0.
template <class T, class C>
void pack_rows(const HeadOf<const T>& from, int64_t begin, int64_t end, int64_t cols, C factor,
               C* to, int64_t width) {
  for (int64_t i = begin; i < end; ++i, to += width) {
    read_row(from.data + i * from.row, from.col, cols, factor, to);
    for (int64_t j = cols; j < width; ++j) to[j] = 0;
  }
}

// The transpose in panels of kTileCols rows: to[panel][column][row], 0 beyond the last row.
template <class T, class C>
void pack_panels(const HeadOf<const T>& from, int64_t rows, int64_t cols, C* to, C* buffer) {
  constexpr int64_t kWidth = kTileCols<C>;
  for (int64_t i = 0; i < rows; i += kWidth, to += cols * kWidth) {
    const int count = static_cast<int>(least(kWidth, rows - i));
    if constexpr (std::is_same_v<T, C>) {
      pack(to, kWidth, from.data + i * from.row, from.row, from.col, count, cols);
    } else {
      for (int r = 0; r < count; ++r) {
        read_row(from.data + (i + r) * from.row, from.col, cols, C(1), buffer + r * cols);
      }
      pack(to, kWidth, static_cast<const C*>(buffer), cols, int64_t{1}, count, cols);
    }
  }
}

template <class T, class C>
void write_rows(C* from, int64_t width, int64_t begin, int64_t end, int64_t cols, C factor,
                const HeadOf<T>& to) {
  for (int64_t i = begin; i < end; ++i) {
    write_row(from + i * width, cols, factor, to.data + i * to.row, to.col);
  }
}

// c[rows, cols] (+)= a[rows, depth] b[depth, cols]. Columns of b come in panels of kTileCols; c and
// b are padded to whole vectors.
template <class C>
void multiply(int64_t rows, int64_t cols, int64_t depth, const C* a, int64_t a_row, int64_t a_col,
              const C* b, int64_t b_row, int64_t b_panel, C* c, int64_t c_row, bool accumulate) {
  const int64_t count = (rows + kMaxRows - 1) / kMaxRows;
  for (int64_t j = 0; j < cols; j += kTileCols<C>, b += b_panel) {
    const int vectors = cols - j > kLanes<C> ? 2 : 1;
    for (int64_t t = 0; t < count; ++t) {
      const int64_t i = rows * t / count, height = rows * (t + 1) / count - i;
      tiles<C>[height - 1][vectors - 1](depth, a + i* a_row, a_row, a_col, b, b_row,
                                        c + i* c_row + j, c_row, {.accumulate = accumulate});
    }
  }
}

// ---- masks --------------------------------------------------------------------------------------

template <class C>
constexpr C kHidden = -std::numeric_limits<C>::infinity();

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

// Blocks of queries, of about one size: whole groups of kMaxRows, but for the last.
struct QueryBlocks {
  int64_t queries, size;
  explicit QueryBlocks(int64_t n) : queries(n) {
    const int64_t blocks = most(1, (n + kQueryBlock - 1) / kQueryBlock);
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
constexpr int64_t kOverhead = 256;

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
  C *keys, *values, *q, *scores, *out, *row, *maximum;
  double* sum;

  static int64_t tile_width() { return kKeyBlock + kRowPad; }
  static int64_t rows_buffer(const Attention& at) {
    return most(kKeyBlock, kTileCols<C> * most(at.depth, at.width));
  }
  static int64_t bytes(const Attention& at) {
    const int64_t numbers = up(at.keys, kTileCols<C>) * at.depth + at.keys * padded<C>(at.width) +
                            kQueryBlock * (at.depth + tile_width() + padded<C>(at.width) + 1) +
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
    b->q = take(kQueryBlock * at.depth);
    b->scores = take(kQueryBlock * tile_width());
    b->out = take(kQueryBlock * padded<C>(at.width));
    b->maximum = take(kQueryBlock);
    b->row = take(rows_buffer(at));
    return b;
  }
};

// The weights of a tile in place of its scores, and what was summed up before brought to the new
// maximum.
template <class C>
void online_softmax(const Attention& at, const TileRange& r, ForwardBuffers<C>& b) {
  const int64_t width = padded<C>(at.width), cols = padded<C>(r.cols);
  for (int64_t i = 0; i < r.rows; ++i) {
    C* s = b.scores + i * b.tile_width();
    // The rest of a row would take as long as the row: it is hidden, so that there is none.
    for (int64_t j = r.cols; j < cols; ++j) s[j] = kHidden<C>;
    const C before = b.maximum[i], m = row_max(s, cols, before);
    const C shift = m == kHidden<C> ? C(0) : m;
    const C sum = exp_row(s, cols, shift);
    const C factor = exp2(before - shift);
    b.maximum[i] = m;
    b.sum[i] = b.sum[i] * static_cast<double>(factor) + static_cast<double>(sum);
    if (r.j0 > 0 && factor != C(1)) scale_row(b.out + i * width, width, factor);
    if (at.drop_prob > 0) {
      keep_row(at, (r.image * at.heads + r.head) * at.queries + r.i0 + i, r.j0, r.cols, b.row);
      for (int64_t j = 0; j < r.cols; ++j) s[j] *= b.row[j];
    }
  }
}

template <class T, class C>
void forward_block(const Attention& at, int64_t head, int64_t i0, int64_t rows,
                   ForwardBuffers<C>& b, const AttentionOutput& y, C* lse) {
  const int64_t image = head / at.heads, h = head % at.heads, width = padded<C>(at.width);
  pack_rows(head_of<T>(at.q, image, h), i0, i0 + rows, at.depth, C(at.scale * kLog2E), b.q,
            at.depth);
  for (int64_t i = 0; i < rows; ++i) {
    b.maximum[i] = kHidden<C>;
    b.sum[i] = 0;
  }
  const int64_t keys = visible(at, i0 + rows);
  if (keys == 0) std::memset(b.out, 0, static_cast<std::size_t>(rows * width) * sizeof(C));
  for (int64_t j0 = 0; j0 < keys; j0 += kKeyBlock) {
    const TileRange r{image, h, i0, rows, j0, least(kKeyBlock, keys - j0)};
    multiply<C>(rows, r.cols, at.depth, b.q, at.depth, 1, b.keys + j0 * at.depth, kTileCols<C>,
                at.depth * kTileCols<C>, b.scores, b.tile_width(), false);
    mask_tile(at, r, b.scores, b.tile_width(), b.row);
    online_softmax(at, r, b);
    multiply<C>(rows, width, r.cols, b.scores, b.tile_width(), 1, b.values + j0 * width, width,
                kTileCols<C>, b.out, width, j0 > 0);
  }
  const HeadOf<T> to = head_of<T>(y, image, h);
  for (int64_t i = 0; i < rows; ++i) {
    const double sum = b.sum[i];
    const C factor = sum == 0 ? C(0) : static_cast<C>(1 / sum);
    write_row(b.out + i * width, at.width, factor, to.data + (i0 + i) * to.row, to.col);
    lse[head * at.queries + i0 + i] =
        sum == 0 ? kHidden<C>
                 : static_cast<C>(static_cast<double>(b.maximum[i]) * kLn2 + std::log(sum));
  }
}

template <class T>
void forward(const Attention& at, const AttentionOutput& y, ComputeType<T>* lse) {
  using C = ComputeType<T>;
  const QueryBlocks blocks(at.queries);
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
      pack_panels(head_of<T>(at.k, image, h), at.keys, at.depth, b.keys, b.row);
      pack_rows(head_of<T>(at.v, image, h), 0, at.keys, at.width, C(1), b.values,
                padded<C>(at.width));
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

// Memory of one thread: a head, packed, and its gradients.
template <class C>
struct BackwardBuffers {
  int64_t head = -1;
  C *keys, *values;             // panels
  C *k, *q, *dy;                // rows
  C *dq, *dk, *dv;              // rows, as wide
  C *shift, *delta;             // -lse in units of log 2, and sum(dy * y), of each query
  C *scores, *gradients, *row;  // of a tile

  static int64_t tile_width() { return kKeyBlock + kRowPad; }
  static int64_t rows_buffer(const Attention& at) {
    return most(kKeyBlock, kTileCols<C> * most(at.depth, at.width));
  }
  static int64_t bytes(const Attention& at) {
    const int64_t depth = padded<C>(at.depth), width = padded<C>(at.width);
    const int64_t numbers = up(at.keys, kTileCols<C>) * (at.depth + at.width) +
                            at.keys * (2 * depth + width) + at.queries * (2 * depth + width + 2) +
                            2 * kQueryBlock * tile_width() + rows_buffer(at) + kTileCols<C>;
    return kOverhead + up(numbers * static_cast<int64_t>(sizeof(C)), 64);
  }
  static BackwardBuffers* make(const Attention& at, char* memory) {
    const int64_t depth = padded<C>(at.depth), width = padded<C>(at.width);
    auto* b = new (memory) BackwardBuffers;
    Taker<C> take{reinterpret_cast<C*>(memory + kOverhead)};
    b->keys = take(up(at.keys, kTileCols<C>) * at.depth);
    b->values = take(up(at.keys, kTileCols<C>) * at.width);
    b->k = take(at.keys * depth);
    b->dk = take(at.keys * depth);
    b->dv = take(at.keys * width);
    b->q = take(at.queries * depth);
    b->dq = take(at.queries * depth);
    b->dy = take(at.queries * width);
    b->scores = take(kQueryBlock * tile_width());
    b->gradients = take(kQueryBlock * tile_width());
    b->shift = take(at.queries);
    b->delta = take(at.queries);
    b->row = take(rows_buffer(at));
    return b;
  }
};

template <class T, class C>
void pack_head(const Attention& at, const BackwardOperands& o, int64_t head,
               BackwardBuffers<C>& b) {
  b.head = head;
  const int64_t image = head / at.heads, h = head % at.heads;
  const int64_t depth = padded<C>(at.depth), width = padded<C>(at.width);
  pack_panels(head_of<T>(at.k, image, h), at.keys, at.depth, b.keys, b.row);
  pack_panels(head_of<T>(at.v, image, h), at.keys, at.width, b.values, b.row);
  pack_rows(head_of<T>(at.k, image, h), 0, at.keys, at.depth, C(1), b.k, depth);
  pack_rows(head_of<T>(at.q, image, h), 0, at.queries, at.depth, C(at.scale * kLog2E), b.q, depth);
  pack_rows(head_of<T>(o.dy, image, h), 0, at.queries, at.width, C(1), b.dy, width);
  const HeadOf<const T> y = head_of<T>(o.y, image, h);
  const C* lse = static_cast<const C*>(o.lse) + head * at.queries;
  for (int64_t i = 0; i < at.queries; ++i) {
    read_row(y.data + i * y.row, y.col, at.width, C(1), b.row);
    double delta = 0;
#pragma omp simd reduction(+ : delta)
    for (int64_t j = 0; j < at.width; ++j) {
      delta += static_cast<double>(b.row[j]) * static_cast<double>(b.dy[i * width + j]);
    }
    b.delta[i] = static_cast<C>(delta);
    b.shift[i] = lse[i] == kHidden<C> ? kHidden<C> : static_cast<C>(-lse[i] * kLog2E);
  }
  const auto clear = [](C* p, int64_t n) {
    std::memset(p, 0, static_cast<std::size_t>(n) * sizeof(C));
  };
  clear(b.dq, at.queries * depth);
  clear(b.dk, at.keys * depth);
  clear(b.dv, at.keys * width);
}

struct Wanted {
  bool queries, keys;
};

// One tile: its weights and gradients, and what they add to the gradients of queries and keys.
template <class C>
void backward_tile(const Attention& at, const TileRange& r, Wanted wanted, BackwardBuffers<C>& b) {
  const int64_t depth = padded<C>(at.depth), width = padded<C>(at.width), step = b.tile_width();
  const int64_t i0 = r.i0, j0 = r.j0;
  multiply<C>(r.rows, r.cols, at.depth, b.q + i0 * depth, depth, 1, b.keys + j0 * at.depth,
              kTileCols<C>, at.depth * kTileCols<C>, b.scores, step, false);
  mask_tile(at, r, b.scores, step, b.row);
  multiply<C>(r.rows, r.cols, at.width, b.dy + i0 * width, width, 1, b.values + j0 * at.width,
              kTileCols<C>, at.width * kTileCols<C>, b.gradients, step, false);
  for (int64_t i = 0; i < r.rows; ++i) {
    C *s = b.scores + i * step, *g = b.gradients + i * step;
    const C shift = b.shift[i0 + i], delta = b.delta[i0 + i];
    if (at.drop_prob > 0) {
      keep_row(at, (r.image * at.heads + r.head) * at.queries + i0 + i, j0, r.cols, b.row);
      score_gradient_row<true>(s, g, r.cols, shift, delta, b.row);
    } else {
      // Whole vectors: what is beyond the last key is read by nobody.
      score_gradient_row<false, C>(s, g, padded<C>(r.cols), shift, delta, nullptr);
    }
  }
  if (wanted.queries) {
    multiply<C>(r.rows, depth, r.cols, b.gradients, step, 1, b.k + j0 * depth, depth, kTileCols<C>,
                b.dq + i0 * depth, depth, true);
  }
  if (wanted.keys) {
    multiply<C>(r.cols, width, r.rows, b.scores, 1, step, b.dy + i0 * width, width, kTileCols<C>,
                b.dv + j0 * width, width, true);
    multiply<C>(r.cols, depth, r.rows, b.gradients, 1, step, b.q + i0 * depth, depth, kTileCols<C>,
                b.dk + j0 * depth, depth, true);
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
  void write_queries(int64_t head, int64_t begin, int64_t end, BackwardBuffers<C>& b) const {
    write_rows(b.dq, padded<C>(at.depth), begin, end, at.depth, C(at.scale),
               head_of<T>(o.dq, head / at.heads, head % at.heads));
  }
  void write_keys(int64_t head, int64_t begin, int64_t end, BackwardBuffers<C>& b) const {
    const int64_t image = head / at.heads, h = head % at.heads;
    // The packed queries carry scale / log 2.
    write_rows(b.dk, padded<C>(at.depth), begin, end, at.depth, C(kLn2),
               head_of<T>(o.dk, image, h));
    write_rows(b.dv, padded<C>(at.width), begin, end, at.width, C(1), head_of<T>(o.dv, image, h));
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
                 for (int64_t q = 0; q < blocks.count(); ++q) {
                   backward_strip(at, head, blocks.begin(q), blocks.rows(q), 0, at.keys,
                                  {true, true}, b);
                 }
                 write_queries(head, 0, at.queries, b);
                 write_keys(head, 0, at.keys, b);
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
                 backward_strip(at, head, i0, rows, 0, at.keys, {true, false}, b);
                 write_queries(head, i0, i0 + rows, b);
               });
    const int64_t key_blocks = (at.keys + kKeyBlock - 1) / kKeyBlock;
    const auto key_cost = [&](int64_t b) {
      return at.causal ? most(1, blocks.count() - b * kKeyBlock / blocks.size) : int64_t{1};
    };
    each_block(
        heads, key_blocks, tile_work(4), key_cost, [&](int64_t head, int64_t block, int thread) {
          BackwardBuffers<C>& b = open(head, thread);
          const int64_t j0 = block * kKeyBlock, j1 = least(at.keys, j0 + kKeyBlock);
          for (int64_t q = 0; q < blocks.count(); ++q) {
            backward_strip(at, head, blocks.begin(q), blocks.rows(q), j0, j1, {false, true}, b);
          }
          write_keys(head, j0, j1, b);
        });
  }
};

template <class T>
void backward(const Attention& at, const BackwardOperands& o) {
  using C = ComputeType<T>;
  const int64_t heads = at.images * at.heads;
  const Team<BackwardBuffers<C>> buffers(at);
  const int threads = buffers.size();
  const Backward<T> run{at, o, QueryBlocks(at.queries), buffers};
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
