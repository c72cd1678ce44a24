// One step multiplies the last hidden state, a few rows, by weights that are the same in every
// step. They are packed once in panels that a register-blocked product (Goto and van de Geijn,
// 2008) reads in order, and the gates follow while the product is in cache.
//
// Threads take whole sequences, which never wait for one another. Where there are too few of them,
// threads share the units of the sequences, and meet twice in each step.

#include <algorithm>

#include "core/kernels/cpu/gemm_tile.h"
#include "core/kernels/cpu/lanes.h"
#include "core/kernels/cpu/parallel.h"
#include "core/ops/recurrent/recurrent.loops.h"
#include "core/runtime/allocator.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;

constexpr int64_t kDepth = 256;         // of a block: with 32 columns 32 KiB, within L1
constexpr int64_t kRowsOfThread = 4;    // sequences that are worth a thread of their own
constexpr double kThreadWork = 200000;  // multiplications that pay for a thread, or for meeting
constexpr int64_t kUnits = 16;          // hidden units that stay together

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Rows of left operands are this far apart: an odd number of cache lines, so that they do not evict
// one another.
template <class T>
int64_t padded(int64_t n) {
  constexpr int64_t pair = 128 / static_cast<int64_t>(sizeof(T));
  return ceil_div(n, pair) * pair + pair / 2;
}

// ---- rows times a packed matrix -----------------------------------------------------------------

// C = A @ B for `rows` rows and the panels [first, last) of B, of kTileCols columns each.
template <class T>
void multiply(int64_t rows, int64_t depth, const T* a, int64_t a_row, const T* packed,
              int64_t first, int64_t last, T* c, int64_t c_row) {
  constexpr int64_t width = kTileCols<T>;
  const int64_t blocks = ceil_div(rows, kMaxRows);
  for (int64_t p0 = 0; p0 < depth; p0 += kDepth) {
    const int64_t deep = std::min(kDepth, depth - p0);
    for (int64_t panel = first; panel < last; ++panel) {
      const T* b = packed + (panel * depth + p0) * width;
      for (int64_t t = 0; t < blocks; ++t) {
        const int64_t i = rows * t / blocks, height = rows * (t + 1) / blocks - i;
        tiles<T>[height - 1][1](deep, a + i* a_row + p0, a_row, 1, b, width,
                                c + i* c_row + panel* width, c_row, {.accumulate = p0 > 0});
      }
    }
  }
}

template <class T>
void pack_panels(const T* w, int64_t depth, int64_t width, int64_t step_p, int64_t step_j,
                 T* packed) {
  constexpr int cols = kTileCols<T>;
  const int64_t grain = std::max<int64_t>(1, 32768 / std::max<int64_t>(1, depth * cols));
  parallel_for(ceil_div(width, cols), grain, [&](int64_t begin, int64_t end) {
    for (int64_t q = begin; q < end; ++q) {
      const int count = static_cast<int>(std::min<int64_t>(cols, width - q * cols));
      pack(packed + q * depth * cols, cols, w + q * cols * step_j, step_j, step_p, count, depth);
    }
  });
}

// ---- who works on what --------------------------------------------------------------------------

// A thread's share of every step: sequences [row0, row1), and where several threads have the same
// ones, part number `part` of `parts` of their units.
struct Share {
  int64_t row0, row1, part, parts;
  int64_t rows() const { return row1 - row0; }
  // The panels of a matrix of this width, and the hidden units, that this thread computes.
  template <class T>
  int64_t panel(int64_t width, int64_t i) const {
    return ceil_div(width, kTileCols<T>) * (part + i) / parts;
  }
  int64_t unit(int64_t hidden, int64_t i) const {
    return std::min(hidden, ceil_div(hidden, kUnits) * (part + i) / parts * kUnits);
  }
  // Waits until all threads are here.
  void meet() const {
    if (parts > 1) {
#pragma omp barrier
    }
  }
};

inline Share share_of(int64_t batch, int64_t team, int64_t me) {
  const int64_t groups = std::clamp<int64_t>(batch / kRowsOfThread, 1, team);
  const int64_t group = me % groups, part = me / groups, parts = team / groups;
  if (part >= parts) return {0, 0, 0, parts};  // left over: only meets the others
  return {batch * group / groups, batch * (group + 1) / groups, part, parts};
}

// Calls work(share) on as many threads as pay: for sequences of their own what all steps take, for
// a share in each step what that takes. `step_work`: multiplications of one step.
template <class F>
void run_team(int64_t steps, int64_t batch, double step_work, F&& work) {
  const double whole =
      std::min(double(batch / kRowsOfThread), double(steps) * step_work / kThreadWork);
  const double most = std::max(whole, step_work / kThreadWork);
  const int threads = static_cast<int>(std::clamp<double>(most, 1.0, double(num_threads())));
  if (threads <= 1 || omp_in_parallel()) {
    work(Share{0, batch, 0, 1});
    return;
  }
#pragma omp parallel num_threads(threads)
  work(share_of(batch, omp_get_num_threads(), omp_get_thread_num()));
}

// ---- the gates ----------------------------------------------------------------------------------

// In: the four sums in two parts, x[k * gap] from the inputs and r[k * gap] from the last state.
// Out: x holds the gates after their activations; c and h the new states.
template <class T>
void lstm_gates(int64_t n, int64_t gap, T* __restrict x, const T* __restrict r, const T* c_old,
                T* c, T* __restrict h) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T i = lanes::sigmoid(x[j] + r[j]);
    const T f = lanes::sigmoid(x[gap + j] + r[gap + j]);
    const T g = lanes::tanh(x[2 * gap + j] + r[2 * gap + j]);
    const T o = lanes::sigmoid(x[3 * gap + j] + r[3 * gap + j]);
    const T cell = f * c_old[j] + i * g;
    x[j] = i;
    x[gap + j] = f;
    x[2 * gap + j] = g;
    x[3 * gap + j] = o;
    c[j] = cell;
    h[j] = o * lanes::tanh(cell);
  }
}

// dh = dy + (what came from the step after), dc likewise; out: the gradients of the four sums, and
// dc for the step before.
template <class T>
void lstm_gates_backward(int64_t n, int64_t gap, const T* __restrict gates,
                         const T* __restrict c_old, const T* __restrict c, const T* __restrict dy,
                         const T* __restrict dh_next, T* __restrict dc, T* __restrict d) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const T i = gates[j], f = gates[gap + j], g = gates[2 * gap + j], o = gates[3 * gap + j];
    const T dh = dy[j] + dh_next[j], t = lanes::tanh(c[j]);
    const T dcell = dc[j] + dh * o * (T(1) - t * t);
    d[j] = dcell * g * i * (T(1) - i);
    d[gap + j] = dcell * c_old[j] * f * (T(1) - f);
    d[2 * gap + j] = dcell * i * (T(1) - g * g);
    d[3 * gap + j] = dh * t * o * (T(1) - o);
    dc[j] = dcell * f;
  }
}

template <class T>
void activate(RecurrentMode mode, int64_t n, const T* x, const T* r, T* h) {
  if (mode == RecurrentMode::TANH) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) h[j] = lanes::tanh(x[j] + r[j]);
  } else if (mode == RecurrentMode::RELU) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) {
      const T v = x[j] + r[j];
      h[j] = v < T(0) ? T(0) : v;  // keeps NaN
    }
  } else {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) h[j] = x[j] + r[j];
  }
}

template <class T>
void activate_backward(RecurrentMode mode, int64_t n, const T* __restrict y, const T* __restrict dy,
                       const T* __restrict dh, T* __restrict d) {
  if (mode == RecurrentMode::TANH) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) d[j] = (dy[j] + dh[j]) * (T(1) - y[j] * y[j]);
  } else if (mode == RecurrentMode::RELU) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) d[j] = y[j] > T(0) ? dy[j] + dh[j] : T(0);
  } else {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) d[j] = dy[j] + dh[j];
  }
}

// ---- all steps ----------------------------------------------------------------------------------

// Copies `count` runs of n elements, `gap` apart.
template <class T>
void copy_runs(int64_t count, int64_t n, int64_t gap, const T* from, T* to) {
  for (int64_t k = 0; k < count; ++k) std::copy_n(from + k * gap, n, to + k * gap);
}

template <class T>
void forward(const RecurrentForward& r) {
  const bool lstm = r.mode == RecurrentMode::LSTM;
  const int64_t n = r.batch, h = r.hidden, width = gate_count(r.mode) * h;
  const T* const w = static_cast<const T*>(r.w_hh);
  const int64_t row = w ? padded<T>(width) : width, state_row = padded<T>(h);
  const Scratch scratch(w ? static_cast<std::size_t>(n * (row + state_row)) * sizeof(T) : 0);
  T *const own = scratch.as<T>(), *const state = own + n * row;
  const T* const sums = w ? own : static_cast<const T*>(r.product);
  run_team(r.steps, n, double(n) * double(h) * double(width), [&](const Share& s) {
    const int64_t panel0 = s.panel<T>(width, 0), panel1 = s.panel<T>(width, 1);
    const int64_t unit0 = s.unit(h, 0), units = s.unit(h, 1) - unit0;
    const T *h_old = static_cast<const T*>(r.h0), *c_old = static_cast<const T*>(r.c0);
    for (int64_t k = 0; k < r.steps; ++k) {
      const int64_t t = r.reverse ? r.steps - 1 - k : k;
      T* const y = static_cast<T*>(r.y) + t * n * h;
      T* const gates = static_cast<T*>(r.gates) + t * n * width;
      T* const c = lstm ? static_cast<T*>(r.cells) + (r.keep_cells ? t * n * h : 0) : nullptr;
      if (w) {
        for (int64_t i = s.row0; i < s.row1; ++i) {
          std::copy_n(h_old + i * h + unit0, units, state + i * state_row + unit0);
        }
        s.meet();
        multiply(s.rows(), h, state + s.row0 * state_row, state_row, w, panel0, panel1,
                 own + s.row0 * row, row);
        s.meet();
      }
      for (int64_t i = s.row0; i < s.row1; ++i) {
        const int64_t at = i * h + unit0;
        T* const x = gates + i * width + unit0;
        const T* const sum = sums + i * row + unit0;
        if (lstm) {
          lstm_gates(units, h, x, sum, c_old + at, c + at, y + at);
        } else {
          activate(r.mode, units, x, sum, y + at);
        }
      }
      h_old = y;
      c_old = c;
    }
  });
}

template <class T>
void backward(const RecurrentBackward& r) {
  const bool lstm = r.mode == RecurrentMode::LSTM;
  const int64_t n = r.batch, h = r.hidden, count = gate_count(r.mode), width = count * h;
  const int64_t row = padded<T>(h), sum_row = padded<T>(width);
  const Scratch scratch(static_cast<std::size_t>(n * (row + sum_row)) * sizeof(T));
  T *const dh = scratch.as<T>(), *const sums = dh + n * row;
  const T* const w = static_cast<const T*>(r.w_hh);
  const auto from = [](const void* base, int64_t offset) {
    return base ? static_cast<const T*>(base) + offset : nullptr;
  };
  run_team(r.steps, n, double(n) * double(h) * double(width), [&](const Share& s) {
    const int64_t panel0 = s.panel<T>(h, 0), panel1 = s.panel<T>(h, 1);
    const int64_t unit0 = s.unit(h, 0), units = s.unit(h, 1) - unit0;
    for (int64_t i = s.row0; i < s.row1; ++i) {
      const T* given = static_cast<const T*>(r.dh) + i * h + unit0;
      std::copy_n(given, units, dh + i * row + unit0);
    }
    for (int64_t k = 0; k < r.steps; ++k) {
      const int64_t t = r.reverse ? k : r.steps - 1 - k;
      const int64_t before = r.reverse ? t + 1 : t - 1;
      const T* const c_old =
          k + 1 < r.steps ? from(r.cells, before * n * h) : static_cast<const T*>(r.c0);
      for (int64_t i = s.row0; i < s.row1; ++i) {
        const int64_t at = i * h + unit0, in_step = t * n * h + at;
        const T* const dy = from(r.dy, in_step);
        T* const d = sums + i * sum_row + unit0;
        if (lstm) {
          lstm_gates_backward(units, h, from(r.gates, (t * n + i) * width + unit0), c_old + at,
                              from(r.cells, in_step), dy, dh + i * row + unit0,
                              static_cast<T*>(r.dc) + at, d);
        } else {
          activate_backward(r.mode, units, from(r.y, in_step), dy, dh + i * row + unit0, d);
        }
        copy_runs(count, units, h, d, static_cast<T*>(r.dgates) + (t * n + i) * width + unit0);
      }
      if (!w) return;
      s.meet();
      multiply(s.rows(), width, sums + s.row0 * sum_row, sum_row, w, panel0, panel1,
               dh + s.row0 * row, row);
      s.meet();
    }
    for (int64_t i = s.row0; i < s.row1; ++i) {
      std::copy_n(dh + i * row + unit0, units, static_cast<T*>(r.dh) + i * h + unit0);
    }
  });
}

}  // namespace

void pack_recurrent(DType dtype, const void* w, int64_t depth, int64_t width, int64_t step_p,
                    int64_t step_j, void* packed) {
  if (dtype == DType::float64) {
    pack_panels(static_cast<const double*>(w), depth, width, step_p, step_j,
                static_cast<double*>(packed));
  } else {
    pack_panels(static_cast<const float*>(w), depth, width, step_p, step_j,
                static_cast<float*>(packed));
  }
}

void recurrent_forward(const RecurrentForward& r) {
  r.dtype == DType::float64 ? forward<double>(r) : forward<float>(r);
}

void recurrent_backward(const RecurrentBackward& r) {
  r.dtype == DType::float64 ? backward<double>(r) : backward<float>(r);
}

}  // namespace mge::cpu::MGE_SIMD_NS
