#include <cstring>

#include "core/kernels/cpu/indexing_loops.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

constexpr std::int64_t kAhead = 8;      // rows that are fetched ahead of use
constexpr std::int64_t kColumns = 256;  // that are summed at a time

template <class I>
void range(const I* index, std::int64_t n, std::int64_t* low, std::int64_t* high) {
  I lo = index[0], hi = index[0];
  for (std::int64_t i = 1; i < n; ++i) {
    lo = index[i] < lo ? index[i] : lo;
    hi = index[i] > hi ? index[i] : hi;
  }
  *low = lo;
  *high = hi;
}

template <class I>
std::int64_t wrap(I i, std::int64_t size) {
  const std::int64_t j = static_cast<std::int64_t>(i);
  return j + (j < 0 ? size : 0);
}

template <class I>
void resolve(const IndexArray& a, const I* index, std::int64_t n, bool first, std::int64_t* out) {
  if (first) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = wrap(index[i], a.size) * a.stride;
  } else {
    for (std::int64_t i = 0; i < n; ++i) out[i] += wrap(index[i], a.size) * a.stride;
  }
}

// Calls f with an unsigned integer as wide as the elements.
template <class F>
void with_width(std::int64_t width, F&& f) {
  switch (width) {
    case 1:
      return f(std::uint8_t{});
    case 2:
      return f(std::uint16_t{});
    case 4:
      return f(std::uint32_t{});
    case 16:
      return f(Word128{});
    default:
      return f(std::uint64_t{});
  }
}

template <class F>
void with_index(bool wide, const void* index, F&& f) {
  if (wide) {
    f(static_cast<const std::int64_t*>(index));
  } else {
    f(static_cast<const std::int32_t*>(index));
  }
}

// Copies rows of kBytes (of `bytes` where that is 0) between a tensor and packed rows.
template <int kBytes, bool kPut>
void copy_rows(const RowTile& t, char* x, char* packed) {
  const std::size_t bytes =
      kBytes ? kBytes : static_cast<std::size_t>((t.a_end - t.a_begin) * t.width);
  const std::int64_t packed_row = t.same_row ? 0 : t.a * t.width;
  for (std::int64_t b = t.b_begin; b < t.b_end; ++b) {
    char* const xb = x + (t.off_b[b] + t.a_begin) * t.width;
    char* const pb = packed + (t.same_row ? 0 : b * t.batch * t.width) + t.a_begin * t.width;
    for (std::int64_t i = 0; i < t.n; ++i) {
      if (i + kAhead < t.n) {
        const char* next = xb + t.off[i + kAhead] * t.width;
        __builtin_prefetch(next);
        if (bytes > 64) __builtin_prefetch(next + 64);
      }
      char* const in_x = xb + t.off[i] * t.width;
      char* const in_packed = pb + (t.row ? t.row[i] : i) * packed_row;
      if constexpr (kPut) {
        std::memcpy(in_x, in_packed, bytes);
      } else {
        std::memcpy(in_packed, in_x, bytes);
      }
    }
  }
}

template <bool kPut>
void scattered_rows(const RowTile& t, char* x, char* packed) {
  with_width(t.width, [&]<class T>(T) {
    const std::int64_t packed_row = t.same_row ? 0 : t.a;
    for (std::int64_t b = t.b_begin; b < t.b_end; ++b) {
      T* const xb = reinterpret_cast<T*>(x) + t.off_b[b];
      T* const pb = reinterpret_cast<T*>(packed) + (t.same_row ? 0 : b * t.batch);
      for (std::int64_t i = 0; i < t.n; ++i) {
        T* const in_x = xb + t.off[i];
        T* const in_packed = pb + (t.row ? t.row[i] : i) * packed_row;
        for (std::int64_t j = t.a_begin; j < t.a_end; ++j) {
          if constexpr (kPut) {
            in_x[t.off_a[j]] = in_packed[j];
          } else {
            in_packed[j] = in_x[t.off_a[j]];
          }
        }
      }
    }
  });
}

template <bool kPut>
void move_rows(const RowTile& t, char* x, char* packed) {
  if (t.off_a) return scattered_rows<kPut>(t, x, packed);
  switch ((t.a_end - t.a_begin) * t.width) {
    case 1:
      return copy_rows<1, kPut>(t, x, packed);
    case 2:
      return copy_rows<2, kPut>(t, x, packed);
    case 4:
      return copy_rows<4, kPut>(t, x, packed);
    case 8:
      return copy_rows<8, kPut>(t, x, packed);
    case 16:
      return copy_rows<16, kPut>(t, x, packed);
    case 32:
      return copy_rows<32, kPut>(t, x, packed);
    case 64:
      return copy_rows<64, kPut>(t, x, packed);
    case 128:
      return copy_rows<128, kPut>(t, x, packed);
    default:
      return copy_rows<0, kPut>(t, x, packed);
  }
}

// What sums of T are kept in until all terms are there.
template <class T>
struct Sum {
  static constexpr bool is_float = false;
};
template <>
struct Sum<float> {
  static constexpr bool is_float = true;
  static double load(float v) { return v; }
  static float store(double v) { return static_cast<float>(v); }
};
template <>
struct Sum<double> {
  static constexpr bool is_float = true;
  static double load(double v) { return v; }
  static double store(double v) { return v; }
};
template <>
struct Sum<Half> {
  static constexpr bool is_float = true;
  static double load(Half v) { return Half::decode(v.bits); }
  static Half store(double v) {
    Half out;
    out.bits = Half::encode(static_cast<float>(v));
    return out;
  }
};
template <>
struct Sum<BFloat16> {
  static constexpr bool is_float = true;
  static double load(BFloat16 v) { return BFloat16::decode(v.bits); }
  static BFloat16 store(double v) {
    BFloat16 out;
    out.bits = BFloat16::encode(static_cast<float>(v));
    return out;
  }
};

template <class T>
T add_one(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return a || b;
  } else if constexpr (Sum<T>::is_float) {
    return Sum<T>::store(Sum<T>::load(a) + Sum<T>::load(b));
  } else {
    // Integers wrap.
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }
}

template <class T>
void add_row(T* x, const std::int64_t* off_a, const T* v, std::int64_t n) {
  if (off_a) {
    for (std::int64_t j = 0; j < n; ++j) x[off_a[j]] = add_one(x[off_a[j]], v[j]);
  } else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    for (std::int64_t j = 0; j < n; ++j) x[j] += v[j];
  } else {
    for (std::int64_t j = 0; j < n; ++j) x[j] = add_one(x[j], v[j]);
  }
}

// x[j] += the sum over rows k in [begin, end) of v[row(k) * step + j], for at most kColumns
// columns.
template <class T>
void add_many(T* x, const std::int64_t* off_a, const T* v, const std::int64_t* order,
              std::int64_t begin, std::int64_t end, std::int64_t step, std::int64_t n) {
  if constexpr (Sum<T>::is_float) {
    double sums[kColumns];
    for (std::int64_t j = 0; j < n; ++j) sums[j] = Sum<T>::load(x[off_a ? off_a[j] : j]);
    for (std::int64_t k = begin; k < end; ++k) {
      const T* row = v + (order ? order[k] : k) * step;
      for (std::int64_t j = 0; j < n; ++j) sums[j] += Sum<T>::load(row[j]);
    }
    for (std::int64_t j = 0; j < n; ++j) x[off_a ? off_a[j] : j] = Sum<T>::store(sums[j]);
  } else {
    for (std::int64_t k = begin; k < end; ++k)
      add_row(x, off_a, v + (order ? order[k] : k) * step, n);
  }
}

template <class T>
void add_segments(const AddTile& t, T* x, const T* v) {
  const std::int64_t step = t.same_row ? 0 : t.a;
  for (std::int64_t b = t.b_begin; b < t.b_end; ++b) {
    const T* const vb = v + (t.same_row ? 0 : b * t.batch);
    for (std::int64_t s = t.seg_begin; s < t.seg_end; ++s) {
      const std::int64_t begin = t.seg[s], end = t.seg[s + 1];
      const std::int64_t first = t.order ? t.order[begin] : begin;
      T* const row = x + t.off_b[b] + t.off[first];
      for (std::int64_t a = t.a_begin; a < t.a_end; a += kColumns) {
        const std::int64_t n = t.a_end - a < kColumns ? t.a_end - a : kColumns;
        T* const to = t.off_a ? row : row + a;
        const std::int64_t* const off_a = t.off_a ? t.off_a + a : nullptr;
        if (end - begin == 1) {
          add_row(to, off_a, vb + first * step + a, n);
        } else {
          add_many(to, off_a, vb + a, t.order, begin, end, step, n);
        }
      }
    }
  }
}

template <class T>
void add_short(const SumTile& t, T* x, const T* v, double* sums) {
  const std::int64_t keys = t.key_end - t.key_begin, step = t.same_row ? 0 : t.a;
  const auto place = [&](std::int64_t k, std::int64_t j) {
    return t.at[t.key_begin + k] + (t.off_a ? t.off_a[j] : j);
  };
  for (std::int64_t k = 0; k < keys; ++k) {
    for (std::int64_t j = 0; j < t.a; ++j) sums[k * t.a + j] = Sum<T>::load(x[place(k, j)]);
  }
  for (std::int64_t i = 0; i < t.n; ++i) {
    if (i + 16 < t.n) __builtin_prefetch(sums + (t.key[i + 16] - t.key_begin) * t.a, 1);
    const std::int64_t k = t.key[i] - t.key_begin;
    if (k < 0 || k >= keys) continue;
    for (std::int64_t j = 0; j < t.a; ++j) sums[k * t.a + j] += Sum<T>::load(v[i * step + j]);
  }
  for (std::int64_t k = 0; k < keys; ++k) {
    for (std::int64_t j = 0; j < t.a; ++j) x[place(k, j)] = Sum<T>::store(sums[k * t.a + j]);
  }
}

// f(line, element of the index, element of the packed values) for all elements, in the order of
// memory; along one line always in order.
template <class I, class F>
void each_in_lines(const AlongTile& t, const I* index, F&& f) {
  if (t.lines_inner) {
    for (std::int64_t j = 0; j < t.n; ++j) {
      for (std::int64_t m = 0; m < t.m; ++m) {
        f(m, wrap(index[t.at_index[m] + j * t.index_step], t.size), t.at_v[m] + j * t.v_step);
      }
    }
  } else {
    for (std::int64_t m = 0; m < t.m; ++m) {
      const I* const line = index + t.at_index[m];
      for (std::int64_t j = 0; j < t.n; ++j) {
        f(m, wrap(line[j * t.index_step], t.size), t.at_v[m] + j * t.v_step);
      }
    }
  }
}

template <class T, class I>
void add_typed(const AlongTile& t, T* x, const I* index, const T* v, double* sums) {
  if constexpr (Sum<T>::is_float) {
    if (t.n > 1) {
      for (std::int64_t m = 0; m < t.m; ++m) {
        for (std::int64_t k = 0; k < t.size; ++k) {
          sums[m * t.size + k] = Sum<T>::load(x[t.at_x[m] + k * t.x_step]);
        }
      }
      each_in_lines(t, index, [&](std::int64_t m, std::int64_t k, std::int64_t from) {
        sums[m * t.size + k] += Sum<T>::load(v[from]);
      });
      for (std::int64_t m = 0; m < t.m; ++m) {
        for (std::int64_t k = 0; k < t.size; ++k) {
          x[t.at_x[m] + k * t.x_step] = Sum<T>::store(sums[m * t.size + k]);
        }
      }
      return;
    }
  }
  each_in_lines(t, index, [&](std::int64_t m, std::int64_t k, std::int64_t from) {
    T& to = x[t.at_x[m] + k * t.x_step];
    to = add_one(to, v[from]);
  });
}

template <class I>
void positions(const std::uint8_t* mask, std::int64_t begin, std::int64_t n, I* out) {
  // Without a branch on the mask; it stops at the last one, so nothing is written past the end.
  std::int64_t found = 0;
  for (std::int64_t i = 0; found < n; ++i) {
    out[found] = static_cast<I>(begin + i);
    found += mask[i] != 0;
  }
}

}  // namespace

void index_range(const void* index, bool wide, std::int64_t n, std::int64_t* low,
                 std::int64_t* high) {
  with_index(wide, index, [&](const auto* p) { range(p, n, low, high); });
}

void resolve_indices(const IndexArray* arrays, int count, std::int64_t begin, std::int64_t n,
                     std::int64_t* out) {
  for (int k = 0; k < count; ++k) {
    with_index(arrays[k].wide, arrays[k].data,
               [&](const auto* p) { resolve(arrays[k], p + begin, n, k == 0, out); });
  }
}

void take_rows(const RowTile& tile, const void* x, void* out) {
  move_rows<false>(tile, static_cast<char*>(const_cast<void*>(x)), static_cast<char*>(out));
}

void put_rows(const RowTile& tile, void* x, const void* v) {
  move_rows<true>(tile, static_cast<char*>(x), static_cast<char*>(const_cast<void*>(v)));
}

void add_rows(const AddTile& tile, void* x, const void* v) {
  visit_signed(tile.dtype, [&]<class T>(Tag<T>) {
    add_segments(tile, static_cast<T*>(x), static_cast<const T*>(v));
  });
}

void add_short_rows(const SumTile& tile, void* x, const void* v, double* sums) {
  visit_dtype(tile.dtype, [&]<class T>(Tag<T>) {
    if constexpr (Sum<T>::is_float)
      add_short(tile, static_cast<T*>(x), static_cast<const T*>(v), sums);
  });
}

void take_lines(const AlongTile& tile, std::int64_t width, const void* x, const void* index,
                void* out) {
  with_width(width, [&]<class T>(T) {
    with_index(tile.wide, index, [&](const auto* p) {
      const T* const from = static_cast<const T*>(x);
      T* const to = static_cast<T*>(out);
      each_in_lines(tile, p, [&](std::int64_t m, std::int64_t k, std::int64_t at) {
        to[at] = from[tile.at_x[m] + k * tile.x_step];
      });
    });
  });
}

void put_lines(const AlongTile& tile, std::int64_t width, void* x, const void* index,
               const void* v) {
  with_width(width, [&]<class T>(T) {
    with_index(tile.wide, index, [&](const auto* p) {
      T* const to = static_cast<T*>(x);
      const T* const from = static_cast<const T*>(v);
      each_in_lines(tile, p, [&](std::int64_t m, std::int64_t k, std::int64_t at) {
        to[tile.at_x[m] + k * tile.x_step] = from[at];
      });
    });
  });
}

void add_lines(const AlongTile& tile, DType dtype, void* x, const void* index, const void* v,
               double* sums) {
  visit_signed(dtype, [&]<class T>(Tag<T>) {
    with_index(tile.wide, index, [&](const auto* p) {
      add_typed(tile, static_cast<T*>(x), p, static_cast<const T*>(v), sums);
    });
  });
}

std::int64_t count_true(const std::uint8_t* mask, std::int64_t n) {
  std::int64_t total = 0;
  for (std::int64_t i = 0; i < n; ++i) total += mask[i] != 0;
  return total;
}

void true_positions(const std::uint8_t* mask, std::int64_t begin, std::int64_t n, bool wide,
                    void* out) {
  if (wide) {
    positions(mask, begin, n, static_cast<std::int64_t*>(out));
  } else {
    positions(mask, begin, n, static_cast<std::int32_t*>(out));
  }
}

}  // namespace mge::cpu::MGE_SIMD_NS
