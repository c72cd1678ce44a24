// Matrix products with weights that are packed once and used often: rows of A, read where they are,
// with all columns of B. For *.simd.cpp files only.
#pragma once

#include <algorithm>

#include "core/kernels/cpu/gemm_tile.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

constexpr std::int64_t kHalfLanes = kLanes<float> / 2;
typedef float HalfVec __attribute__((vector_size(kBytes / 2)));

// What becomes of the sums of a tile.
struct TileEnd {
  const float* bias;     // a number for each column
  bool add = false;      // what C holds
  bool bounded = false;  // to [low, high]; NaN stays, and -0 is a bound of 0
  float low = 0, high = 0;
};

template <class V>
[[gnu::always_inline]] inline void put_sums(V v, const TileEnd& end, float* to) {
  if (end.add) {
    V held;
    __builtin_memcpy(&held, to, sizeof held);
    v += held;
  }
  if (end.bounded) {
    const V low = end.low - V{}, high = end.high - V{};
    v = v <= low ? low : v;
    v = v >= high ? high : v;
  }
  __builtin_memcpy(to, &v, sizeof v);
}

// C[0:Rows, 0:Halves * kHalfLanes] = A B + bias, for B of so many columns. A vector and a half take
// 3/4 of the time of two: the halves run two at a time.
template <int Rows, int Halves>
[[gnu::noinline]] void half_tile(std::int64_t depth, const float* a, std::int64_t a_row,
                                 const float* b, float* c, std::int64_t c_row, const TileEnd& end) {
  constexpr int kFull = Halves / 2;
  Vec<float> full[Rows][kFull + 1];
  HalfVec half[Rows];
#pragma GCC unroll 12
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kFull; ++j) full[i][j] = load(end.bias + j * kLanes<float>);
    if constexpr (Halves % 2 == 1) {
      __builtin_memcpy(&half[i], end.bias + kFull * kLanes<float>, sizeof half[i]);
    }
  }
  constexpr int kBases = (Rows + 2) / 3;
  const float* base[kBases];
  for (int i = 0; i < kBases; ++i) base[i] = a + 3 * i * a_row;
  for (std::int64_t p = 0; p < depth; ++p) {
    Vec<float> bv[kFull + 1];
    HalfVec bh{};
#pragma GCC unroll 2
    for (int j = 0; j < kFull; ++j) bv[j] = load(b + j * kLanes<float>);
    if constexpr (Halves % 2 == 1) __builtin_memcpy(&bh, b + kFull * kLanes<float>, sizeof bh);
#pragma GCC unroll 12
    for (int i = 0; i < Rows; ++i) {
      const float av = base[i / 3][i % 3 * a_row];
#pragma GCC unroll 2
      for (int j = 0; j < kFull; ++j) full[i][j] += (av - Vec<float>{}) * bv[j];
      if constexpr (Halves % 2 == 1) half[i] += (av - HalfVec{}) * bh;
    }
#pragma GCC unroll 4
    for (int i = 0; i < kBases; ++i) ++base[i];
    b += Halves * kHalfLanes;
  }
#pragma GCC unroll 12
  for (int i = 0; i < Rows; ++i) {
    float* const to = c + i * c_row;
#pragma GCC unroll 2
    for (int j = 0; j < kFull; ++j) put_sums(full[i][j], end, to + j * kLanes<float>);
    if constexpr (Halves % 2 == 1) put_sums(half[i], end, to + kFull * kLanes<float>);
  }
}

using HalfTile = void (*)(std::int64_t, const float*, std::int64_t, const float*, float*,
                          std::int64_t, const TileEnd&);
// half_tiles[rows - 1][halves - 1]
#define MGE_HALF_TILES(rows) \
  {half_tile<rows, 1>, half_tile<rows, 2>, half_tile<rows, 3>, half_tile<rows, 4>}
constexpr HalfTile half_tiles[kMaxRows][4] = {
    MGE_HALF_TILES(1),  MGE_HALF_TILES(2),  MGE_HALF_TILES(3),
    MGE_HALF_TILES(4),  MGE_HALF_TILES(5),  MGE_HALF_TILES(6),
#if defined(__AVX512F__)
    MGE_HALF_TILES(7),  MGE_HALF_TILES(8),  MGE_HALF_TILES(9),
    MGE_HALF_TILES(10), MGE_HALF_TILES(11), MGE_HALF_TILES(12),
#endif
};
#undef MGE_HALF_TILES

// B of k rows and n columns, where n is a multiple of kHalfLanes, as k * n numbers: panels of up to
// four halves, row by row. `at(row, column)` gives an element.
template <class F>
void pack_columns(std::int64_t k, std::int64_t n, float* to, F&& at) {
  for (std::int64_t j0 = 0; j0 < n; j0 += 4 * kHalfLanes) {
    const std::int64_t width = std::min(4 * kHalfLanes, n - j0);
    for (std::int64_t p = 0; p < k; ++p) {
      for (std::int64_t j = 0; j < width; ++j) *to++ = at(p, j0 + j);
    }
  }
}

// C = A B, with that end, for `rows` rows. The rows of a tile go through all of B's depth, so that
// the order of each sum is that of the depth.
inline void packed_product(std::int64_t rows, std::int64_t k, std::int64_t n, const float* a,
                           std::int64_t a_row, const float* packed, float* c, std::int64_t c_row,
                           TileEnd end) {
  const std::int64_t count = (rows + kMaxRows - 1) / kMaxRows;
  for (std::int64_t j = 0; j < n; j += 4 * kHalfLanes) {
    const std::int64_t halves = std::min<std::int64_t>(4, (n - j) / kHalfLanes);
    for (std::int64_t t = 0; t < count; ++t) {
      const std::int64_t i = rows * t / count, height = rows * (t + 1) / count - i;
      half_tiles[height - 1][halves - 1](k, a + i * a_row, a_row, packed + j * k, c + i * c_row + j,
                                         c_row, end);
    }
    end.bias += 4 * kHalfLanes;
  }
}

}  // namespace
}  // namespace mge::cpu::MGE_SIMD_NS
