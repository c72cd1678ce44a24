// One output line at a time: first the rows that it is made of are combined into one row of the
// input's width, in scratch memory; then the elements of that row are combined into the line. The
// second step is the harder one to vectorise. Lanes are neighbouring elements of the line, whose
// taps lie close together when the line grows or shrinks little: one or two loads with a
// permutation fetch them. Else they are gathered; and where a pixel has many channels, these are
// the lanes and nothing is permuted.

#include <algorithm>
#include <cstring>
#include <type_traits>

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "core/kernels/cpu/copy.h"
#include "core/kernels/cpu/parallel.h"
#include "core/ops/resize/resize.loops.h"
#include "core/runtime/allocator.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int32_t;
using std::int64_t;

#ifdef __AVX512F__
constexpr int64_t kLanes = 16;
#else
constexpr int64_t kLanes = 8;
#endif
constexpr int64_t kDeep = 16;       // channels from which they are the lanes
constexpr int64_t kLongSum = 64;    // taps from which sums are taken in float64
constexpr int64_t kPadding = 64;    // elements behind a row that may be read
constexpr int64_t kRowsAtOnce = 4;  // rows combined in one pass

using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));

[[gnu::always_inline]] inline Floats load(const float* p) {
  Floats v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

// Lane j is p[index[j]], for indices below kLanes.
[[gnu::always_inline]] inline Floats pick_one(const float* p, const int32_t* index) {
#if defined(__AVX512F__)
  return _mm512_maskz_permutexvar_ps(0xffff, _mm512_loadu_si512(index), _mm512_loadu_ps(p));
#elif defined(__AVX2__)
  return _mm256_permutevar8x32_ps(_mm256_loadu_ps(p),
                                  _mm256_loadu_si256(reinterpret_cast<const __m256i*>(index)));
#else
  Floats v;
  for (int64_t j = 0; j < kLanes; ++j) v[j] = p[index[j]];
  return v;
#endif
}
// The same for indices below 2 * kLanes.
[[gnu::always_inline]] inline Floats pick_two(const float* p, const int32_t* index) {
#if defined(__AVX512F__)
  return _mm512_permutex2var_ps(_mm512_loadu_ps(p), _mm512_loadu_si512(index),
                                _mm512_loadu_ps(p + kLanes));
#elif defined(__AVX2__)
  const __m256i i = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(index));
  const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(p), i);
  const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(p + kLanes), i);
  return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(i, 28)));
#else
  Floats v;
  for (int64_t j = 0; j < kLanes; ++j) v[j] = p[index[j]];
  return v;
#endif
}

// ---- a row of the input's width to a line of the output's
// ----------------------------------------

enum class Fetch { one_load, two_loads, gather };

// The taps of a whole line, lane by lane: entry (k * blocks + b) * kLanes + j belongs to tap k of
// element b * kLanes + j. Indices count from base[k * blocks + b].
class LineTaps {
 public:
  LineTaps(const AxisTaps& w, int64_t pitch)
      : taps_(w.taps),
        n_(w.out * pitch),
        blocks_((n_ + kLanes - 1) / kLanes),
        memory_(static_cast<std::size_t>(taps_ * blocks_ * (2 * kLanes + 1)) * 4),
        index_(memory_.as<int32_t>()),
        weight_(memory_.as<float>() + taps_ * blocks_ * kLanes),
        base_(memory_.as<int32_t>() + 2 * taps_ * blocks_ * kLanes) {
    int64_t span = 0;
    for (int64_t k = 0; k < taps_; ++k) {
      for (int64_t b = 0; b < blocks_; ++b) span = std::max(span, fill(w, pitch, k, b));
    }
    fetch_ = span <= kLanes       ? Fetch::one_load
             : span <= 2 * kLanes ? Fetch::two_loads
                                  : Fetch::gather;
  }

  void apply(const float* row, float* line) const {
    switch (fetch_) {
      case Fetch::one_load:
        return apply_with<Fetch::one_load>(row, line);
      case Fetch::two_loads:
        return apply_with<Fetch::two_loads>(row, line);
      case Fetch::gather:
        return apply_with<Fetch::gather>(row, line);
    }
  }

 private:
  // Fills a block and returns how many elements its indices span.
  int64_t fill(const AxisTaps& w, int64_t pitch, int64_t k, int64_t b) {
    const int64_t at = (k * blocks_ + b) * kLanes;
    int64_t low = INT64_MAX, high = 0;
    for (int64_t j = 0; j < kLanes; ++j) {
      const int64_t e = std::min(b * kLanes + j, n_ - 1);  // lanes behind the end repeat the last
      const auto from = static_cast<std::size_t>(e / pitch * taps_ + k);
      const int64_t i = w.index[from] * pitch + (w.index[from] == w.in ? 0 : e % pitch);
      weight_[at + j] = static_cast<float>(w.weight[from]);
      index_[at + j] = static_cast<int32_t>(i);
      low = std::min(low, i), high = std::max(high, i);
    }
    for (int64_t j = 0; j < kLanes; ++j) index_[at + j] -= static_cast<int32_t>(low);
    base_[k * blocks_ + b] = static_cast<int32_t>(low);
    return high - low + 1;
  }

  template <Fetch fetch>
  [[gnu::always_inline]] Floats tap(const float* row, int64_t k, int64_t b) const {
    const int64_t block = k * blocks_ + b;
    const float* from = row + base_[block];
    const int32_t* index = index_ + block * kLanes;
    const Floats w = load(weight_ + block * kLanes);
    if constexpr (fetch == Fetch::one_load) return w * pick_one(from, index);
    if constexpr (fetch == Fetch::two_loads) return w * pick_two(from, index);
    Floats v;
    for (int64_t j = 0; j < kLanes; ++j) v[j] = from[index[j]];
    return w * v;
  }

  template <Fetch fetch, int fixed>
  void lines(const float* row, float* line) const {
    const int64_t taps = fixed ? fixed : taps_;
    for (int64_t b = 0; b < blocks_; ++b) {
      Floats sum = tap<fetch>(row, 0, b);
      for (int64_t k = 1; k < taps; ++k) sum += tap<fetch>(row, k, b);
      const int64_t lanes = std::min(kLanes, n_ - b * kLanes);
      if (lanes == kLanes) {
        __builtin_memcpy(line + b * kLanes, &sum, sizeof sum);
      } else {
        __builtin_memcpy(line + b * kLanes, &sum, static_cast<std::size_t>(lanes) * sizeof(float));
      }
    }
  }
  template <Fetch fetch>
  void apply_with(const float* row, float* line) const {
    switch (taps_) {
      case 1:
        return lines<fetch, 1>(row, line);
      case 2:
        return lines<fetch, 2>(row, line);
      case 4:
        return lines<fetch, 4>(row, line);
      default:
        return lines<fetch, 0>(row, line);
    }
  }

  int64_t taps_, n_, blocks_;
  Scratch memory_;
  int32_t* index_;
  float* weight_;
  int32_t* base_;
  Fetch fetch_ = Fetch::gather;
};

// Pixel by pixel, with the elements of a pixel as lanes.
template <class A>
void apply_deep(const AxisTaps& w, int64_t pitch, const A* row, A* line) {
  for (int64_t o = 0; o < w.out; ++o) {
    const int32_t* index = w.index.data() + o * w.taps;
    const double* weight = w.weight.data() + o * w.taps;
    const int64_t count = w.count[static_cast<std::size_t>(o)];
    A* __restrict to = line + o * pitch;
    if (count == 0) {
      std::fill_n(to, pitch, A(0));
    } else if (count == 2) {
      const A a = A(weight[0]), b = A(weight[1]);
      const A* __restrict p = row + index[0] * pitch;
      const A* __restrict q = row + index[1] * pitch;
      for (int64_t c = 0; c < pitch; ++c) to[c] = a * p[c] + b * q[c];
    } else {
      const A a = A(weight[0]);
      const A* __restrict p = row + index[0] * pitch;
      for (int64_t c = 0; c < pitch; ++c) to[c] = a * p[c];
      for (int64_t k = 1; k < count; ++k) {
        const A b = A(weight[k]);
        const A* __restrict q = row + index[k] * pitch;
        for (int64_t c = 0; c < pitch; ++c) to[c] += b * q[c];
      }
    }
  }
}

// ---- the rows of an output line to one row
// -------------------------------------------------------

// A few rows and what each is multiplied by.
template <class A>
struct RowGroup {
  const A* row[kRowsAtOnce];
  A weight[kRowsAtOnce];
  int64_t count = 0;
};

template <class A, int rows, bool more>
void combine_rows(const RowGroup<A>& g, A* __restrict to, int64_t n) {
  const A w0 = g.weight[0], w1 = rows > 1 ? g.weight[1] : A(0);
  const A w2 = rows > 2 ? g.weight[2] : A(0), w3 = rows > 3 ? g.weight[3] : A(0);
  const A* __restrict r0 = g.row[0];
  const A* __restrict r1 = g.row[rows > 1 ? 1 : 0];
  const A* __restrict r2 = g.row[rows > 2 ? 2 : 0];
  const A* __restrict r3 = g.row[rows > 3 ? 3 : 0];
  for (int64_t i = 0; i < n; ++i) {
    A v = w0 * r0[i];
    if constexpr (rows > 1) v += w1 * r1[i];
    if constexpr (rows > 2) v += w2 * r2[i];
    if constexpr (rows > 3) v += w3 * r3[i];
    to[i] = more ? to[i] + v : v;
  }
}

// to = the group, or to + the group.
template <class A>
void combine(const RowGroup<A>& g, A* to, int64_t n, bool add) {
  switch (g.count) {
    case 0:
      if (!add) std::fill_n(to, n, A(0));
      return;
    case 1:
      if (!add && g.weight[0] == 1) {
        std::memcpy(to, g.row[0], sizeof(A) * static_cast<std::size_t>(n));
        return;
      }
      return add ? combine_rows<A, 1, true>(g, to, n) : combine_rows<A, 1, false>(g, to, n);
    case 2:
      return add ? combine_rows<A, 2, true>(g, to, n) : combine_rows<A, 2, false>(g, to, n);
    case 3:
      return add ? combine_rows<A, 3, true>(g, to, n) : combine_rows<A, 3, false>(g, to, n);
    default:
      return add ? combine_rows<A, 4, true>(g, to, n) : combine_rows<A, 4, false>(g, to, n);
  }
}

// To the nearest number of an integer dtype, halves away from zero.
template <class A>
void round_to(DType dtype, A* __restrict v, int64_t n) {
  const A low = dtype == DType::int8 ? A(-128) : A(0),
          high = dtype == DType::int8 ? A(127) : A(255);
  for (int64_t i = 0; i < n; ++i) {
    const A size = __builtin_floor(__builtin_fabs(static_cast<double>(v[i])) + 0.5);
    const A x = v[i] < 0 ? -size : size;
    v[i] = x < low ? low : x > high ? high : x;
  }
}

// What one thread works in: the combined row, converted rows of the input, and a line before it is
// converted. The last four converted rows are kept: neighbouring lines share them.
template <class A>
struct Desk {
  A *row, *line, *kept;
  const void* keeps[kRowsAtOnce] = {};
  int64_t used[kRowsAtOnce] = {};  // when: the one that was not needed for longest makes room
  int64_t now = 0, width;

  static int64_t elements(int64_t width, int64_t line, bool converts) {
    return width + kPadding + (converts ? line + kRowsAtOnce * width : 0);
  }
  Desk(A* memory, int64_t width_, int64_t line_)
      : row(memory), line(memory + width_ + kPadding), kept(line + line_), width(width_) {
    std::fill_n(row + width, kPadding, A(0));
  }
  const A* converted(const void* from, DType dtype) {
    int64_t oldest = 0;
    for (int64_t k = 0; k < kRowsAtOnce; ++k) {
      if (keeps[k] == from) {
        used[k] = ++now;
        return kept + k * width;
      }
      if (used[k] < used[oldest]) oldest = k;
    }
    keeps[oldest] = from, used[oldest] = ++now;
    convert(from, dtype, kept + oldest * width, dtype_of<A>, width);
    return kept + oldest * width;
  }
};

template <class A>
class Resampler {
 public:
  Resampler(DType dtype, const void* x, void* y, const Resample& at)
      : dtype_(dtype),
        direct_(dtype == dtype_of<A>),
        x_(static_cast<const char*>(x)),
        y_(static_cast<char*>(y)),
        at_(at),
        width_(at.width.in * at.pitch),
        line_(at.width.out * at.pitch),
        row_bytes_((width_ + kPadding) * size_of(dtype)),
        end_(x_ + at.images * at.depth.in * at.height.in * width_ * size_of(dtype)),
        whole_(std::find(at.width.count.begin(), at.width.count.end(), 0) == at.width.count.end()),
        taps_(lanes_are_elements() ? at.width : AxisTaps{}, lanes_are_elements() ? at.pitch : 1) {}

  void run() {
    const int64_t rows = at_.images * at_.depth.out * at_.height.out;
    const int64_t work = line_ * at_.width.taps + width_ * at_.height.taps * at_.depth.taps;
    const int threads = num_threads();  // allocated here: nothing may throw in parallel_for
    const int64_t need = (Desk<A>::elements(width_, line_, !direct_) + 15) / 16 * 16;
    const Scratch scratch(sizeof(A) * static_cast<std::size_t>(need * threads));
    parallel_for(rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, work)),
                 [&](int64_t begin, int64_t end) {
                   Desk<A> desk(scratch.as<A>() + omp_get_thread_num() % threads * need, width_,
                                direct_ ? 0 : line_);
                   lines(desk, begin, end);
                 });
  }

 private:
  bool lanes_are_elements() const { return std::is_same_v<A, float> && at_.pitch < kDeep; }

  // The output lines from `begin` to `end`.
  void lines(Desk<A>& desk, int64_t begin, int64_t end) const {
    const AxisTaps &d = at_.depth, &h = at_.height;
    const int64_t line_bytes = line_ * size_of(dtype_);
    int64_t image = begin / (d.out * h.out), od = begin / h.out % d.out, oh = begin % h.out;
    const void* only = nullptr;  // where the line before is made of one row, that row
    for (int64_t r = begin; r < end; ++r) {
      char* to = y_ + r * line_bytes;
      const void* source = single_row(image, od, oh);
      if (source && source == only) {
        std::memcpy(to, to - line_bytes, static_cast<std::size_t>(line_bytes));
      } else {
        const A* row = desk.row;
        if (source && readable(source)) {
          row = static_cast<const A*>(source);
        } else {
          combine_rows_of(desk, image, od, oh);
        }
        write_line(desk, row, to);
      }
      only = source;
      if (++oh == h.out) {
        oh = 0;
        if (++od == d.out) od = 0, ++image;
      }
    }
  }

  void write_line(Desk<A>& desk, const A* row, char* to) const {
    A* line = direct_ ? reinterpret_cast<A*>(to) : desk.line;
    apply_line(row, line);
    if (direct_) return;
    if (!is_float(dtype_)) round_to(dtype_, line, line_);
    convert(line, dtype_of<A>, to, dtype_, line_);
  }

  void apply_line(const A* row, A* line) const {
    if constexpr (std::is_same_v<A, float>) {
      if (lanes_are_elements()) return taps_.apply(row, line);
    }
    apply_deep(at_.width, at_.pitch, row, line);
  }

  const char* row_at(int64_t image, int64_t id, int64_t ih) const {
    const int64_t row = (image * at_.depth.in + id) * at_.height.in + ih;
    return x_ + row * width_ * size_of(dtype_);
  }

  // The row that an output line is made of, where that is one with weight 1.
  const void* single_row(int64_t image, int64_t od, int64_t oh) const {
    const AxisTaps &d = at_.depth, &h = at_.height;
    const auto i = static_cast<std::size_t>(od), j = static_cast<std::size_t>(oh);
    if (d.count[i] != 1 || h.count[j] != 1) return nullptr;
    const auto kd = static_cast<std::size_t>(od * d.taps);
    const auto kh = static_cast<std::size_t>(oh * h.taps);
    if (d.weight[kd] * h.weight[kh] != 1) return nullptr;
    return row_at(image, d.index[kd], h.index[kh]);
  }
  // Whether a row of x may be used where it is: what lies behind it may be read as well.
  bool readable(const void* row) const {
    return direct_ && whole_ && static_cast<const char*>(row) + row_bytes_ <= end_;
  }

  // Combines the rows of an output line.
  void combine_rows_of(Desk<A>& desk, int64_t image, int64_t od, int64_t oh) const {
    const AxisTaps &d = at_.depth, &h = at_.height;
    const int64_t dn = d.count[static_cast<std::size_t>(od)];
    const int64_t hn = h.count[static_cast<std::size_t>(oh)];
    RowGroup<A> group;
    bool add = false;
    for (int64_t i = 0; i < dn; ++i) {
      for (int64_t j = 0; j < hn; ++j) {
        if (group.count == kRowsAtOnce) {
          combine(group, desk.row, width_, add);
          add = true, group.count = 0;
        }
        const auto kd = static_cast<std::size_t>(od * d.taps + i);
        const auto kh = static_cast<std::size_t>(oh * h.taps + j);
        const char* source = row_at(image, d.index[kd], h.index[kh]);
        group.row[group.count] =
            direct_ ? reinterpret_cast<const A*>(source) : desk.converted(source, dtype_);
        group.weight[group.count++] = A(d.weight[kd] * h.weight[kh]);
      }
    }
    combine(group, desk.row, width_, add);
  }

  DType dtype_;
  bool direct_;  // the dtype is that of the sums
  const char* x_;
  char* y_;
  const Resample& at_;
  int64_t width_, line_;  // elements of a row of x, of a line of y
  int64_t row_bytes_;     // that may be read from the start of a row on
  const char* end_;       // of x
  bool whole_;            // every element of a line has a tap
  LineTaps taps_;
};

}  // namespace

void resample(DType dtype, const void* x, void* y, const Resample& at) {
  const bool long_sums = at.width.taps > kLongSum || at.height.taps * at.depth.taps > kLongSum;
  // Positions inside of a row are 32 bits wide in LineTaps.
  const bool wide = at.width.in * at.pitch >= (int64_t{1} << 31) - kPadding;
  if (dtype == DType::float64 || long_sums || wide) {
    Resampler<double>(dtype, x, y, at).run();
  } else {
    Resampler<float>(dtype, x, y, at).run();
  }
}

}  // namespace mge::cpu::MGE_SIMD_NS
