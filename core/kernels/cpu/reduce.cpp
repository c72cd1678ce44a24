#include "core/kernels/cpu/reduce.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "core/kernels/cpu/copy.h"
#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/reduce_loops.h"
#include "core/runtime/allocator.h"

namespace mge::cpu {
namespace {

constexpr std::int64_t kThreadElements = 1 << 15;  // worth a thread
constexpr std::int64_t kChunkElements = 1 << 15;   // the least that is worth a partial result
constexpr std::int64_t kWantedTasks = 64;
constexpr std::int64_t kMaxWidth = 4096;        // accumulators of a tile
constexpr std::int64_t kRunElements = 1 << 13;  // a run of a long row
constexpr std::int64_t kPack = 2048;            // elements gathered at a time from strided rows
constexpr std::int64_t kFold = 256;             // accumulators where short rows are seen as long

struct Axis {
  std::int64_t n = 1, in = 0, out = 0;
};

// A few axes, innermost last, that live inline.
class Axes {
 public:
  int size() const { return size_; }
  Axis& operator[](int i) { return axes_[static_cast<std::size_t>(i)]; }
  const Axis& operator[](int i) const { return axes_[static_cast<std::size_t>(i)]; }
  Axis* begin() { return axes_.data(); }
  Axis* end() { return axes_.data() + size_; }
  const Axis* begin() const { return axes_.data(); }
  const Axis* end() const { return axes_.data() + size_; }
  void push_back(const Axis& a) { axes_[static_cast<std::size_t>(size_++)] = a; }
  Axis take(int i) {
    const Axis axis = (*this)[i];
    std::copy(begin() + i + 1, end(), begin() + i);
    --size_;
    return axis;
  }

 private:
  std::array<Axis, kMaxDims> axes_;
  int size_ = 0;
};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// The input as kept axes x reduced axes, neighbours merged. A task is a tile of `width` outputs
// along `keep` times a chunk of the reduced elements.
//
// by_rows: the innermost reduced axis `run` lies side by side, and each output folds whole rows of
// it. Else `keep` does, and rows of outputs are added up.
struct Plan {
  Axes kept, reduced;  // all but keep and run
  Axis keep, run;
  bool by_rows = true;
  std::int64_t in_start = 0, out_start = 0;
  std::int64_t count = 1;                 // elements reduced for each output
  std::int64_t outer = 1;                 // product of `kept`
  std::int64_t width = 1, tiles = 1;      // along keep
  std::int64_t run_step = 1, pieces = 1;  // along run
  std::int64_t items = 1;                 // product of `reduced`, times pieces
  std::int64_t chunks = 1, chunk_items = 1;
  std::int64_t tasks() const { return outer * tiles * chunks; }
};

// Merges axis b into a, which lies outside it.
bool merge(Axis& a, const Axis& b, bool kept) {
  if (a.in != b.in * b.n || (kept && a.out != b.out * b.n)) return false;
  a = {a.n * b.n, b.in, b.out};
  return true;
}

// Takes the axis with the least stride that is not 0 out of the list: an axis that repeats its
// input belongs outside.
Axis take_innermost(Axes& axes) {
  if (axes.size() == 0) return {};
  int best = axes.size() - 1;
  for (int i = 0; i < axes.size(); ++i) {
    if (axes[i].in != 0 && (axes[best].in == 0 || axes[i].in < axes[best].in)) best = i;
  }
  return axes.take(best);
}

void split_axes(Plan& plan, const View& in, const MutView& out, bool ordered) {
  for (int i = 0; i < in.shape.size(); ++i) {
    Axis axis{in.shape[i], in.strides[i], out.strides[i]};
    const bool kept = out.shape[i] == in.shape[i];
    if (!kept) plan.count *= axis.n;
    if (axis.n == 1) continue;
    if (axis.in < 0 && (kept || !ordered)) {
      plan.in_start += axis.in * (axis.n - 1);
      axis.in = -axis.in;
      if (kept) {
        plan.out_start += axis.out * (axis.n - 1);
        axis.out = -axis.out;
      }
    }
    (kept ? plan.kept : plan.reduced).push_back(axis);
  }
}

// Whether axis a belongs outside axis b.
bool outside(const Axis& a, const Axis& b) {
  return a.in == 0 || b.in == 0 ? a.in == 0 && b.in != 0 : a.in > b.in;
}

void merge_axes(Axes& axes, bool kept, bool sort) {
  for (int i = 1; i < axes.size() && sort; ++i) {
    for (int j = i; j > 0 && outside(axes[j], axes[j - 1]); --j) std::swap(axes[j], axes[j - 1]);
  }
  Axes merged;
  for (const Axis& axis : axes) {
    const bool joined = merged.size() > 0 && merge(merged[merged.size() - 1], axis, kept);
    if (!joined) merged.push_back(axis);
  }
  axes = merged;
}

// ordered: positions count, so the reduced axes keep their order and direction.
Plan make_plan(const View& in, const MutView& out, bool ordered) {
  Plan plan;
  split_axes(plan, in, out, ordered);
  merge_axes(plan.kept, true, true);
  merge_axes(plan.reduced, false, !ordered);
  plan.keep = take_innermost(plan.kept);
  if (!ordered) {
    plan.run = take_innermost(plan.reduced);
  } else if (plan.reduced.size() > 0) {
    plan.run = plan.reduced.take(plan.reduced.size() - 1);
  }
  const std::int64_t k = plan.keep.in, r = std::abs(plan.run.in);
  plan.by_rows = r != 0 && plan.run.n > 1 && (plan.keep.n == 1 || k == 0 || r < k);

  for (const Axis& a : plan.kept) plan.outer *= a.n;
  std::int64_t outer_reduced = 1;
  for (const Axis& a : plan.reduced) outer_reduced *= a.n;
  if (plan.by_rows) {
    plan.width = std::clamp<std::int64_t>(2 * kRunElements / plan.run.n, 1, kMaxWidth / 4);
    plan.run_step = std::min(plan.run.n, kRunElements);
  } else {
    plan.width = kMaxWidth;
    plan.run_step = std::clamp<std::int64_t>(2 * kRunElements / std::min(plan.keep.n, plan.width),
                                             8, std::max<std::int64_t>(8, plan.run.n));
  }
  plan.width = std::max<std::int64_t>(1, std::min(plan.width, plan.keep.n));
  plan.tiles = ceil_div(plan.keep.n, plan.width);
  plan.pieces = ceil_div(plan.run.n, plan.run_step);
  plan.items = outer_reduced * plan.pieces;
  const std::int64_t tiles = std::max<std::int64_t>(1, plan.outer * plan.tiles);
  const std::int64_t tile_elements = plan.count * plan.width;
  const std::int64_t wanted = std::min({ceil_div(kWantedTasks, tiles), plan.items,
                                        std::max<std::int64_t>(1, tile_elements / kChunkElements)});
  plan.chunk_items = ceil_div(plan.items, std::max<std::int64_t>(1, wanted));
  // One even where there is nothing to reduce: it fills the outputs.
  plan.chunks =
      std::max<std::int64_t>(1, ceil_div(plan.items, std::max<std::int64_t>(1, plan.chunk_items)));
  return plan;
}

std::int64_t offset_of(const Axes& axes, std::int64_t index, std::int64_t Axis::* stride) {
  std::int64_t offset = 0;
  for (int i = axes.size() - 1; i >= 0; --i) {
    offset += index % axes[i].n * axes[i].*stride;
    index /= axes[i].n;
  }
  return offset;
}

// ---- one task ----------------------------------------------------------------------------------

struct Task {
  std::int64_t outer, first, width;  // which outputs
  std::int64_t item_begin, item_end;
};

Task task_at(const Plan& plan, std::int64_t tile, std::int64_t chunk) {
  Task t;
  t.outer = tile / plan.tiles;
  t.first = tile % plan.tiles * plan.width;
  t.width = std::min(plan.width, plan.keep.n - t.first);
  t.item_begin = chunk * plan.chunk_items;
  t.item_end = std::min(plan.items, t.item_begin + plan.chunk_items);
  return t;
}

void gather(const std::byte* in, std::int64_t stride, std::int64_t n, DType dtype, void* out) {
  visit_width(dtype, [&]<class T>(Tag<T>) {
    const T* from = reinterpret_cast<const T*>(in);
    for (std::int64_t i = 0; i < n; ++i) static_cast<T*>(out)[i] = from[i * stride];
  });
}

class Runner {
 public:
  Runner(const Plan& plan, const ReduceLoops& loops, const View& in)
      : plan_(plan),
        loops_(loops),
        dtype_(in.dtype),
        item_(size_of(in.dtype)),
        acc_item_(size_of(loops.acc)),
        in_(static_cast<const std::byte*>(in.data) + plan.in_start * item_) {}

  // Folds the task's elements into the tile.
  void run(const Task& task, ReduceTile tile) const {
    const std::byte* base =
        in_ + (offset_of(plan_.kept, task.outer, &Axis::in) + task.first * plan_.keep.in) * item_;
    for (std::int64_t item = task.item_begin; item < task.item_end; ++item) {
      const std::int64_t piece = item % plan_.pieces, outer = item / plan_.pieces;
      const std::int64_t start = piece * plan_.run_step;
      const std::int64_t n = std::min(plan_.run_step, plan_.run.n - start);
      const std::byte* in =
          base + (offset_of(plan_.reduced, outer, &Axis::in) + start * plan_.run.in) * item_;
      tile.base = outer * plan_.run.n + start;
      plan_.by_rows ? rows(in, task.width, n, tile) : columns(in, n, task.width, tile);
    }
  }

  void fill(const Task& task, const ReduceTile& tile) const {
    loops_.fill(tile.acc, task.width);
    if (!tile.index) return;
    const std::int64_t first = task.item_begin / plan_.pieces * plan_.run.n +
                               task.item_begin % plan_.pieces * plan_.run_step;
    std::fill_n(tile.index, task.width, static_cast<std::int32_t>(first));
  }

 private:
  void rows(const std::byte* in, std::int64_t width, std::int64_t n, const ReduceTile& tile) const {
    // Rows too short for vectors are taken one of their elements at a time, for many rows.
    const bool short_rows = width > 1 && n <= (tile.index ? 32 : 4);
    if (plan_.run.in == 1 && !short_rows) {
      loops_.rows(in, width, plan_.keep.in, n, tile);
      return;
    }
    alignas(64) std::byte buffer[kPack * 8];
    if (short_rows) {
      for (std::int64_t i = 0; i < width; i += kPack) {
        const std::int64_t some = std::min(kPack, width - i);
        ReduceTile part = at(tile, i);
        for (std::int64_t j = 0; j < n; ++j, ++part.base) {
          gather(in + (i * plan_.keep.in + j * plan_.run.in) * item_, plan_.keep.in, some, dtype_,
                 buffer);
          loops_.columns(buffer, 1, 0, some, part);
        }
      }
      return;
    }
    for (std::int64_t i = 0; i < width; ++i) {
      ReduceTile part = at(tile, i);
      for (std::int64_t j = 0; j < n; j += kPack, part.base += kPack) {
        const std::int64_t some = std::min(kPack, n - j);
        gather(in + (i * plan_.keep.in + j * plan_.run.in) * item_, plan_.run.in, some, dtype_,
               buffer);
        loops_.rows(buffer, 1, 0, some, part);
      }
    }
  }

  void columns(const std::byte* in, std::int64_t n, std::int64_t width,
               const ReduceTile& tile) const {
    if (plan_.keep.in == 1 || width == 1) {
      const bool short_rows = width <= kFold / 4 && plan_.run.in == width && n >= 64 && !tile.index;
      short_rows ? fold_columns(in, n, width, tile)
                 : loops_.columns(in, n, plan_.run.in, width, tile);
      return;
    }
    alignas(64) std::byte buffer[kPack * 8];
    for (std::int64_t j = 0; j < width; j += kPack) {
      const std::int64_t some = std::min(kPack, width - j);
      ReduceTile part = at(tile, j);
      for (std::int64_t i = 0; i < n; ++i, ++part.base) {
        gather(in + (j * plan_.keep.in + i * plan_.run.in) * item_, plan_.keep.in, some, dtype_,
               buffer);
        loops_.columns(buffer, 1, 0, some, part);
      }
    }
  }

  // Short rows side by side are long rows of a few of them; their accumulators are added up after.
  void fold_columns(const std::byte* in, std::int64_t n, std::int64_t width,
                    const ReduceTile& tile) const {
    const std::int64_t fold = kFold / width, wide = fold * width;
    alignas(64) std::byte acc[kFold * 8];
    double shift[kFold];
    ReduceTile part{acc, nullptr, nullptr, 0};
    if (tile.shift) {
      for (std::int64_t i = 0; i < wide; ++i) shift[i] = tile.shift[i % width];
      part.shift = shift;
    }
    loops_.fill(acc, wide);
    loops_.columns(in, n / fold, wide, wide, part);
    for (std::int64_t i = 0; i < fold; ++i) {
      loops_.merge({acc + i * width * acc_item_, nullptr, nullptr, 0}, width, tile);
    }
    const std::int64_t done = n / fold * fold;
    loops_.columns(in + done * width * item_, n - done, width, width, tile);
  }

  ReduceTile at(const ReduceTile& tile, std::int64_t i) const {
    return {static_cast<std::byte*>(tile.acc) + i * acc_item_,
            tile.index ? tile.index + i : nullptr, tile.shift ? tile.shift + i : nullptr,
            tile.base};
  }

  const Plan& plan_;
  const ReduceLoops& loops_;
  DType dtype_;
  std::int64_t item_, acc_item_;
  const std::byte* in_;
};

// ---- results -----------------------------------------------------------------------------------

class Writer {
 public:
  Writer(const Plan& plan, ReduceFinish finish, const MutView& out)
      : plan_(plan), finish_(finish), out_(out) {}

  // Changes acc.
  void write(const Task& task, void* acc, DType acc_dtype) const {
    if (finish_.mean || finish_.root) {
      double* a = static_cast<double*>(acc);
      const double count = static_cast<double>(finish_.count ? finish_.count : plan_.count);
      for (std::int64_t i = 0; i < task.width && finish_.mean; ++i) a[i] /= count;
      for (std::int64_t i = 0; i < task.width && finish_.root; ++i) a[i] = std::sqrt(a[i]);
    }
    const std::int64_t item = size_of(out_.dtype);
    std::byte* out = static_cast<std::byte*>(out_.data) +
                     (plan_.out_start + offset_of(plan_.kept, task.outer, &Axis::out) +
                      task.first * plan_.keep.out) *
                         item;
    if (plan_.keep.out == 1 || task.width == 1) {
      convert(acc, acc_dtype, out, out_.dtype, task.width);
      return;
    }
    alignas(64) std::byte buffer[kPack * 8];
    for (std::int64_t i = 0; i < task.width; i += kPack) {
      const std::int64_t some = std::min(kPack, task.width - i);
      convert(static_cast<std::byte*>(acc) + i * size_of(acc_dtype), acc_dtype, buffer, out_.dtype,
              some);
      visit_width(out_.dtype, [&]<class T>(Tag<T>) {
        T* to = reinterpret_cast<T*>(out) + i * plan_.keep.out;
        const T* from = reinterpret_cast<const T*>(buffer);
        for (std::int64_t j = 0; j < some; ++j) to[j * plan_.keep.out] = from[j];
      });
    }
  }

 private:
  const Plan& plan_;
  ReduceFinish finish_;
  const MutView& out_;
};

// Calls one(tile, chunk) for every task, on some threads.
template <class F>
void for_tasks(const Plan& plan, F&& one) {
  const std::int64_t elements = std::max<std::int64_t>(1, plan.chunk_items * plan.run_step) *
                                (plan.by_rows ? plan.width : std::min(plan.width, plan.keep.n));
  parallel_for(plan.tasks(), std::max<std::int64_t>(1, kThreadElements / elements),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) one(i / plan.chunks, i % plan.chunks);
               });
}

// Where the reduced elements are cut: the partial results of every task, then their sum in order.
class Partials {
 public:
  Partials(const Plan& plan, const ReduceLoops& loops, bool indexed)
      : plan_(plan),
        loops_(loops),
        item_(size_of(loops.acc)),
        acc_(static_cast<std::size_t>(plan.tasks() * plan.width * item_)),
        index_(indexed ? static_cast<std::size_t>(plan.tasks() * plan.width) * 4 : 0),
        indexed_(indexed) {}

  ReduceTile at(std::int64_t tile, std::int64_t chunk) const {
    const std::int64_t place = (tile * plan_.chunks + chunk) * plan_.width;
    return {acc_.as<std::byte>() + place * item_,
            indexed_ ? index_.as<std::int32_t>() + place : nullptr, nullptr, 0};
  }
  // Adds the chunks of a tile up into its first.
  ReduceTile sum(std::int64_t tile, std::int64_t width) const {
    const ReduceTile total = at(tile, 0);
    for (std::int64_t c = 1; c < plan_.chunks; ++c) loops_.merge(at(tile, c), width, total);
    return total;
  }

 private:
  const Plan& plan_;
  const ReduceLoops& loops_;
  std::int64_t item_;
  Scratch acc_, index_;
  bool indexed_;
};

// Runs all tasks in one go, each in two passes: `first`, whose result `between` turns into what
// `second` subtracts.
template <class Between, class Done>
void run_two_passes(const Plan& plan, const ReduceLoops& first, const ReduceLoops& second,
                    const View& in, Between&& between, Done&& done) {
  const Runner one(plan, first, in), two(plan, second, in);
  for_tasks(plan, [&](std::int64_t tile, std::int64_t) {
    alignas(64) std::byte acc[kMaxWidth * 8];
    alignas(64) double shift[kMaxWidth];
    const Task task = task_at(plan, tile, 0);
    const ReduceTile t{acc, nullptr, nullptr, 0};
    one.fill(task, t);
    one.run(task, t);
    between(task, t, shift);
    const ReduceTile u{acc, nullptr, shift, 0};
    two.fill(task, u);
    two.run(task, u);
    done(task, u);
  });
}

// Runs all tasks and hands the accumulators of each tile to done(task, tile).
template <class Done>
void run_all(const Plan& plan, const ReduceLoops& loops, const View& in, bool indexed,
             const double* shift, Done&& done) {
  const Runner runner(plan, loops, in);
  const auto shift_at = [&](const Task& t) {
    return shift ? shift + t.outer * plan.keep.n + t.first : nullptr;
  };
  if (plan.chunks == 1) {
    for_tasks(plan, [&](std::int64_t tile, std::int64_t) {
      alignas(64) std::byte acc[kMaxWidth * 8];
      std::int32_t index[kMaxWidth];
      const Task task = task_at(plan, tile, 0);
      const ReduceTile t{acc, indexed ? index : nullptr, shift_at(task), 0};
      runner.fill(task, t);
      runner.run(task, t);
      done(task, t);
    });
    return;
  }
  const Partials partials(plan, loops, indexed);
  for_tasks(plan, [&](std::int64_t tile, std::int64_t chunk) {
    const Task task = task_at(plan, tile, chunk);
    ReduceTile t = partials.at(tile, chunk);
    t.shift = shift_at(task);
    runner.fill(task, t);
    runner.run(task, t);
  });
  for (std::int64_t tile = 0; tile < plan.outer * plan.tiles; ++tile) {
    const Task task = task_at(plan, tile, 0);
    done(task, partials.sum(tile, task.width));
  }
}

bool nothing_to_do(const MutView& out) { return out.size() == 0; }

}  // namespace

void reduce(ReduceMode mode, ReduceFinish finish, const View& in, const MutView& out) {
  if (nothing_to_do(out)) return;
  const ReduceLoops loops = MGE_DISPATCH(reduce_loops)(mode, in.dtype, finish.mean || finish.root);
  const Plan plan = make_plan(in, out, false);
  const Writer writer(plan, finish, out);
  run_all(plan, loops, in, false, nullptr, [&](const Task& task, const ReduceTile& tile) {
    writer.write(task, tile.acc, loops.acc);
  });
}

void variance(bool root, const View& in, const MutView& out) {
  if (nothing_to_do(out)) return;
  const ReduceLoops sum = MGE_DISPATCH(reduce_loops)(ReduceMode::sum, in.dtype, true);
  const ReduceLoops squares = MGE_DISPATCH(reduce_loops)(ReduceMode::sum_squares, in.dtype, true);
  const Plan plan = make_plan(in, out, false);
  const double count = static_cast<double>(plan.count);
  const auto mean_of = [&](const Task& task, const ReduceTile& tile, double* mean) {
    for (std::int64_t i = 0; i < task.width; ++i) {
      mean[i] = static_cast<const double*>(tile.acc)[i] / count;
    }
  };
  const Writer writer(plan, {.mean = true, .root = root}, out);
  const auto write = [&](const Task& task, const ReduceTile& tile) {
    writer.write(task, tile.acc, squares.acc);
  };
  // While what a task reads still lies in cache, it is read twice by the same task.
  if (plan.chunks == 1) return run_two_passes(plan, sum, squares, in, mean_of, write);
  const Scratch means(static_cast<std::size_t>(out.size()) * sizeof(double));
  run_all(plan, sum, in, false, nullptr, [&](const Task& task, const ReduceTile& tile) {
    mean_of(task, tile, means.as<double>() + task.outer * plan.keep.n + task.first);
  });
  run_all(plan, squares, in, false, means.as<double>(), write);
}

void arg_reduce(bool largest, const View& in, const MutView& out) {
  if (nothing_to_do(out)) return;
  const ReduceLoops loops = MGE_DISPATCH(arg_reduce_loops)(largest, in.dtype);
  const Plan plan = make_plan(in, out, true);
  const Writer writer(plan, {}, out);
  run_all(plan, loops, in, true, nullptr, [&](const Task& task, const ReduceTile& tile) {
    writer.write(task, tile.index, DType::int32);
  });
}

}  // namespace mge::cpu
