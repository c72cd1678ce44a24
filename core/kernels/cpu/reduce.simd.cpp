#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "core/kernels/cpu/convert_lanes.h"
#include "core/kernels/cpu/reduce_loops.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

template <class T, int L>
struct VectorOf {
  typedef T type __attribute__((vector_size(sizeof(T) * L)));
};
template <class T, int L>
using Vector = typename VectorOf<T, L>::type;
template <class A>
constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(A));
template <class A>
using Full = Vector<A, kLanes<A>>;

// ---- loads that convert ------------------------------------------------------------------------

template <int L>
Vector<float, L> load_float(const Half* p) {
  Vector<float, L> out{};
#ifdef __F16C__
  if constexpr (L == 4) {
    const __m128 v = _mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    std::memcpy(&out, &v, sizeof(out));
    return out;
  } else if constexpr (L == 8) {
    const __m256 v = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    std::memcpy(&out, &v, sizeof(out));
    return out;
  }
#ifdef __AVX512F__
  if constexpr (L == 16) {
    const __m512 v =
        _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    std::memcpy(&out, &v, sizeof(out));
    return out;
  }
#endif
#endif
  for (int i = 0; i < L; ++i) out[i] = static_cast<float>(p[i]);
  return out;
}
template <int L>
Vector<float, L> load_float(const BFloat16* p) {
  Vector<std::uint16_t, L> raw;
  std::memcpy(&raw, p, sizeof(raw));
  const auto bits = __builtin_convertvector(raw, Vector<std::uint32_t, L>) << 16;
  return (Vector<float, L>)bits;
}

// The next kLanes<A> elements, in the type of the accumulators.
template <class A, class T>
Full<A> load(const T* p) {
  constexpr int L = kLanes<A>;
  if constexpr (is_low<T>) {
    const auto wide = load_float<L>(p);
    if constexpr (std::is_same_v<A, float>) {
      return wide;
    } else {
      return __builtin_convertvector(wide, Full<A>);
    }
  } else {
    Vector<T, L> raw;
    std::memcpy(&raw, p, sizeof(raw));
    if constexpr (std::is_same_v<A, T>) {
      return raw;
    } else if constexpr (std::is_integral_v<T> && sizeof(T) < 4 && std::is_floating_point_v<A>) {
      return __builtin_convertvector(__builtin_convertvector(raw, Vector<std::int32_t, L>),
                                     Full<A>);
    } else {
      return __builtin_convertvector(raw, Full<A>);
    }
  }
}
template <class A, class T>
A load_one(T x) {
  if constexpr (is_low<T>) {
    return static_cast<A>(static_cast<float>(x));
  } else {
    return static_cast<A>(x);
  }
}

// ---- what is accumulated -----------------------------------------------------------------------

template <class A>
struct Sum {
  static constexpr A identity{0};
  template <class V>
  static V step(V acc, V x, V) {
    return acc + x;
  }
  template <class V>
  static V merge(V acc, V x) {
    return acc + x;
  }
};
template <class A>
struct Product {
  static constexpr A identity{1};
  template <class V>
  static V step(V acc, V x, V) {
    return acc * x;
  }
  template <class V>
  static V merge(V acc, V x) {
    return acc * x;
  }
};
template <class A>
struct SumSquares {
  static constexpr A identity{0};
  template <class V>
  static V step(V acc, V x, V shift) {
    const V d = x - shift;
    return acc + d * d;
  }
  template <class V>
  static V merge(V acc, V x) {
    return acc + x;
  }
};
// NaN wins: it beats every number, and nothing beats it.
template <class A>
struct Max {
  static constexpr A identity = std::numeric_limits<A>::has_infinity
                                    ? -std::numeric_limits<A>::infinity()
                                    : std::numeric_limits<A>::lowest();
  template <class V>
  static V merge(V acc, V x) {
    if constexpr (std::is_arithmetic_v<V>) {
      // Two selects, of which the compiler makes no branch that random data mispredicts.
      const V best = x > acc ? x : acc;
      return x != x ? x : best;
    } else if constexpr (std::is_integral_v<A>) {
      return x > acc ? x : acc;
    } else {
      const auto take = (x > acc) | (x != x);
      return take ? x : acc;
    }
  }
  template <class V>
  static V step(V acc, V x, V) {
    return merge(acc, x);
  }
};
template <class A>
struct Min {
  static constexpr A identity = std::numeric_limits<A>::has_infinity
                                    ? std::numeric_limits<A>::infinity()
                                    : std::numeric_limits<A>::max();
  template <class V>
  static V merge(V acc, V x) {
    if constexpr (std::is_arithmetic_v<V>) {
      // Two selects, of which the compiler makes no branch that random data mispredicts.
      const V best = x < acc ? x : acc;
      return x != x ? x : best;
    } else if constexpr (std::is_integral_v<A>) {
      return x < acc ? x : acc;
    } else {
      const auto take = (x < acc) | (x != x);
      return take ? x : acc;
    }
  }
  template <class V>
  static V step(V acc, V x, V) {
    return merge(acc, x);
  }
};

// ---- loops -------------------------------------------------------------------------------------

template <class A>
Full<A> splat(A x) {
  return x - Full<A>{};
}

// Merges lane i with lane i ^ step, for step = Step, Step / 2, ..., 1.
template <class A, int L, int Step, std::size_t... I>
Vector<A, L> swap_lanes(Vector<A, L> v, std::index_sequence<I...>) {
  return __builtin_shufflevector(v, v, (static_cast<int>(I) ^ Step)...);
}
template <class Op, class A, int L, int Step>
A fold_within(Vector<A, L> v) {
  const auto swapped = swap_lanes<A, L, Step>(v, std::make_index_sequence<L>{});
  v = Op::merge(v, swapped);
  if constexpr (Step > 1) {
    return fold_within<Op, A, L, Step / 2>(v);
  } else {
    return v[0];
  }
}

// One value from all lanes: halves are merged down to 16 bytes, then neighbours at ever shorter
// distances within them.
template <class Op, class A, int L>
A fold_lanes(Vector<A, L> v) {
  if constexpr (L * sizeof(A) > 16) {
    Vector<A, L / 2> low, high;
    std::memcpy(&low, &v, sizeof(low));
    std::memcpy(&high, reinterpret_cast<const char*>(&v) + sizeof(low), sizeof(high));
    return fold_lanes<Op, A, L / 2>(Op::merge(low, high));
  } else {
    return fold_within<Op, A, L, L / 2>(v);
  }
}

// The hardware's own prefetching stops at the end of each page: asked for this far ahead, a long
// row streams in a fifth faster.
constexpr std::int64_t kPrefetchBytes = 4096, kLineBytes = 64;

template <class Op, class T, class A>
A reduce_row(const T* p, std::int64_t n, A shift) {
  constexpr int L = kLanes<A>, unroll = 8;
  constexpr std::int64_t step_bytes = unroll * L * static_cast<std::int64_t>(sizeof(T));
  const Full<A> s = splat(shift);
  Full<A> acc = splat(Op::identity);
  std::int64_t i = 0;
  if (n >= unroll * L) {
    Full<A> part[unroll];
    for (auto& a : part) a = acc;
    for (; i + unroll * L <= n; i += unroll * L) {
      const char* ahead = reinterpret_cast<const char*>(p + i) + kPrefetchBytes;
      for (std::int64_t b = 0; b < step_bytes; b += kLineBytes) __builtin_prefetch(ahead + b);
      for (int u = 0; u < unroll; ++u) part[u] = Op::step(part[u], load<A>(p + i + u * L), s);
    }
    for (int half = unroll / 2; half > 0; half /= 2) {
      for (int u = 0; u < half; ++u) part[u] = Op::merge(part[u], part[u + half]);
    }
    acc = part[0];
  }
  for (; i + L <= n; i += L) acc = Op::step(acc, load<A>(p + i), s);
  A total = fold_lanes<Op, A, L>(acc);
  for (; i < n; ++i) total = Op::step(total, load_one<A>(p[i]), shift);
  return total;
}

// `Rows` rows at a time, so that the accumulators are read and written less often.
template <class Op, int Rows, class T, class A>
void add_rows(const T* in, std::int64_t row_stride, std::int64_t n, const A* shift, A* acc) {
  constexpr int L = kLanes<A>;
  std::int64_t j = 0;
  for (; j + L <= n; j += L) {
    Full<A> a, s{};
    std::memcpy(&a, acc + j, sizeof(a));
    if (shift) std::memcpy(&s, shift + j, sizeof(s));
    for (int r = 0; r < Rows; ++r) a = Op::step(a, load<A>(in + r * row_stride + j), s);
    std::memcpy(acc + j, &a, sizeof(a));
  }
  for (; j < n; ++j) {
    A a = acc[j];
    const A s = shift ? shift[j] : A{0};
    for (int r = 0; r < Rows; ++r) a = Op::step(a, load_one<A>(in[r * row_stride + j]), s);
    acc[j] = a;
  }
}

template <template <class> class Op, class T, class A>
struct Loops {
  // Only sums of squares shift, and those that do accumulate in double.
  static const A* shift_of(const ReduceTile& tile) {
    if constexpr (std::is_same_v<A, double>) return tile.shift;
    return nullptr;
  }
  static void fill(void* acc, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) static_cast<A*>(acc)[i] = Op<A>::identity;
  }
  static void rows(const void* in, std::int64_t rows, std::int64_t row_stride, std::int64_t n,
                   const ReduceTile& tile) {
    A* acc = static_cast<A*>(tile.acc);
    const A* shift = shift_of(tile);
    for (std::int64_t i = 0; i < rows; ++i) {
      const T* p = static_cast<const T*>(in) + i * row_stride;
      acc[i] = Op<A>::merge(acc[i], reduce_row<Op<A>, T, A>(p, n, shift ? shift[i] : A{0}));
    }
  }
  static void columns(const void* in, std::int64_t rows, std::int64_t row_stride, std::int64_t n,
                      const ReduceTile& tile) {
    A* acc = static_cast<A*>(tile.acc);
    const A* shift = shift_of(tile);
    const T* p = static_cast<const T*>(in);
    std::int64_t i = 0;
    for (; i + 8 <= rows; i += 8) add_rows<Op<A>, 8>(p + i * row_stride, row_stride, n, shift, acc);
    for (; i < rows; ++i) add_rows<Op<A>, 1>(p + i * row_stride, row_stride, n, shift, acc);
  }
  static void merge(const ReduceTile& from, std::int64_t n, const ReduceTile& tile) {
    A* acc = static_cast<A*>(tile.acc);
    const A* other = static_cast<const A*>(from.acc);
    for (std::int64_t i = 0; i < n; ++i) acc[i] = Op<A>::merge(acc[i], other[i]);
  }
  static ReduceLoops make(DType acc) { return {acc, fill, rows, columns, merge}; }
};

// ---- argmax, argmin ----------------------------------------------------------------------------

template <bool Largest, class A>
bool better(A x, A best) {
  return (Largest ? x > best : x < best) | ((x != x) & (best == best));
}

// A row is searched block by block for a better value; only the block that held the best one is
// searched for its place.
template <bool Largest, class T, class A>
struct ArgLoops {
  using Op = std::conditional_t<Largest, Max<A>, Min<A>>;
  static constexpr std::int64_t kBlock = 2048;

  static void fill(void* acc, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) static_cast<A*>(acc)[i] = Op::identity;
  }
  // The place of the first `wanted`, which is there; any NaN stands for NaN. The least of the
  // places that match is a reduction that vectorises; looking for the first one is not.
  static std::int64_t find(const T* p, std::int64_t n, A wanted) {
    constexpr int step = 64;
    const bool nan = wanted != wanted;
    std::int64_t i = 0;
    for (; i + step <= n; i += step) {
      std::int32_t first = step;
      for (std::int32_t j = 0; j < step; ++j) {
        const A x = load_one<A>(p[i + j]);
        const std::int32_t place = (x == wanted) | (nan & (x != x)) ? j : step;
        first = place < first ? place : first;
      }
      if (first < step) return i + first;
    }
    for (; i < n; ++i) {
      const A x = load_one<A>(p[i]);
      if ((x == wanted) | (nan & (x != x))) break;
    }
    return i;
  }
  static void rows(const void* in, std::int64_t rows, std::int64_t row_stride, std::int64_t n,
                   const ReduceTile& tile) {
    A* acc = static_cast<A*>(tile.acc);
    for (std::int64_t i = 0; i < rows; ++i) {
      const T* p = static_cast<const T*>(in) + i * row_stride;
      std::int64_t block = -1;
      for (std::int64_t j = 0; j < n; j += kBlock) {
        const A x = reduce_row<Op, T, A>(p + j, n - j < kBlock ? n - j : kBlock, A{0});
        if (better<Largest>(x, acc[i])) {
          acc[i] = x;
          block = j;
        }
      }
      if (block < 0) continue;
      const std::int64_t length = n - block < kBlock ? n - block : kBlock;
      tile.index[i] =
          static_cast<std::int32_t>(tile.base + block + find(p + block, length, acc[i]));
    }
  }
  static void columns(const void* in, std::int64_t rows, std::int64_t row_stride, std::int64_t n,
                      const ReduceTile& tile) {
    A* __restrict acc = static_cast<A*>(tile.acc);
    std::int32_t* __restrict index = tile.index;
    for (std::int64_t i = 0; i < rows; ++i) {
      const T* __restrict p = static_cast<const T*>(in) + i * row_stride;
      const std::int32_t at = static_cast<std::int32_t>(tile.base + i);
      for (std::int64_t j = 0; j < n; ++j) {
        const A x = load_one<A>(p[j]), best = acc[j];
        const bool take = better<Largest>(x, best);
        acc[j] = take ? x : best;
        index[j] = take ? at : index[j];
      }
    }
  }
  static void merge(const ReduceTile& from, std::int64_t n, const ReduceTile& tile) {
    A* acc = static_cast<A*>(tile.acc);
    const A* other = static_cast<const A*>(from.acc);
    for (std::int64_t i = 0; i < n; ++i) {
      if (!better<Largest>(other[i], acc[i])) continue;
      acc[i] = other[i];
      tile.index[i] = from.index[i];
    }
  }
  static ReduceLoops make(DType acc) { return {acc, fill, rows, columns, merge}; }
};

// ---- picking -----------------------------------------------------------------------------------

template <class T, class A>
ReduceLoops pick_arithmetic(ReduceMode mode, DType acc) {
  switch (mode) {
    case ReduceMode::product:
      return Loops<Product, T, A>::make(acc);
    case ReduceMode::sum_squares:
      return Loops<SumSquares, T, A>::make(acc);
    default:
      return Loops<Sum, T, A>::make(acc);
  }
}

template <class T>
ReduceLoops pick(ReduceMode mode, bool wide) {
  if (mode == ReduceMode::max || mode == ReduceMode::min) {
    using A = ComputeType<T>;
    return mode == ReduceMode::max ? Loops<Max, T, A>::make(dtype_of<A>)
                                   : Loops<Min, T, A>::make(dtype_of<A>);
  }
  // Unsigned, because sums of integers wrap.
  if constexpr (std::is_integral_v<T>) {
    if (!wide) {
      if constexpr (sizeof(T) == 8) {
        return pick_arithmetic<Signed<T>, std::uint64_t>(mode, DType::int64);
      } else if constexpr (sizeof(T) == 4) {
        return pick_arithmetic<Signed<T>, std::uint32_t>(mode, DType::int32);
      } else {
        return pick_arithmetic<T, std::uint32_t>(mode, DType::int32);
      }
    }
    return mode == ReduceMode::sum_squares ? Loops<SumSquares, T, double>::make(DType::float64)
                                           : Loops<Sum, T, double>::make(DType::float64);
  } else {
    return pick_arithmetic<T, double>(mode, DType::float64);
  }
}

// bool is stored as bytes of 0 and 1.
template <class F>
ReduceLoops visit(DType dtype, F&& f) {
  return visit_dtype(dtype, [&]<class T>(Tag<T>) {
    return f(Tag<std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>>{});
  });
}

}  // namespace

ReduceLoops reduce_loops(ReduceMode mode, DType dtype, bool wide) {
  return visit(dtype, [&]<class T>(Tag<T>) { return pick<T>(mode, wide); });
}

ReduceLoops arg_reduce_loops(bool largest, DType dtype) {
  return visit(dtype, [&]<class T>(Tag<T>) {
    using A = ComputeType<T>;
    return largest ? ArgLoops<true, T, A>::make(dtype_of<A>)
                   : ArgLoops<false, T, A>::make(dtype_of<A>);
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
