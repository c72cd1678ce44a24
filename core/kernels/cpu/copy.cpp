#include "core/kernels/cpu/copy.h"

#include <algorithm>
#include <cstring>

#include "core/kernels/cpu/copy_kernels.h"
#include "core/kernels/cpu/nd_loop.h"
#include "core/kernels/cpu/parallel.h"
#include "core/runtime/allocator.h"

namespace mge::cpu {
namespace {

using Loop = NdLoop<2>;  // operand 0 is out, 1 is in

// A thread is worth starting for this many bytes.
constexpr std::int64_t kThreadBytes = std::int64_t{1} << 18;
// Rows are cut into blocks of so many elements: the unit of work, and of
// conversion through L1.
constexpr std::int64_t kRow = 2048;
// Square tiles of a transpose: few enough pages for the TLB, and both tiles fit
// L2.
constexpr std::int64_t kTile = 128;

// ---- transposes of blocks, in 16-byte vectors
// --------------------------------------------------

template <class T>
struct Vector16 {
  static constexpr int lanes = 16 / sizeof(T);
  using type [[gnu::vector_size(16)]] = T;
};

// The first (or last) halves of a and b, interleaved.
template <class V, std::size_t... I>
V zip_low(V a, V b, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b, (I / 2 + (I % 2) * sizeof...(I))...);
}
template <class V, std::size_t... I>
V zip_high(V a, V b, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b, (sizeof...(I) / 2 + I / 2 + (I % 2) * sizeof...(I))...);
}

// out[j * out_step + i] = in[i * in_step + j] for i, j below the lanes of a
// vector. Each round interleaves row i with row i + lanes / 2; after
// log2(lanes) rounds rows are columns.
template <class T>
void transpose_square(const T* in, std::int64_t in_step, T* out, std::int64_t out_step) {
  constexpr int n = Vector16<T>::lanes;
  constexpr auto lanes = std::make_index_sequence<n>{};
  typename Vector16<T>::type a[n], b[n];
  for (int i = 0; i < n; ++i) std::memcpy(&a[i], in + i * in_step, 16);
  for (int round = 1; round < n; round *= 2) {
    for (int i = 0; i < n / 2; ++i) {
      b[2 * i] = zip_low(a[i], a[i + n / 2], lanes);
      b[2 * i + 1] = zip_high(a[i], a[i + n / 2], lanes);
    }
    for (int i = 0; i < n; ++i) a[i] = b[i];
  }
  for (int i = 0; i < n; ++i) std::memcpy(out + i * out_step, &a[i], 16);
}

// out[j * out_step + i] = in[i * in_step + j] for i < n, j < m.
template <class T>
  requires(sizeof(T) < 16)
void transpose_tile(const T* in, std::int64_t in_step, T* out, std::int64_t out_step,
                    std::int64_t n, std::int64_t m) {
  constexpr std::int64_t v = Vector16<T>::lanes;
  constexpr std::int64_t line = 64 / sizeof(T), ahead = 4 * line;
  const std::int64_t full_n = n - n % v, full_m = m - m % v;
  // As many rows of `in` as fill a cache line of `out` at a time: few enough streams for the
  // hardware to fetch ahead, which it is helped with where they are about to begin.
  for (std::int64_t i0 = 0; i0 < full_n; i0 += line) {
    const std::int64_t i1 = std::min(i0 + line, full_n);
    for (std::int64_t j = 0; j < full_m; j += v) {
      if (j % line == 0) {
        for (std::int64_t i = i0; i < i1; ++i) __builtin_prefetch(in + i * in_step + j + ahead);
      }
      for (std::int64_t i = i0; i < i1; i += v) {
        transpose_square(in + i * in_step + j, in_step, out + j * out_step + i, out_step);
      }
    }
  }
  for (std::int64_t j = 0; j < full_m; ++j) {
    for (std::int64_t i = full_n; i < n; ++i) out[j * out_step + i] = in[i * in_step + j];
  }
  for (std::int64_t j = full_m; j < m; ++j) {
    for (std::int64_t i = 0; i < n; ++i) out[j * out_step + i] = in[i * in_step + j];
  }
}

// Elements of 16 bytes are vectors themselves: line by line.
void transpose_tile(const Word128* in, std::int64_t in_step, Word128* out, std::int64_t out_step,
                    std::int64_t n, std::int64_t m) {
  constexpr std::int64_t line = 4;
  for (std::int64_t j0 = 0; j0 < m; j0 += line) {
    const std::int64_t j1 = std::min(j0 + line, m);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = j0; j < j1; ++j) out[j * out_step + i] = in[i * in_step + j];
    }
  }
}

// ---- rows
// -----------------------------------------------------------------------------------------

template <class T>
void copy_row(const T* in, std::int64_t in_step, T* out, std::int64_t out_step, std::int64_t n) {
  if (out_step == 1 && in_step == 1) {
    if (n * static_cast<std::int64_t>(sizeof(T)) >= 128) {
      std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(T));
    } else {
      for (std::int64_t i = 0; i < n; ++i) out[i] = in[i];
    }
  } else if (out_step == 1 && in_step == 0) {
    std::fill_n(out, n, *in);
  } else if (out_step == 1) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = in[i * in_step];
  } else {
    for (std::int64_t i = 0; i < n; ++i) out[i * out_step] = in[i * in_step];
  }
}

// Interleaves `Columns` rows of `in`, m long: a transpose that is too narrow
// for vectors.
template <int Columns, class T>
void interleave(const T* in, std::int64_t in_step, T* out, std::int64_t out_step, std::int64_t m) {
  for (std::int64_t j = 0; j < m; ++j) {
    for (int i = 0; i < Columns; ++i) out[j * out_step + i] = in[i * in_step + j];
  }
}

// Which two axes a loop is best copied over.
struct Plan {
  bool transpose = false;
  int other = 1;  // the axis along which `in` runs by ones, when transposing;
                  // the second axis else
};

Plan make_plan(const Loop& loop) {
  Plan plan;
  if (loop.ndim < 2 || loop.stride[0][0] != 1) return plan;
  const std::int64_t inner = std::abs(loop.stride[1][0]);
  if (inner == 1 || inner == 0) return plan;
  for (int axis = 1; axis < loop.ndim; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    if (loop.stride[1][a] == 1 && loop.size[a] >= 4) return {true, axis};
  }
  return plan;
}

// Puts axis `from` at place `to`, keeping the order of the others.
void move_axis(Loop& loop, int from, int to) {
  const auto rotate = [&](auto& list) {
    std::rotate(list.begin() + to, list.begin() + from, list.begin() + from + 1);
  };
  rotate(loop.size);
  for (auto& s : loop.stride) rotate(s);
}

template <class T>
void copy_transposed(const Loop& loop, const T* in, T* out) {
  const std::int64_t n = loop.size[0], m = loop.size[1];
  const std::int64_t in_step = loop.stride[1][0], out_step = loop.stride[0][1];
  const std::int64_t tile_n = kTile, tile_m = n < kTile ? kTile * 8 : kTile;
  const std::int64_t tiles_n = (n + tile_n - 1) / tile_n, tiles_m = (m + tile_m - 1) / tile_m;
  std::int64_t outer = 1;
  for (int i = 2; i < loop.ndim; ++i) outer *= loop.size[static_cast<std::size_t>(i)];
  const std::int64_t tile_bytes =
      std::min(n, tile_n) * std::min(m, tile_m) * static_cast<std::int64_t>(sizeof(T));
  const auto run = [&](std::int64_t begin, std::int64_t end) {
    NdWalk<2> walk(loop, 2, begin / (tiles_n * tiles_m));
    std::int64_t tile = begin % (tiles_n * tiles_m);
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t i = tile % tiles_n * tile_n, j = tile / tiles_n * tile_m;
      const std::int64_t some_n = std::min(tile_n, n - i), some_m = std::min(tile_m, m - j);
      const T* from = in + walk.offset[1] + i * in_step + j;
      T* to = out + walk.offset[0] + j * out_step + i;
      switch (n) {
        case 2:
          interleave<2>(from, in_step, to, out_step, some_m);
          break;
        case 3:
          interleave<3>(from, in_step, to, out_step, some_m);
          break;
        default:
          transpose_tile(from, in_step, to, out_step, some_n, some_m);
      }
      if (++tile == tiles_n * tiles_m) {
        tile = 0;
        walk.next();
      }
    }
  };
  parallel_for(outer * tiles_n * tiles_m, std::max<std::int64_t>(1, kThreadBytes / tile_bytes),
               run);
}

// Calls row(out offset, in offset, length) for pieces of rows along axis 0;
// axis 1 is a loop of its own, so that many short rows cost little.
template <class Row>
void for_rows(const Loop& loop, std::int64_t bytes_per_element, Row row) {
  const std::int64_t n = loop.size_or_1(0), rows = loop.size_or_1(1);
  const std::int64_t in0 = loop.stride_or_0(1, 0), out0 = loop.stride_or_0(0, 0);
  const std::int64_t in1 = loop.stride_or_0(1, 1), out1 = loop.stride_or_0(0, 1);
  std::int64_t outer = 1;
  for (int i = 2; i < loop.ndim; ++i) outer *= loop.size[static_cast<std::size_t>(i)];
  const std::int64_t pieces = (n + kRow - 1) / kRow;
  const std::int64_t piece_bytes = std::min(n, kRow) * bytes_per_element;
  const auto run = [&](std::int64_t begin, std::int64_t end) {
    std::int64_t piece = begin % pieces, r = begin / pieces % rows;
    NdWalk<2> walk(loop, 2, begin / pieces / rows);
    for (std::int64_t unit = begin; unit < end;) {
      const std::int64_t i = piece * kRow;
      // A run of whole rows, or of one row's remaining pieces.
      const std::int64_t stop = pieces == 1 ? std::min(rows, r + end - unit) : r + 1;
      for (std::int64_t q = r; q < stop; ++q) {
        row(walk.offset[0] + q * out1 + i * out0, walk.offset[1] + q * in1 + i * in0,
            std::min(kRow, n - i));
      }
      if (pieces == 1) {
        unit += stop - r;
        r = stop;
      } else {
        ++unit;
        if (++piece == pieces) {
          piece = 0;
          ++r;
        }
      }
      if (r == rows) {
        r = 0;
        walk.next();
      }
    }
  };
  parallel_for(outer * rows * pieces, std::max<std::int64_t>(1, kThreadBytes / piece_bytes), run);
}

void copy_same_type(Loop& loop, const void* in_data, void* out_data, DType dtype) {
  const Plan plan = make_plan(loop);
  if (plan.transpose && plan.other != 1) move_axis(loop, plan.other, 1);
  visit_width(dtype, [&]<class T>(Tag<T>) {
    const T* in = static_cast<const T*>(in_data);
    T* out = static_cast<T*>(out_data);
    if (plan.transpose) return copy_transposed(loop, in, out);
    const std::int64_t in0 = loop.stride_or_0(1, 0), out0 = loop.stride_or_0(0, 0);
    for_rows(loop, sizeof(T), [=](std::int64_t to, std::int64_t from, std::int64_t n) {
      copy_row(in + from, in0, out + to, out0, n);
    });
  });
}

const void* advance(const void* p, std::int64_t bytes) {
  return static_cast<const char*>(p) + bytes;
}
void* advance(void* p, std::int64_t bytes) { return static_cast<char*>(p) + bytes; }

// Gathers, converts and scatters through buffers in L1; rows that are
// contiguous skip that.
void convert_strided(Loop& loop, const View& in, const MutView& out) {
  const std::int64_t in_size = size_of(in.dtype), out_size = size_of(out.dtype);
  const std::int64_t in0 = loop.stride_or_0(1, 0), out0 = loop.stride_or_0(0, 0);
  for_rows(loop, in_size + out_size, [&](std::int64_t to, std::int64_t from, std::int64_t n) {
    alignas(64) char gathered[kRow * 16], converted[kRow * 16];
    const void* source = advance(in.data, from * in_size);
    void* target = advance(out.data, to * out_size);
    if (in0 != 1) {
      visit_width(in.dtype, [&]<class T>(Tag<T>) {
        copy_row(static_cast<const T*>(source), in0, reinterpret_cast<T*>(gathered), 1, n);
      });
      source = gathered;
    }
    convert(source, in.dtype, out0 == 1 ? target : converted, out.dtype, n);
    if (out0 != 1) {
      visit_width(out.dtype, [&]<class T>(Tag<T>) {
        copy_row(reinterpret_cast<const T*>(converted), 1, static_cast<T*>(target), out0, n);
      });
    }
  });
}

void copy_flat(const void* in, DType from, void* out, DType to, std::int64_t n) {
  const std::int64_t in_size = size_of(from), out_size = size_of(to);
  parallel_for(n, kThreadBytes / (in_size + out_size), [=](std::int64_t begin, std::int64_t end) {
    convert(advance(in, begin * in_size), from, advance(out, begin * out_size), to, end - begin);
  });
}

// Complex numbers from others, or from real ones, through a block in L1.
void convert_to_complex(const void* in, DType from, void* out, DType to, std::int64_t n) {
  const DType part = part_dtype(to);
  if (is_complex(from)) return convert(in, part_dtype(from), out, part, 2 * n);
  alignas(64) std::uint64_t block[512];
  const auto widen = [&]<class T>(Tag<T>, std::int64_t at, std::int64_t some) {
    T* pairs = static_cast<T*>(out) + 2 * at;
    for (std::int64_t i = 0; i < some; ++i) {
      pairs[2 * i] = reinterpret_cast<const T*>(block)[i];
      pairs[2 * i + 1] = 0;
    }
  };
  for (std::int64_t at = 0; at < n; at += 512) {
    const std::int64_t some = std::min<std::int64_t>(512, n - at);
    convert(advance(in, at * size_of(from)), from, block, part, some);
    if (to == DType::complex64) {
      widen(Tag<float>{}, at, some);
    } else {
      widen(Tag<double>{}, at, some);
    }
  }
}

void check_parts(DType from, DType to) {
  if (is_complex(from) && !is_complex(to)) {
    fail_type("copy", from, " does not convert to ", to,
              ", which would drop its imaginary part; take F.real or F.imag");
  }
}

}  // namespace

void convert(const void* in, DType from, void* out, DType to, std::int64_t n) {
  if (n <= 0) return;
  if (is_complex(to) && from != to) return convert_to_complex(in, from, out, to, n);
  MGE_DISPATCH(convert_contiguous)(in, from, out, to, n);
}

void copy(const View& in, const MutView& out) {
  check_parts(in.dtype, out.dtype);
  const std::int64_t n = out.size();
  if (n == 0) return;
  const Strides in_strides = broadcast_strides(in.shape, in.strides, out.shape);
  const std::array<const Strides*, 2> strides{&out.strides, &in_strides};
  Loop loop(out.shape, strides);
  if (loop.flat()) {
    return copy_flat(advance(in.data, loop.start[1] * size_of(in.dtype)), in.dtype,
                     advance(out.data, loop.start[0] * size_of(out.dtype)), out.dtype, n);
  }
  if (in.dtype == out.dtype) return copy_same_type(loop, in.data, out.data, in.dtype);
  if (!make_plan(loop).transpose) return convert_strided(loop, in, out);
  // Converts in the input's own order, which is a pass over memory, then
  // transposes.
  const Scratch scratch(static_cast<std::size_t>(n * size_of(out.dtype)));
  const MutView between{scratch.as<void>(), out.dtype, out.shape,
                        dense_like(out.shape, in_strides)};
  Loop first(out.shape, std::array<const Strides*, 2>{&between.strides, &in_strides});
  convert_strided(first, in, between);
  copy(between, out);
}

}  // namespace mge::cpu
