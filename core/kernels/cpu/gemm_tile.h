// The innermost part of a matrix product: a tile of C that stays in registers while columns of A
// and rows of B stream past it; and the packing of operands for it. For *.simd.cpp files only.
#pragma once

#include <cstdint>
#include <utility>

#include "core/kernels/cpu/vectors.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

#if defined(__AVX512F__)
constexpr int kMaxRows = 12;  // 12 x 2 accumulators of 32 registers
#else
constexpr int kMaxRows = 6;  // 6 x 2 of 16
#endif

template <class T>
constexpr int kTileCols = 2 * kLanes<T>;

// What a tile does beside its product.
template <class T>
struct TileEnds {
  bool accumulate = false;   // adds to what C holds
  const T* bias = nullptr;   // a number for each column
  const T* ahead = nullptr;  // is wanted soon: `ahead_step` elements of it are fetched for each of
  std::int64_t ahead_step = 0;  // the depth
};

template <class V, class T>
[[gnu::always_inline]] inline V load_as(const T* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

// C[0:Rows, 0:Cols * lanes] = (or +=) the product of `depth` columns of A and rows of B, in vectors
// of type V. Three rows of A share a base pointer, so that all addresses fit in the registers.
// Plain: the product alone, of what is near; the rest takes 3 % at a depth of 64.
template <class T, int Rows, int Cols, class V = Vec<T>, bool Plain = false>
[[gnu::noinline]] void tile(std::int64_t depth, const T* a, std::int64_t a_row, std::int64_t a_col,
                            const T* b, std::int64_t b_row, T* c, std::int64_t c_row,
                            const TileEnds<T>& ends) {
  constexpr int kWidth = sizeof(V) / sizeof(T);
  V acc[Rows][Cols];
#pragma GCC unroll 12
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < Cols; ++j) {
      acc[i][j] = !Plain && ends.bias ? load_as<V>(ends.bias + j * kWidth) : V{};
      // C comes from afar: the loop has the time to wait for it.
      if (!Plain) __builtin_prefetch(c + i * c_row + j * kWidth, 1);
    }
  }
  constexpr int kBases = (Rows + 2) / 3;
  const T* base[kBases];
  for (int i = 0; i < kBases; ++i) base[i] = a + 3 * i * a_row;
  const T* ahead = ends.ahead ? ends.ahead : b;
  const std::int64_t ahead_step = ends.ahead_step;
  for (std::int64_t p = 0; p < depth; ++p) {
    V bv[Cols];
#pragma GCC unroll 4
    for (int j = 0; j < Cols; ++j) bv[j] = load_as<V>(b + j * kWidth);
    if (!Plain) __builtin_prefetch(ahead);
    ahead += ahead_step;
#pragma GCC unroll 12
    for (int i = 0; i < Rows; ++i) {
      // A broadcast: less 0, which changes nothing, where more 0 would change the sign of -0.
      const V av = base[i / 3][i % 3 * a_row] - V{};
#pragma GCC unroll 4
      for (int j = 0; j < Cols; ++j) acc[i][j] += av * bv[j];
    }
#pragma GCC unroll 4
    for (int i = 0; i < kBases; ++i) base[i] += a_col;
    b += b_row;
  }
  const bool accumulate = !Plain && ends.accumulate;
#pragma GCC unroll 12
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < Cols; ++j) {
      T* to = c + i * c_row + j * kWidth;
      const V sum = accumulate ? load_as<V>(to) + acc[i][j] : acc[i][j];
      __builtin_memcpy(to, &sum, sizeof sum);
    }
  }
}

template <class T>
using Tile = void (*)(std::int64_t, const T*, std::int64_t, std::int64_t, const T*, std::int64_t,
                      T*, std::int64_t, const TileEnds<T>&);

// tiles<T>[rows - 1][vectors - 1]
template <class T>
constexpr Tile<T> tiles[kMaxRows][2] = {
    {tile<T, 1, 1>, tile<T, 1, 2>},   {tile<T, 2, 1>, tile<T, 2, 2>},
    {tile<T, 3, 1>, tile<T, 3, 2>},   {tile<T, 4, 1>, tile<T, 4, 2>},
    {tile<T, 5, 1>, tile<T, 5, 2>},   {tile<T, 6, 1>, tile<T, 6, 2>},
#if defined(__AVX512F__)
    {tile<T, 7, 1>, tile<T, 7, 2>},   {tile<T, 8, 1>, tile<T, 8, 2>},
    {tile<T, 9, 1>, tile<T, 9, 2>},   {tile<T, 10, 1>, tile<T, 10, 2>},
    {tile<T, 11, 1>, tile<T, 11, 2>}, {tile<T, 12, 1>, tile<T, 12, 2>},
#endif
};

// plain_tiles<T>.at[rows - 1][0, 1, 2]: half a vector wide, one and two.
template <class T>
struct PlainTiles {
  Tile<T> at[kMaxRows][3];
};
template <class T>
constexpr PlainTiles<T> plain_tiles = []<int... rows>(std::integer_sequence<int, rows...>) {
  typedef T Half [[gnu::vector_size(kBytes / 2)]];
  return PlainTiles<T>{{{tile<T, rows + 1, 1, Half, true>, tile<T, rows + 1, 1, Vec<T>, true>,
                         tile<T, rows + 1, 2, Vec<T>, true>}...}};
}(std::make_integer_sequence<int, kMaxRows>());

// ---- packing ------------------------------------------------------------------------------------

// Turns 4 runs of 4 words (2 of 2 for 8 bytes) into 4 rows of 4, in registers.
template <class T>
[[gnu::always_inline]] inline void transpose_block(const T* from, std::int64_t from_run, T* to,
                                                   std::int64_t to_row) {
  typedef T V [[gnu::vector_size(16)]];
  if constexpr (sizeof(T) == 4) {
    typedef std::int32_t I [[gnu::vector_size(16)]];
    V r[4];
    for (int i = 0; i < 4; ++i) __builtin_memcpy(&r[i], from + i * from_run, 16);
    const V lo01 = __builtin_shuffle(r[0], r[1], I{0, 4, 1, 5});
    const V hi01 = __builtin_shuffle(r[0], r[1], I{2, 6, 3, 7});
    const V lo23 = __builtin_shuffle(r[2], r[3], I{0, 4, 1, 5});
    const V hi23 = __builtin_shuffle(r[2], r[3], I{2, 6, 3, 7});
    const V out[4] = {
        __builtin_shuffle(lo01, lo23, I{0, 1, 4, 5}), __builtin_shuffle(lo01, lo23, I{2, 3, 6, 7}),
        __builtin_shuffle(hi01, hi23, I{0, 1, 4, 5}), __builtin_shuffle(hi01, hi23, I{2, 3, 6, 7})};
    for (int i = 0; i < 4; ++i) __builtin_memcpy(to + i * to_row, &out[i], 16);
  } else {
    typedef std::int64_t I [[gnu::vector_size(16)]];
    V r[2];
    for (int i = 0; i < 2; ++i) __builtin_memcpy(&r[i], from + i * from_run, 16);
    const V out[2] = {__builtin_shuffle(r[0], r[1], I{0, 2}),
                      __builtin_shuffle(r[0], r[1], I{1, 3})};
    for (int i = 0; i < 2; ++i) __builtin_memcpy(to + i * to_row, &out[i], 16);
  }
}

// to[p * width + i] = from[i * step + p * deep] for i < count; zeros for count <= i < width.
template <class T>
void pack(T* to, int width, const T* from, std::int64_t step, std::int64_t deep, int count,
          std::int64_t depth) {
  if (count < width) {
    for (std::int64_t p = 0; p < depth; ++p) {
      for (int i = count; i < width; ++i) to[p * width + i] = T{};
    }
  }
  if (step == 1) {
    for (std::int64_t p = 0; p < depth; ++p) {
      const T* row = from + p * deep;
      T* out = to + p * width;
      for (int i = 0; i < count; ++i) out[i] = row[i];
    }
    return;
  }
  constexpr int kSide = 16 / static_cast<int>(sizeof(T));
  constexpr std::int64_t kStrip = 64;  // of the depth: what is written stays in the first cache
  const int whole = deep == 1 ? count / kSide * kSide : 0;
  for (std::int64_t p0 = 0; p0 < depth; p0 += kStrip) {
    const std::int64_t p1 = p0 + kStrip < depth ? p0 + kStrip : depth;
    for (int i = 0; i < whole; i += kSide) {
      std::int64_t p = p0;
      for (; p + kSide <= p1; p += kSide) {
        transpose_block(from + i * step + p, step, to + p * width + i, width);
      }
      for (; p < p1; ++p) {
        for (int q = i; q < i + kSide; ++q) to[p * width + q] = from[q * step + p];
      }
    }
    for (int i = whole; i < count; ++i) {
      for (std::int64_t p = p0; p < p1; ++p) to[p * width + i] = from[i * step + p * deep];
    }
  }
}

}  // namespace
}  // namespace mge::cpu::MGE_SIMD_NS
