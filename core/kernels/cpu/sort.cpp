#include "core/kernels/cpu/sort.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/sort_loops.h"
#include "core/kernels/cpu/sort_words.h"
#include "core/runtime/allocator.h"

namespace mge::cpu {
namespace {

constexpr std::int64_t kSmall = 128;            // wide items up to so many are sorted by comparison
constexpr std::int64_t kParallelRow = 1 << 17;  // longer rows are sorted by all threads
constexpr std::int64_t kThreadElements = 1 << 12;
constexpr std::int64_t kScanned = 64;  // up to so many are selected in one scan of the row

// ---- wide items: radix sort by bytes
// -------------------------------------------------------------

// One stable pass over byte `digit` of the keys. False, with nothing done, where all are the same.
bool radix_pass(const WideItem* in, WideItem* out, std::int64_t n, int digit) {
  const auto byte = [&](const WideItem& item) { return item.key >> (8 * digit) & 0xff; };
  std::array<std::uint32_t, 256> place{};
  for (std::int64_t i = 0; i < n; ++i) ++place[byte(in[i])];
  if (place[byte(in[0])] == n) return false;
  std::uint32_t total = 0;
  for (auto& p : place) total += std::exchange(p, total);
  for (std::int64_t i = 0; i < n; ++i) out[place[byte(in[i])]++] = in[i];
  return true;
}

// Sorts items; returns where they are, in `items` or in `spare`.
WideItem* sort_items(WideItem* items, WideItem* spare, std::int64_t n) {
  if (n <= kSmall) {
    std::sort(items, items + n);
    return items;
  }
  for (int digit = 0; digit < 8; ++digit) {
    if (radix_pass(items, spare, n, digit)) std::swap(items, spare);
  }
  return items;
}
std::int64_t* sort_items(std::int64_t* items, std::int64_t* spare, std::int64_t n) {
  MGE_DISPATCH(sort_words)(items, spare, n);
  return items;
}

// A long row by all threads: it is parted until there are a few parts for each.
WideItem* sort_long(WideItem* items, WideItem* spare, std::int64_t n) {
  return sort_items(items, spare, n);
}
std::int64_t* sort_long(std::int64_t* items, std::int64_t* spare, std::int64_t n) {
  std::vector<std::pair<std::int64_t, std::int64_t>> parts{{0, n}};
  while (std::ssize(parts) < 4 * num_threads()) {
    auto& longest = *std::max_element(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
      return a.second - a.first < b.second - b.first;
    });
    const auto [begin, end] = longest;
    if (end - begin < kParallelRow / 16) break;
    const std::int64_t below =
        MGE_DISPATCH(partition_words)(items + begin, spare + begin, end - begin);
    longest.second = begin + below;
    parts.emplace_back(begin + below, end);
  }
  // Partitioning writes a little beyond what it parts of `spare`: every part needs its own.
  const Scratch own(static_cast<std::size_t>(n + std::ssize(parts) * kSortPadding) * 8);
  parallel_for(std::ssize(parts), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const auto [begin, end] = parts[static_cast<std::size_t>(i)];
      MGE_DISPATCH(sort_words)
      (items + begin, own.as<std::int64_t>() + begin + i * kSortPadding, end - begin);
    }
  });
  return items;
}

// Brings the k smallest to the front, in order.
void keep_smallest(WideItem* items, WideItem*, std::int64_t n, std::int64_t k) {
  std::partial_sort(items, items + k, items + n);
}
void keep_smallest(std::int64_t* items, std::int64_t* spare, std::int64_t n, std::int64_t k) {
  if (k < n) MGE_DISPATCH(select_words)(items, spare, n, k);
  MGE_DISPATCH(sort_words)(items, spare, k);
}

// Scratch memory for each thread, taken before any of them starts: taking it may raise.
class ThreadScratch {
 public:
  explicit ThreadScratch(std::int64_t bytes)
      : bytes_((bytes + 63) / 64 * 64),
        threads_(num_threads()),
        memory_(static_cast<std::size_t>(bytes_ * threads_)) {}
  // The calling thread's.
  std::byte* mine() const {
    return memory_.as<std::byte>() + bytes_ * (omp_get_thread_num() % threads_);
  }

 private:
  std::int64_t bytes_;
  int threads_;
  Scratch memory_;
};

// ---- rows
// ----------------------------------------------------------------------------------------

// Rows along the last axis of a tensor of any strides.
struct Rows {
  const View& in;
  std::int64_t count = 1, length = 1, step = 1;

  explicit Rows(const View& v) : in(v) {
    for (int i = 0; i + 1 < v.ndim(); ++i) count *= v.shape[i];
    length = v.shape.back();
    step = v.strides.back();
  }
  template <class T>
  const T* row(std::int64_t r) const {
    const T* p = in.ptr<T>();
    for (int i = in.ndim() - 2; i >= 0; --i) {
      p += r % in.shape[i] * in.strides[i];
      r /= in.shape[i];
    }
    return p;
  }
};

template <class T>
void make_row(const T* row, std::int64_t step, std::int64_t n, bool descending, ItemOf<T>* items) {
  if constexpr (sizeof(T) <= 4) {
    MGE_DISPATCH(words_from_row)(row, dtype_of<T>, step, n, descending, items);
  } else {
    for (std::int64_t i = 0; i < n; ++i) items[i] = make_item(row[i * step], i, descending);
  }
}
template <class T>
void write_row(const T* row, std::int64_t step, const ItemOf<T>* items, std::int64_t n, T* values,
               std::int32_t* indices) {
  if constexpr (sizeof(T) <= 4) {
    MGE_DISPATCH(row_from_words)(row, dtype_of<T>, step, items, n, values, indices);
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t at = index_of(items[i]);
    values[i] = row[static_cast<std::int64_t>(at) * step];
    indices[i] = static_cast<std::int32_t>(at);
  }
}

// The first k of every row, by sorting it or by selecting first.
template <class T>
void sort_rows(const View& in, bool descending, std::int64_t k, T* values, std::int32_t* indices) {
  using I = ItemOf<T>;
  const Rows rows(in);
  const std::int64_t n = rows.length, room = n + kSortPadding;
  const bool long_rows = n >= kParallelRow && rows.count < 2 * num_threads();
  const ThreadScratch scratch(2 * room * static_cast<std::int64_t>(sizeof(I)));
  const auto run = [&](std::int64_t begin, std::int64_t end) {
    I* items = reinterpret_cast<I*>(scratch.mine());
    for (std::int64_t r = begin; r < end; ++r) {
      const T* row = rows.row<T>(r);
      make_row(row, rows.step, n, descending, items);
      I* sorted = items;
      if (k < n) {
        keep_smallest(items, items + room, n, k);
      } else {
        sorted = long_rows ? sort_long(items, items + room, n) : sort_items(items, items + room, n);
      }
      write_row(row, rows.step, sorted, k, values + r * k, indices + r * k);
    }
  };
  if (long_rows) return run(0, rows.count);
  parallel_for(rows.count, std::max<std::int64_t>(1, kThreadElements / n), run);
}

// ---- the few best
// --------------------------------------------------------------------------------

// One scan of a row that keeps candidates: whenever they fill their place, only the k best of them
// stay, and later elements must beat the worst of those. Room for a few times k raises that bar
// early and sorts seldom.
template <class T>
class Selection {
 public:
  static constexpr std::int64_t kMostItems = 2 * kScanned;

  Selection(std::int64_t k, bool descending)
      : k_(k),
        capacity_(std::clamp<std::int64_t>(4 * k, 32, kMostItems)),
        descending_(descending) {}
  const ItemOf<T>* items() const { return items_; }

  void run(const T* row, std::int64_t n) {
    count_ = std::min(n, capacity_);
    for (std::int64_t i = 0; i < count_; ++i) items_[i] = item(row, i);
    std::int64_t begin = count_;
    keep_best();
    std::int32_t places[kScanBlock];
    while (begin < n) {
      const Candidates block = MGE_DISPATCH(next_candidates)(row, dtype_of<T>, begin, n,
                                                             index_of(worst_), descending_, places);
      for (std::int64_t j = 0; j < block.found; ++j) {
        const auto candidate = item(row, block.begin + places[j]);
        if (!(candidate < worst_)) continue;
        items_[count_++] = candidate;
        if (count_ == capacity_) keep_best();
      }
      begin = block.end;
    }
    keep_best();
  }

 private:
  ItemOf<T> item(const T* row, std::int64_t i) const { return make_item(row[i], i, descending_); }
  void keep_best() {
    static_assert(kMostItems <= kSmall);  // sorted in place
    sort_items(items_, spare_, count_);
    worst_ = items_[k_ - 1];
    count_ = k_;
  }

  std::int64_t k_, capacity_, count_ = 0;
  bool descending_;
  ItemOf<T> worst_{};
  ItemOf<T> items_[kMostItems], spare_[kMostItems + kSortPadding];
};

template <class T>
void topk_rows(const View& in, std::int64_t k, bool descending, T* values, std::int32_t* indices) {
  const Rows rows(in);
  const std::int64_t n = rows.length;
  const std::int64_t packed = rows.step == 1 ? 0 : n;
  const ThreadScratch scratch(packed * static_cast<std::int64_t>(sizeof(T)));
  const auto run = [&](std::int64_t begin, std::int64_t end) {
    T* copy = reinterpret_cast<T*>(scratch.mine());
    Selection<T> selection(k, descending);
    for (std::int64_t r = begin; r < end; ++r) {
      const T* row = rows.row<T>(r);
      for (std::int64_t i = 0; i < packed; ++i) copy[i] = row[i * rows.step];
      if (packed) row = copy;
      selection.run(row, n);
      write_row(row, 1, selection.items(), k, values + r * k, indices + r * k);
    }
  };
  parallel_for(rows.count, std::max<std::int64_t>(1, 4 * kThreadElements / n), run);
}

// bool is stored as bytes of 0 and 1.
template <class F>
void visit_ordered(DType dtype, F&& f) {
  visit_dtype(dtype, [&]<class T>(Tag<T>) {
    f(Tag<std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>>{});
  });
}

}  // namespace

void sort(const View& in, bool descending, const MutView& values, const MutView& indices) {
  if (in.size() == 0) return;
  visit_ordered(in.dtype, [&]<class T>(Tag<T>) {
    sort_rows<T>(in, descending, in.shape.back(), values.ptr<T>(), indices.ptr<std::int32_t>());
  });
}

void topk(const View& in, std::int64_t k, bool descending, const MutView& values,
          const MutView& indices) {
  if (in.size() == 0) return;
  const bool few = k <= kScanned && k <= in.shape.back() / 4;
  visit_ordered(in.dtype, [&]<class T>(Tag<T>) {
    T* v = values.ptr<T>();
    std::int32_t* i = indices.ptr<std::int32_t>();
    few ? topk_rows<T>(in, k, descending, v, i) : sort_rows<T>(in, descending, k, v, i);
  });
}

}  // namespace mge::cpu
