// The loops of indexing.cpp, built for each instruction set. Offsets and strides are in elements.
#pragma once

#include <cstdint>

#include "core/kernels/cpu/simd.h"
#include "core/tensor/dtype.h"

namespace mge::cpu {

// Positions along one axis: n contiguous int32 or int64.
struct IndexArray {
  const void* data;
  bool wide;            // int64
  std::int64_t size;    // of the axis
  std::int64_t stride;  // of the axis
};

// Rows of `a` elements: of a tensor at offB[b] + off[i] (+ offA[j] where the row is not
// contiguous), and of a packed one at row[i] * a (i where row is null) in a batch of `batch`
// elements.
struct RowTile {
  std::int64_t width;  // bytes of an element
  const std::int64_t* off_b;
  std::int64_t b_begin, b_end;
  const std::int64_t* off;
  const std::int64_t* row;
  std::int64_t n;
  const std::int64_t* off_a;
  std::int64_t a_begin, a_end, a;
  std::int64_t batch;
  bool same_row;  // the packed tensor is one row, for all
};

// Segments of rows with one destination: the rows order[seg[s]] ... order[seg[s + 1] - 1] (order
// may be null) are added to the row at off[of its first].
struct AddTile {
  DType dtype;
  const std::int64_t* off_b;
  std::int64_t b_begin, b_end;
  const std::int64_t* off;
  const std::int64_t* order;
  const std::int64_t* seg;
  std::int64_t seg_begin, seg_end;
  const std::int64_t* off_a;
  std::int64_t a_begin, a_end, a;
  std::int64_t batch;
  bool same_row;
};

// Short rows, added in double to sums for every key at once: element j of row i of the packed
// values belongs to sums[key[i] - key_begin][j]. at[key] is the key's place in the tensor.
struct SumTile {
  DType dtype;
  const std::int64_t* key;
  const std::int64_t* at;
  std::int64_t n, key_begin, key_end;
  const std::int64_t* off_a;
  std::int64_t a;
  bool same_row;
};

// Lines along an axis: element (m, j) of the index is at at_index[m] + j * index_step; likewise for
// the tensor's line and for the packed values.
struct AlongTile {
  const std::int64_t* at_x;
  const std::int64_t* at_index;
  const std::int64_t* at_v;
  std::int64_t m, n;  // lines, positions in each
  std::int64_t x_step, index_step, v_step;
  std::int64_t size;  // of the axis
  bool wide;          // int64 positions
  bool lines_inner;   // the neighbouring element is in the next line
};

MGE_DECLARE_SIMD(void, index_range,
                 (const void* index, bool wide, std::int64_t n, std::int64_t* low,
                  std::int64_t* high));
MGE_DECLARE_SIMD(void, resolve_indices,
                 (const IndexArray* arrays, int count, std::int64_t begin, std::int64_t n,
                  std::int64_t* out));
MGE_DECLARE_SIMD(void, take_rows, (const RowTile& tile, const void* x, void* out));
MGE_DECLARE_SIMD(void, put_rows, (const RowTile& tile, void* x, const void* v));
MGE_DECLARE_SIMD(void, add_rows, (const AddTile& tile, void* x, const void* v));
// sums holds (key_end - key_begin) * a doubles; keys outside the range are left alone. Float
// dtypes.
MGE_DECLARE_SIMD(void, add_short_rows, (const SumTile& tile, void* x, const void* v, double* sums));
MGE_DECLARE_SIMD(void, take_lines,
                 (const AlongTile& tile, std::int64_t width, const void* x, const void* index,
                  void* out));
MGE_DECLARE_SIMD(void, put_lines,
                 (const AlongTile& tile, std::int64_t width, void* x, const void* index,
                  const void* v));
// `sums` holds m * size doubles, for float dtypes where n > 1.
MGE_DECLARE_SIMD(void, add_lines,
                 (const AlongTile& tile, DType dtype, void* x, const void* index, const void* v,
                  double* sums));
MGE_DECLARE_SIMD(std::int64_t, count_true, (const std::uint8_t* mask, std::int64_t n));
// The positions, counted from `begin`, of the n true elements of a mask.
MGE_DECLARE_SIMD(void, true_positions,
                 (const std::uint8_t* mask, std::int64_t begin, std::int64_t n, bool wide,
                  void* out));

}  // namespace mge::cpu
