#include "core/kernels/cpu/indexing.h"

#include <deque>
#include <limits>
#include <numeric>
#include <vector>

#include "core/kernels/cpu/copy.h"
#include "core/kernels/cpu/indexing_loops.h"
#include "core/kernels/cpu/nd_loop.h"
#include "core/kernels/cpu/parallel.h"
#include "core/runtime/allocator.h"

namespace mge::cpu {
namespace {

constexpr std::int64_t kBlock = 1024;         // positions resolved at a time
constexpr std::int64_t kTileBytes = 1 << 16;  // of work that is worth a thread
constexpr std::int64_t kLines = 256;          // along an axis, in a tile

// Buffers that live as long as what refers to them.
class Buffers {
 public:
  template <class T>
  T* get(std::int64_t n) {
    return held_.emplace_back(static_cast<std::size_t>(n) * sizeof(T)).template as<T>();
  }

 private:
  std::deque<Scratch> held_;
};

bool is_plain_index(DType dtype) { return dtype == DType::int32 || dtype == DType::int64; }

// A view as packed row-major elements of `dtype` in `shape`: itself where it already is that.
const void* packed(const View& v, DType dtype, const Shape& shape, Buffers& buffers) {
  if (v.dtype == dtype && v.shape == shape && v.row_major()) return v.data;
  void* out = buffers.get<char>(count(shape) * size_of(dtype));
  if (count(shape) > 0) copy(v, {out, dtype, shape, row_major(shape)});
  return out;
}

// `index` holds the positions as int64 (`wide`) or int32; they came as `dtype`.
void check_range(const char* op, const void* index, bool wide, DType dtype, std::int64_t n,
                 std::int64_t axis, std::int64_t size, bool wrap) {
  if (n == 0) return;
  constexpr std::int64_t kGrain = 1 << 18;
  const std::int64_t chunks = (n + kGrain - 1) / kGrain;
  std::vector<std::int64_t> low(static_cast<std::size_t>(chunks)), high = low;
  parallel_for(chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      const char* at = static_cast<const char*>(index) + c * kGrain * (wide ? 8 : 4);
      MGE_DISPATCH(index_range)
      (at, wide, std::min(kGrain, n - c * kGrain), &low[static_cast<std::size_t>(c)],
       &high[static_cast<std::size_t>(c)]);
    }
  });
  const std::int64_t lowest = *std::min_element(low.begin(), low.end());
  const std::int64_t highest = *std::max_element(high.begin(), high.end());
  if (dtype == DType::uint64 && lowest < 0) {  // one that no int64 holds
    fail_index(op, "index ", static_cast<std::uint64_t>(lowest), " is out of range for axis ", axis,
               " of size ", size);
  }
  if (lowest < (wrap ? -size : 0) || highest >= size) {
    fail_index(op, "index ", highest >= size ? highest : lowest, " is out of range for axis ", axis,
               " of size ", size);
  }
}

Shape index_shape(const AxisIndices& at) {
  Shape shape;
  for (const View& v : at.indices) {
    if (!is_integer(v.dtype)) fail_index(at.op, "expected integer indices, got ", v.dtype);
    const Shape before = shape;
    const int n = std::max(before.size(), v.ndim());
    shape = Dims::filled(n, 1);
    for (int i = 1; i <= n; ++i) {
      const std::int64_t a = i <= before.size() ? before[before.size() - i] : 1;
      const std::int64_t b = i <= v.ndim() ? v.shape[v.ndim() - i] : 1;
      if (a != b && a != 1 && b != 1) {
        fail_index(at.op, "index arrays of shapes ", before, " and ", v.shape, " do not broadcast");
      }
      shape[n - i] = a == 1 ? b : a;
    }
  }
  return shape;
}

// All elements of (shape, strides), in row-major order, as offsets.
void fill_offsets(const Shape& shape, const Strides& strides, std::int64_t* out) {
  out[0] = 0;
  std::int64_t have = 1;
  for (int i = shape.size() - 1; i >= 0; --i) {
    for (std::int64_t k = 1; k < shape[i]; ++k) {
      for (std::int64_t j = 0; j < have; ++j) out[k * have + j] = out[j] + k * strides[i];
    }
    have *= shape[i];
  }
}

// x seen as (axes before the result's index axes, indexed axes, axes after).
struct Layout {
  Shape before, after, keys;
  Strides before_strides, after_strides, key_strides;
  bool after_dense;  // the axes after are one block of memory, in whatever order

  Layout(const AxisIndices& at, const Shape& shape, const Strides& strides) {
    int rest = 0;
    for (int i = 0; i < shape.size(); ++i) {
      if (at.axes.contains(i)) continue;
      const bool first = rest++ < at.at;
      (first ? before : after).push_back(shape[i]);
      (first ? before_strides : after_strides).push_back(strides[i]);
    }
    for (std::int64_t axis : at.axes) {
      keys.push_back(shape[static_cast<int>(axis)]);
      key_strides.push_back(strides[static_cast<int>(axis)]);
    }
    after_dense = is_dense(after, after_strides);
  }
  Strides after_out() const {
    return after_dense ? dense_like(after, after_strides) : row_major(after);
  }
};

Shape joined(const Shape& a, const Shape& b, const Shape& c) {
  Shape out = a;
  for (std::int64_t n : b) out.push_back(n);
  for (std::int64_t n : c) out.push_back(n);
  return out;
}

// The checked indices and the tables of offsets that the loops walk.
class Plan {
 public:
  Plan(const AxisIndices& at, const Shape& shape, const Strides& strides)
      : layout_(at, shape, strides), index_shape_(index_shape(at)), n_(count(index_shape_)) {
    for (std::size_t k = 0; k < at.indices.size(); ++k) {
      const View& v = at.indices[k];
      const int i = static_cast<int>(k);
      const DType dtype = is_plain_index(v.dtype) ? v.dtype : DType::int64;
      const void* data = packed(v, dtype, v.shape, buffers_);
      const bool wide = dtype == DType::int64;
      check_range(at.op, data, wide, v.dtype, v.size(), at.names[i], layout_.keys[i], true);
      if (v.shape != index_shape_) {
        data = packed({data, dtype, v.shape, row_major(v.shape)}, dtype, index_shape_, buffers_);
      }
      arrays_.push_back({data, wide, layout_.keys[i], layout_.key_strides[i]});
    }
    a_ = count(layout_.after);
    b_ = count(layout_.before);
  }

  std::int64_t n() const { return n_; }
  std::int64_t a() const { return a_; }
  std::int64_t b() const { return b_; }
  bool empty() const { return n_ == 0 || a_ == 0 || b_ == 0; }
  const Layout& layout() const { return layout_; }
  // The shape of a read, and the strides of its packed rows.
  Shape shape() const { return joined(layout_.before, index_shape_, layout_.after); }
  Strides strides() const {
    Strides out = row_major(shape());
    const Strides after = layout_.after_out();
    std::copy(after.begin(), after.end(), out.end() - after.size());
    return out;
  }

  const std::int64_t* before() {
    std::int64_t* out = buffers_.get<std::int64_t>(b_);
    fill_offsets(layout_.before, layout_.before_strides, out);
    return out;
  }
  // Null where a row is one block.
  const std::int64_t* after() {
    if (layout_.after_dense) return nullptr;
    std::int64_t* out = buffers_.get<std::int64_t>(a_);
    fill_offsets(layout_.after, layout_.after_strides, out);
    return out;
  }
  void resolve(std::int64_t begin, std::int64_t n, std::int64_t* out) const {
    MGE_DISPATCH(resolve_indices)(arrays_.data(), static_cast<int>(arrays_.size()), begin, n, out);
  }
  const std::int64_t* resolve_all() {
    std::int64_t* out = buffers_.get<std::int64_t>(n_);
    parallel_for(n_, 1 << 15, [&](std::int64_t begin, std::int64_t end) {
      resolve(begin, end - begin, out + begin);
    });
    return out;
  }
  // As resolve_all, but row-major in the indexed axes alone: 0 ... keys - 1.
  const std::int64_t* resolve_keys() {
    std::vector<IndexArray> arrays = arrays_;
    const Strides strides = row_major(layout_.keys);
    for (std::size_t k = 0; k < arrays.size(); ++k) arrays[k].stride = strides[static_cast<int>(k)];
    std::int64_t* out = buffers_.get<std::int64_t>(n_);
    parallel_for(n_, 1 << 15, [&](std::int64_t begin, std::int64_t end) {
      MGE_DISPATCH(resolve_indices)
      (arrays.data(), static_cast<int>(arrays.size()), begin, end - begin, out + begin);
    });
    return out;
  }
  Buffers& buffers() { return buffers_; }

 private:
  Layout layout_;
  Shape index_shape_;
  std::int64_t n_, a_, b_;
  std::vector<IndexArray> arrays_;
  Buffers buffers_;
};

// The values of a write as packed rows in the order of the plan; one row where all are equal.
struct PackedRows {
  const void* data;
  bool same_row;
};
PackedRows pack_rows(Plan& plan, const View& v, DType dtype) {
  const Shape shape = plan.shape();
  const bool one = v.size() == 1;
  if (!one && v.dtype == dtype && v.shape == shape) {
    bool packed = true;
    const Strides want = plan.strides();
    for (int i = 0; i < shape.size(); ++i)
      packed = packed && (shape[i] == 1 || v.strides[i] == want[i]);
    if (packed) return {v.data, false};
  }
  View in = v;
  while (in.ndim() > shape.size()) {  // leading ones, checked by the caller
    in.shape.erase(0);
    in.strides.erase(0);
  }
  if (one) {
    in.shape = {};
    in.strides = {};
    void* row = plan.buffers().get<char>(plan.a() * size_of(dtype));
    copy(in, {row, dtype, {plan.a()}, {1}});
    return {row, true};
  }
  void* rows = plan.buffers().get<char>(count(shape) * size_of(dtype));
  copy(in, {rows, dtype, shape, plan.strides()});
  return {rows, false};
}

// Writes by position: a thread owns the destinations in its range, so that the order of writes to
// each is that of the positions.
void put_by_destination(const RowTile& whole, void* x, const void* v) {
  const auto [low, high] = std::minmax_element(whole.off, whole.off + whole.n);
  const std::int64_t parts = num_threads(), width = (*high - *low) / parts + 1;
  parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t from = *low + begin * width, to = *low + end * width;
    std::int64_t off[kBlock], row[kBlock], found = 0;
    RowTile tile = whole;
    tile.off = off;
    tile.row = row;
    for (std::int64_t i = 0; i < whole.n; ++i) {
      off[found] = whole.off[i];
      row[found] = i;
      found += whole.off[i] >= from && whole.off[i] < to;
      if (found == kBlock || i + 1 == whole.n) {
        tile.n = found;
        MGE_DISPATCH(put_rows)(tile, x, v);
        found = 0;
      }
    }
  });
}

// The positions sorted by destination (stable), as starts of segments with one destination each.
struct Segments {
  const std::int64_t* order;  // null: as they are
  std::vector<std::int64_t> starts;
};

Segments sort_by_key(Plan& plan, std::int64_t keys) {
  const std::int64_t n = plan.n();
  const std::int64_t* key = plan.resolve_keys();
  Segments out{nullptr, {}};
  if (!std::is_sorted(key, key + n)) {
    std::int64_t* order = plan.buffers().get<std::int64_t>(n);
    if (keys <= 4 * n + 4096) {
      std::vector<std::int64_t> place(static_cast<std::size_t>(keys) + 1);
      for (std::int64_t i = 0; i < n; ++i) ++place[static_cast<std::size_t>(key[i]) + 1];
      std::partial_sum(place.begin(), place.end(), place.begin());
      for (std::int64_t i = 0; i < n; ++i) order[place[static_cast<std::size_t>(key[i])]++] = i;
    } else {
      std::iota(order, order + n, std::int64_t{0});
      std::sort(order, order + n, [&](std::int64_t a, std::int64_t b) {
        return key[a] != key[b] ? key[a] < key[b] : a < b;
      });
    }
    out.order = order;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = [&](std::int64_t k) { return key[out.order ? out.order[k] : k]; };
    if (i == 0 || at(i) != at(i - 1)) out.starts.push_back(i);
  }
  out.starts.push_back(n);
  return out;
}

}  // namespace

Shape taken_shape(const AxisIndices& at, const Shape& x) {
  const Layout layout(at, x, row_major(x));
  return joined(layout.before, index_shape(at), layout.after);
}

Strides taken_strides(const AxisIndices& at, const Shape& x, const Strides& strides) {
  const Layout layout(at, x, strides);
  Strides out = row_major(joined(layout.before, index_shape(at), layout.after));
  const Strides after = layout.after_out();
  std::copy(after.begin(), after.end(), out.end() - after.size());
  return out;
}

void take(const AxisIndices& at, const View& x, const MutView& out) {
  Plan plan(at, x.shape, x.strides);
  if (plan.empty()) return;
  RowTile whole{};
  whole.width = size_of(x.dtype);
  whole.off_b = plan.before();
  whole.off_a = plan.after();
  whole.a = whole.a_end = plan.a();
  whole.batch = plan.n() * plan.a();
  // Tiles of a block of positions and as much of the batch as makes work for a thread.
  const std::int64_t row = whole.a * whole.width;
  const std::int64_t block = std::clamp<std::int64_t>(kTileBytes / row, 1, kBlock);
  const std::int64_t blocks = (plan.n() + block - 1) / block;
  const std::int64_t deep =
      std::clamp<std::int64_t>(kTileBytes / (row * std::min(block, plan.n())), 1, plan.b());
  const std::int64_t batches = (plan.b() + deep - 1) / deep;
  const std::int64_t grain =
      std::max<std::int64_t>(1, kTileBytes / (row * std::min(block, plan.n()) * deep));
  parallel_for(batches * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t off[kBlock];
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t i = t % blocks * block, b = t / blocks * deep;
      RowTile tile = whole;
      tile.b_begin = b;
      tile.b_end = std::min(b + deep, plan.b());
      tile.n = std::min(block, plan.n() - i);
      tile.off = off;
      plan.resolve(i, tile.n, off);
      char* to = static_cast<char*>(out.data) + i * row;
      MGE_DISPATCH(take_rows)(tile, x.data, to);
    }
  });
}

void put(const AxisIndices& at, const MutView& x, const View& v) {
  Plan plan(at, x.shape, x.strides);
  if (plan.empty()) return;
  const PackedRows rows = pack_rows(plan, v, x.dtype);
  RowTile whole{};
  whole.width = size_of(x.dtype);
  whole.off_b = plan.before();
  whole.b_end = plan.b();
  whole.off_a = plan.after();
  whole.a = whole.a_end = plan.a();
  whole.off = plan.resolve_all();
  whole.n = plan.n();
  whole.batch = plan.n() * plan.a();
  whole.same_row = rows.same_row;
  const std::int64_t bytes = plan.b() * plan.n() * plan.a() * whole.width;
  if (bytes < 2 * kTileBytes && plan.n() < (1 << 15)) {
    MGE_DISPATCH(put_rows)(whole, x.data, rows.data);
  } else if (plan.b() >= num_threads()) {
    parallel_for(plan.b(), 1, [&](std::int64_t begin, std::int64_t end) {
      RowTile tile = whole;
      tile.b_begin = begin;
      tile.b_end = end;
      MGE_DISPATCH(put_rows)(tile, x.data, rows.data);
    });
  } else {
    put_by_destination(whole, x.data, rows.data);
  }
}

namespace {

// Rows so short that sorting costs more than sums for every key.
constexpr std::int64_t kShortRow = 4;

void add_short_at(Plan& plan, const MutView& x, const PackedRows& rows) {
  const Layout& layout = plan.layout();
  const std::int64_t keys = count(layout.keys);
  std::int64_t* places = plan.buffers().get<std::int64_t>(keys);
  fill_offsets(layout.keys, layout.key_strides, places);
  double* sums = plan.buffers().get<double>(keys * plan.a());
  SumTile whole{};
  whole.dtype = x.dtype;
  whole.key = plan.resolve_keys();
  whole.at = places;
  whole.n = plan.n();
  whole.off_a = plan.after();
  whole.a = plan.a();
  whole.same_row = rows.same_row;
  // A thread owns the keys in its range.
  const std::int64_t parts = plan.n() < (1 << 14) ? 1 : num_threads();
  const std::int64_t* before = plan.before();
  for (std::int64_t b = 0; b < plan.b(); ++b) {
    char* to = static_cast<char*>(x.data) + before[b] * size_of(x.dtype);
    const std::int64_t batch = rows.same_row ? 0 : b * plan.n() * plan.a() * size_of(x.dtype);
    const char* from = static_cast<const char*>(rows.data) + batch;
    parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
      SumTile tile = whole;
      tile.key_begin = keys * begin / parts;
      tile.key_end = keys * end / parts;
      MGE_DISPATCH(add_short_rows)(tile, to, from, sums + tile.key_begin * tile.a);
    });
  }
}

}  // namespace

void add_at(const AxisIndices& at, const MutView& x, const View& v) {
  Plan plan(at, x.shape, x.strides);
  if (plan.empty()) return;
  const PackedRows rows = pack_rows(plan, v, x.dtype);
  if (plan.a() <= kShortRow && is_float(x.dtype) && plan.n() > 64 &&
      count(plan.layout().keys) <= 8 * plan.n()) {
    add_short_at(plan, x, rows);
    return;
  }
  const Segments segments = sort_by_key(plan, count(plan.layout().keys));
  AddTile whole{};
  whole.dtype = x.dtype;
  whole.off_b = plan.before();
  whole.b_end = plan.b();
  whole.off_a = plan.after();
  whole.a = whole.a_end = plan.a();
  whole.off = plan.resolve_all();
  whole.order = segments.order;
  whole.seg = segments.starts.data();
  whole.seg_end = static_cast<std::int64_t>(segments.starts.size()) - 1;
  whole.batch = plan.n() * plan.a();
  whole.same_row = rows.same_row;
  // Cut by batch, by columns or by destination; each sum is made by one thread, in one order.
  const std::int64_t work = plan.n() * plan.a();
  const std::int64_t columns = (plan.a() + 1023) / 1024;
  if (plan.b() >= 2 * num_threads()) {
    parallel_for(plan.b(), 1 + (1 << 15) / work, [&](std::int64_t begin, std::int64_t end) {
      AddTile tile = whole;
      tile.b_begin = begin;
      tile.b_end = end;
      MGE_DISPATCH(add_rows)(tile, x.data, rows.data);
    });
  } else if (columns >= 2 * num_threads()) {
    parallel_for(columns, 1, [&](std::int64_t begin, std::int64_t end) {
      AddTile tile = whole;
      tile.a_begin = begin * 1024;
      tile.a_end = std::min(end * 1024, plan.a());
      MGE_DISPATCH(add_rows)(tile, x.data, rows.data);
    });
  } else {
    // By positions, moved to the next start of a segment, so that threads have equal work.
    parallel_for(plan.n(), 1 + (1 << 15) / plan.a(), [&](std::int64_t begin, std::int64_t end) {
      const auto segment = [&](std::int64_t i) {
        return std::lower_bound(segments.starts.begin(), segments.starts.end(), i) -
               segments.starts.begin();
      };
      AddTile tile = whole;
      tile.seg_begin = segment(begin);
      tile.seg_end = segment(end);
      MGE_DISPATCH(add_rows)(tile, x.data, rows.data);
    });
  }
}

// ---- along an axis
// --------------------------------------------------------------------------------

namespace {

// Calls f(tile) for tiles of lines along `axis`, in parallel.
template <class F>
void each_tile(const View& x, int axis, const View& index, const View& v,
               std::int64_t lines_at_once, F&& f) {
  Shape shape;
  Strides sx, si, sv;
  std::int64_t closest = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < index.ndim(); ++i) {
    if (i == axis || index.shape[i] == 1) continue;
    shape.push_back(index.shape[i]);
    sx.push_back(x.strides[i]);
    si.push_back(index.strides[i]);
    sv.push_back(v.strides[i]);
    closest = std::min(closest, std::abs(v.strides[i]));
  }
  const std::array<const Strides*, 3> strides{&sv, &sx, &si};
  const NdLoop<3> loop(shape, strides);
  const std::int64_t lines = count(shape), tiles = (lines + lines_at_once - 1) / lines_at_once;
  AlongTile whole{};
  whole.n = index.shape[axis];
  whole.x_step = x.strides[axis];
  whole.index_step = index.strides[axis];
  whole.v_step = v.strides[axis];
  whole.size = x.shape[axis];
  whole.wide = index.dtype == DType::int64;
  whole.lines_inner = whole.n == 1 || closest < std::abs(whole.v_step);
  const std::int64_t work = std::min(lines, lines_at_once) * whole.n;
  parallel_for(tiles, 1 + (1 << 14) / std::max<std::int64_t>(work, 1),
               [&](std::int64_t begin, std::int64_t end) {
                 std::int64_t at_x[kLines], at_index[kLines], at_v[kLines];
                 AlongTile tile = whole;
                 tile.at_x = at_x;
                 tile.at_index = at_index;
                 tile.at_v = at_v;
                 NdWalk<3> walk(loop, 0, begin * lines_at_once);
                 for (std::int64_t t = begin; t < end; ++t) {
                   tile.m = std::min(lines_at_once, lines - t * lines_at_once);
                   for (std::int64_t m = 0; m < tile.m; ++m) {
                     at_v[m] = walk.offset[0];
                     at_x[m] = walk.offset[1];
                     at_index[m] = walk.offset[2];
                     walk.next();
                   }
                   f(tile);
                 }
               });
}

// The index as int32 or int64, checked.
View checked_index(const AlongIndex& at, const Shape& x, Buffers& buffers) {
  View out = at.index;
  if (!is_plain_index(out.dtype)) {
    out.data = packed(at.index, DType::int64, out.shape, buffers);
    out.dtype = DType::int64;
    out.strides = row_major(out.shape);
  }
  // A repeated (stride 0) index is checked by its distinct elements.
  View distinct = out;
  for (int i = 0; i < out.ndim(); ++i) {
    if (out.strides[i] == 0 && out.shape[i] > 1) distinct.shape[i] = 1;
  }
  const void* data = packed(distinct, out.dtype, distinct.shape, buffers);
  check_range(at.op, data, out.dtype == DType::int64, at.index.dtype, distinct.size(), at.axis,
              x[at.axis], at.wrap);
  return out;
}

View broadcast_view(const View& v, const Shape& shape) {
  return {v.data, v.dtype, shape, broadcast_strides(v.shape, v.strides, shape)};
}

// The values of a write in x's dtype, with the shape of the index.
View values_like(const View& v, DType dtype, const Shape& shape, Buffers& buffers) {
  if (v.dtype == dtype) return broadcast_view(v, shape);
  const void* data = packed(v, dtype, v.shape, buffers);
  return broadcast_view({data, dtype, v.shape, row_major(v.shape)}, shape);
}

}  // namespace

void take_along(const AlongIndex& at, const View& x, const MutView& out) {
  Buffers buffers;
  const View index = checked_index(at, x.shape, buffers);
  if (out.size() == 0) return;
  each_tile(x, at.axis, index, out, kLines, [&](const AlongTile& tile) {
    MGE_DISPATCH(take_lines)(tile, size_of(x.dtype), x.data, index.data, out.data);
  });
}

void put_along(const AlongIndex& at, const MutView& x, const View& v) {
  Buffers buffers;
  const View index = checked_index(at, x.shape, buffers);
  if (index.size() == 0) return;
  const View values = values_like(v, x.dtype, index.shape, buffers);
  each_tile(x, at.axis, index, values, kLines, [&](const AlongTile& tile) {
    MGE_DISPATCH(put_lines)(tile, size_of(x.dtype), x.data, index.data, values.data);
  });
}

void add_along(const AlongIndex& at, const MutView& x, const View& v) {
  Buffers buffers;
  const View index = checked_index(at, x.shape, buffers);
  if (index.size() == 0) return;
  const View values = values_like(v, x.dtype, index.shape, buffers);
  const bool sums = is_float(x.dtype) && index.shape[at.axis] > 1;
  const std::int64_t size = x.shape[at.axis];
  // The sums of a tile stay in the second level cache where they can.
  const std::int64_t lines = sums ? std::clamp<std::int64_t>((1 << 15) / size, 1, kLines) : kLines;
  // One block of sums for each thread, made here because nothing may throw among the threads.
  const std::int64_t threads = num_threads();
  double* all = sums ? buffers.get<double>(threads * lines * size) : nullptr;
  each_tile(x, at.axis, index, values, lines, [&](const AlongTile& tile) {
    double* mine = sums ? all + omp_get_thread_num() % threads * lines * size : nullptr;
    MGE_DISPATCH(add_lines)(tile, x.dtype, x.data, index.data, values.data, mine);
  });
}

// ---- masks
// ----------------------------------------------------------------------------------------

namespace {
constexpr std::int64_t kMaskChunk = 1 << 15;

std::vector<std::int64_t> chunk_counts(const View& mask) {
  const std::int64_t n = mask.size(), chunks = (n + kMaskChunk - 1) / kMaskChunk;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(chunks));
  parallel_for(chunks, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      counts[static_cast<std::size_t>(c)] = MGE_DISPATCH(count_true)(
          mask.ptr<std::uint8_t>() + c * kMaskChunk, std::min(kMaskChunk, n - c * kMaskChunk));
    }
  });
  return counts;
}
}  // namespace

std::int64_t count_true(const View& mask) {
  const auto counts = chunk_counts(mask);
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

void true_positions(const View& mask, const MutView& out) {
  const auto counts = chunk_counts(mask);
  std::vector<std::int64_t> starts(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), std::int64_t{0});
  const std::int64_t width = size_of(out.dtype);
  parallel_for(static_cast<std::int64_t>(counts.size()), 4,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t c = begin; c < end; ++c) {
                   const auto k = static_cast<std::size_t>(c);
                   MGE_DISPATCH(true_positions)
                   (mask.ptr<std::uint8_t>() + c * kMaskChunk, c * kMaskChunk, counts[k],
                    width == 8, static_cast<char*>(out.data) + starts[k] * width);
                 }
               });
}

}  // namespace mge::cpu
