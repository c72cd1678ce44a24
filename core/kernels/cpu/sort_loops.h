// The inner loops of sorting and selection, one build for each instruction set (sort.simd.cpp).
//
// A word holds the key of an element above the position it came from, so that all words of a row
// differ, and any way of sorting them is stable.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// The words of n elements of up to 4 bytes, `step` elements apart, and back: the elements and the
// positions of sorted words.
MGE_DECLARE_SIMD(void, words_from_row,
                 (const void* row, DType dtype, std::int64_t step, std::int64_t n, bool descending,
                  std::int64_t* words));
MGE_DECLARE_SIMD(void, row_from_words,
                 (const void* row, DType dtype, std::int64_t step, const std::int64_t* words,
                  std::int64_t n, void* values, std::int32_t* indices));

// Sorts n words, ascending. `spare` has room for n + kSortPadding words, `words` for as many.
MGE_DECLARE_SIMD(void, sort_words, (std::int64_t* words, std::int64_t* spare, std::int64_t n));

// Brings the k smallest of n words to the front, in any order; k < n.
MGE_DECLARE_SIMD(void, select_words,
                 (std::int64_t* words, std::int64_t* spare, std::int64_t n, std::int64_t k));

// Parts words into those below a pivot near their median and the rest; returns how many are below,
// which is neither none nor all. n >= 16.
MGE_DECLARE_SIMD(std::int64_t, partition_words,
                 (std::int64_t* words, std::int64_t* spare, std::int64_t n));
inline constexpr std::int64_t kSortPadding = 8;

// Elements are looked at in blocks of so many.
inline constexpr std::int64_t kScanBlock = 64;

// The first block of row[begin ... n) that holds candidates: elements that may be larger (smaller)
// than row[threshold], or NaN. Their places in the block go to `places`, which has room for
// kScanBlock. Where there is none, the block is empty and at n.
struct Candidates {
  std::int64_t begin, end, found;
};
MGE_DECLARE_SIMD(Candidates, next_candidates,
                 (const void* row, DType dtype, std::int64_t begin, std::int64_t n,
                  std::int64_t threshold, bool largest, std::int32_t* places));

}  // namespace mge::cpu
