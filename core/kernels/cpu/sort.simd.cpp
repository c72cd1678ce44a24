#include <cstring>
#include <limits>
#include <utility>

#include "core/kernels/cpu/convert_lanes.h"
#include "core/kernels/cpu/sort_loops.h"
#include "core/kernels/cpu/sort_words.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

// ---- sorting networks --------------------------------------------------------------------------

#if defined(__AVX512F__)
constexpr int kLanes = 8;
#elif defined(__AVX2__)
constexpr int kLanes = 4;
#else
constexpr int kLanes = 2;
#endif
typedef std::int64_t Words __attribute__((vector_size(8 * kLanes)));

constexpr int top_bit(int x) {
  int bit = 1;
  while (bit * 2 <= x) bit *= 2;
  return bit;
}
template <int Mask, std::size_t... I>
Words swap_lanes(Words v, std::index_sequence<I...>) {
  return __builtin_shufflevector(v, v, (static_cast<int>(I) ^ Mask)...);
}
// Lane i of `low`, or of `high` where i has `Bit`.
template <int Bit, std::size_t... I>
Words blend(Words low, Words high, std::index_sequence<I...>) {
  return __builtin_shufflevector(
      low, high, (static_cast<int>(I) + (static_cast<int>(I) & Bit ? kLanes : 0))...);
}
constexpr auto kLaneIndex = std::make_index_sequence<kLanes>{};

inline Words min(Words a, Words b) { return a < b ? a : b; }
inline Words max(Words a, Words b) { return a > b ? a : b; }

// Compares and exchanges lanes i and i ^ Mask of every register.
template <int Mask, int R>
void exchange_lanes(Words (&v)[R]) {
  for (int r = 0; r < R; ++r) {
    const Words other = swap_lanes<Mask>(v[r], kLaneIndex);
    v[r] = blend<top_bit(Mask)>(min(v[r], other), max(v[r], other), kLaneIndex);
  }
}

// Sorts sequences that are bitonic within each register.
template <int Distance, int R>
void merge_lanes(Words (&v)[R]) {
  if constexpr (Distance > 0) {
    exchange_lanes<Distance>(v);
    merge_lanes<Distance / 2>(v);
  }
}
// Sorts within each register.
template <int Size, int R>
void sort_lanes(Words (&v)[R]) {
  if constexpr (Size <= kLanes) {
    exchange_lanes<Size - 1>(v);
    merge_lanes<Size / 4>(v);
    sort_lanes<Size * 2>(v);
  }
}
// Sorts R registers as one sequence: ever longer sorted sequences of registers are joined to
// bitonic ones (the second of each pair is read backwards) and merged.
template <int R>
void sort_registers(Words (&v)[R]) {
  sort_lanes<2>(v);
  for (int size = 2; size <= R; size *= 2) {
    for (int first = 0; first < R; first += size) {
      for (int i = 0; i < size / 2; ++i) {
        Words &a = v[first + i], &b = v[first + size - 1 - i];
        const Words back = swap_lanes<kLanes - 1>(b, kLaneIndex), low = min(a, back);
        b = max(a, back);
        a = low;
      }
    }
    for (int distance = size / 4; distance > 0; distance /= 2) {
      for (int first = 0; first < R; first += 2 * distance) {
        for (int i = first; i < first + distance; ++i) {
          const Words low = min(v[i], v[i + distance]);
          v[i + distance] = max(v[i], v[i + distance]);
          v[i] = low;
        }
      }
    }
    merge_lanes<kLanes / 2>(v);
  }
}

// Sorts n <= R * kLanes words.
template <int R>
void sort_few(std::int64_t* words, std::int64_t n) {
  Words v[R];
  std::int64_t padded[R * kLanes];
  std::memcpy(padded, words, static_cast<std::size_t>(n) * 8);
  for (std::int64_t i = n; i < R * kLanes; ++i)
    padded[i] = std::numeric_limits<std::int64_t>::max();
  std::memcpy(v, padded, sizeof(v));
  sort_registers(v);
  std::memcpy(padded, v, sizeof(v));
  std::memcpy(words, padded, static_cast<std::size_t>(n) * 8);
}
constexpr std::int64_t kFew = 16 * kLanes;
void sort_few(std::int64_t* words, std::int64_t n) {
  if (n <= kLanes) return sort_few<1>(words, n);
  if (n <= 2 * kLanes) return sort_few<2>(words, n);
  if (n <= 4 * kLanes) return sort_few<4>(words, n);
  if (n <= 8 * kLanes) return sort_few<8>(words, n);
  sort_few<16>(words, n);
}

// ---- partition ---------------------------------------------------------------------------------

// An element near the median: of 16 evenly spaced from a place that varies, so that no pattern in
// the data meets it each time.
std::int64_t pick_pivot(const std::int64_t* words, std::int64_t n, std::uint64_t& random) {
  random = random * 6364136223846793005u + 1442695040888963407u;
  const std::int64_t step = n / 16;
  const std::int64_t first =
      static_cast<std::int64_t>((random >> 33) % static_cast<std::uint64_t>(step));
  std::int64_t sample[16];
  for (int i = 0; i < 16; ++i) sample[i] = words[first + i * step];
  sort_few<16 / kLanes>(sample, 16);
  return sample[8];
}

// Words below the pivot move to the front, where everything has been read already; the others
// gather in `spare` and follow at the end.
std::int64_t partition(std::int64_t* words, std::int64_t* spare, std::int64_t n,
                       std::int64_t pivot) {
  std::int64_t below = 0, above = 0, i = 0;
#if defined(__AVX512F__)
  const __m512i p = _mm512_set1_epi64(pivot);
  for (; i + 8 <= n; i += 8) {
    const __m512i v = _mm512_loadu_si512(words + i);
    const __mmask8 less = _mm512_cmplt_epi64_mask(v, p);
    // Compressed in a register: compressing stores are slow on some machines.
    _mm512_storeu_si512(words + below, _mm512_maskz_compress_epi64(less, v));
    _mm512_storeu_si512(spare + above,
                        _mm512_maskz_compress_epi64(static_cast<__mmask8>(~less), v));
    const int count = __builtin_popcount(less);
    below += count;
    above += 8 - count;
  }
#endif
  for (; i < n; ++i) {
    const std::int64_t w = words[i];
    const bool less = w < pivot;
    words[below] = w;
    spare[above] = w;
    below += less;
    above += !less;
  }
  std::memcpy(words + below, spare, static_cast<std::size_t>(above) * 8);
  return below;
}

void quick_sort(std::int64_t* words, std::int64_t* spare, std::int64_t n, std::uint64_t& random) {
  while (n > kFew) {
    const std::int64_t below = partition(words, spare, n, pick_pivot(words, n, random));
    // The shorter part first, so that the stack stays flat.
    if (below <= n - below) {
      quick_sort(words, spare, below, random);
      words += below;
      n -= below;
    } else {
      quick_sort(words + below, spare, n - below, random);
      n = below;
    }
  }
  if (n > 1) sort_few(words, n);
}

// ---- candidates --------------------------------------------------------------------------------

// Negated comparisons, so that a NaN on either side makes a candidate.
template <bool Largest, class C>
bool may_be_better(C x, C threshold) {
  return Largest ? !(x <= threshold) : !(x >= threshold);
}

// The places of the candidates among n elements, written without branches that mispredict.
template <bool Largest, class C>
std::int64_t candidates(const C* p, std::int64_t n, C threshold, std::int32_t* places) {
  std::int32_t any = 0;
  for (std::int64_t j = 0; j < n; ++j) any |= may_be_better<Largest>(p[j], threshold);
  if (!any) return 0;
  std::int64_t found = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    places[found] = static_cast<std::int32_t>(j);
    found += may_be_better<Largest>(p[j], threshold);
  }
  return found;
}

template <bool Largest, class T>
Candidates scan(const T* row, std::int64_t begin, std::int64_t n, std::int64_t threshold,
                std::int32_t* places) {
  for (std::int64_t i = begin; i < n; i += kScanBlock) {
    const std::int64_t block = n - i < kScanBlock ? n - i : kScanBlock;
    std::int64_t found;
    if constexpr (is_low<T>) {
      float wide[kScanBlock];
      widen(row + i, wide, block);
      found = candidates<Largest>(wide, block, static_cast<float>(row[threshold]), places);
    } else if (block == kScanBlock) {  // a constant count makes a loop without a tail
      found = candidates<Largest>(row + i, kScanBlock, row[threshold], places);
    } else {
      found = candidates<Largest>(row + i, block, row[threshold], places);
    }
    if (found > 0) return {i, i + block, found};
  }
  return {n, n, 0};
}

// ---- rows and words ----------------------------------------------------------------------------

template <bool Descending, class T>
void make_words(const T* row, std::int64_t step, std::int64_t n, std::int64_t* words) {
  if (step == 1) {
    for (std::int64_t i = 0; i < n; ++i) words[i] = make_item(row[i], i, Descending);
  } else {
    for (std::int64_t i = 0; i < n; ++i) words[i] = make_item(row[i * step], i, Descending);
  }
}

}  // namespace

void words_from_row(const void* row, DType dtype, std::int64_t step, std::int64_t n,
                    bool descending, std::int64_t* words) {
  visit_dtype(dtype, [&]<class T>(Tag<T>) {
    if constexpr (sizeof(T) <= 4) {
      // bool is stored as bytes of 0 and 1.
      using S = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
      const S* p = static_cast<const S*>(row);
      descending ? make_words<true>(p, step, n, words) : make_words<false>(p, step, n, words);
    }
  });
}

void row_from_words(const void* row, DType dtype, std::int64_t step, const std::int64_t* words,
                    std::int64_t n, void* values, std::int32_t* indices) {
  visit_width(dtype, [&]<class T>(Tag<T>) {
    const T* from = static_cast<const T*>(row);
    T* to = static_cast<T*>(values);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t at = words[i] & 0xffffffff;
      to[i] = from[at * step];
      indices[i] = static_cast<std::int32_t>(at);
    }
  });
}

void sort_words(std::int64_t* words, std::int64_t* spare, std::int64_t n) {
  std::uint64_t random = static_cast<std::uint64_t>(n);
  quick_sort(words, spare, n, random);
}

void select_words(std::int64_t* words, std::int64_t* spare, std::int64_t n, std::int64_t k) {
  std::uint64_t random = static_cast<std::uint64_t>(n);
  while (n > kFew) {
    const std::int64_t below = partition(words, spare, n, pick_pivot(words, n, random));
    if (below == k) return;
    if (below > k) {
      n = below;
    } else {
      words += below;
      n -= below;
      k -= below;
    }
  }
  if (n > 1) sort_few(words, n);
}

std::int64_t partition_words(std::int64_t* words, std::int64_t* spare, std::int64_t n) {
  std::uint64_t random = static_cast<std::uint64_t>(n);
  return partition(words, spare, n, pick_pivot(words, n, random));
}

Candidates next_candidates(const void* row, DType dtype, std::int64_t begin, std::int64_t n,
                           std::int64_t threshold, bool largest, std::int32_t* places) {
  return visit_dtype(dtype, [&]<class T>(Tag<T>) {
    using S = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
    const S* p = static_cast<const S*>(row);
    return largest ? scan<true>(p, begin, n, threshold, places)
                   : scan<false>(p, begin, n, threshold, places);
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
