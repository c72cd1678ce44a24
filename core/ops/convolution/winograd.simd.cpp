// Tiles of 4 x 4 pixels of the input, which overlap, give 2 x 2 of the output. A thread takes some
// tiles through all three stages, so that what passes between them stays in its cache: transformed
// tiles (16 matrices of tiles by channels), their products with the transformed weights, and back.

#include <algorithm>
#include <array>

#include "core/kernels/cpu/packed_product.h"
#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/post_ops.h"
#include "core/ops/convolution/winograd.loops.h"
#include "core/runtime/allocator.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;

constexpr int64_t kPoints = 16;                 // of a tile
constexpr int64_t kCacheFloats = 160 << 10;     // of what lies between the stages, for a thread
constexpr int64_t kFewestTiles = 2 * kMaxRows;  // at a time: weights are read once for so many
constexpr int64_t kRowPad = kLanes<float>;      // rows are not all at one place of the first cache

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Where the 16 pixels of the input that a tile covers are; `zeros` stands for those outside.
struct Tiling {
  const WinogradLayout& at;
  const float* zeros;
  int64_t tiles_x = ceil_div(at.out_w, 2), tiles_y = ceil_div(at.out_h, 2);

  int64_t count() const { return at.batch * tiles_y * tiles_x; }
  // The sample, and the row and column of the output, at which a tile begins.
  int64_t sample(int64_t t) const { return t / (tiles_x * tiles_y); }
  int64_t row(int64_t t) const { return t / tiles_x % tiles_y * 2; }
  int64_t column(int64_t t) const { return t % tiles_x * 2; }

  std::array<const float*, kPoints> pixels(const float* x, int64_t t) const {
    const int64_t n = sample(t), top = row(t) - at.pad_h, left = column(t) - at.pad_w;
    std::array<const float*, kPoints> pixel;
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t h = top + i;
      for (int64_t j = 0; j < 4; ++j) {
        const int64_t w = left + j;
        const bool inside = h >= 0 && h < at.h && w >= 0 && w < at.w;
        pixel[static_cast<std::size_t>(4 * i + j)] =
            inside ? x + ((n * at.h + h) * at.w + w) * at.channels : zeros;
      }
    }
    return pixel;
  }
  // Where the 2 x 2 pixels that it gives are.
  std::array<const float*, 4> results(const float* y, int64_t t) const {
    const int64_t h = row(t), w = column(t), step = at.out_channels, below = at.out_w * step;
    const float* const first = y + ((sample(t) * at.out_h + h) * at.out_w + w) * step;
    const bool two = w + 1 < at.out_w, rows = h + 1 < at.out_h;
    return {first, two ? first + step : zeros, rows ? first + below : zeros,
            two && rows ? first + below + step : zeros};
  }
};

// B^T d B of one tile. The results of a point lie `point` numbers from those of the one before, and
// `step` lies between registers of channels.
void transform_input(const float* const* pixel, int64_t channels, float* out, int64_t point,
                     int64_t step) {
  using V = Vec<float>;
  for (int64_t c = 0; c < channels; c += kLanes<float>, out += step) {
    V d[4][4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const V a = load(pixel[j] + c), b = load(pixel[4 + j] + c);
      const V e = load(pixel[8 + j] + c), f = load(pixel[12 + j] + c);
      d[0][j] = a - e;
      d[1][j] = b + e;
      d[2][j] = e - b;
      d[3][j] = b - f;
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      float* const to = out + 4 * i * point;
      store(to, d[i][0] - d[i][2]);
      store(to + point, d[i][1] + d[i][2]);
      store(to + 2 * point, d[i][2] - d[i][1]);
      store(to + 3 * point, d[i][1] - d[i][3]);
    }
  }
}

// A^T m A of some lanes of one tile, and the bias: 2 x 2 pixels, of which the second row and column
// may be missing.
template <class V>
[[gnu::always_inline]] inline void transform_lanes(const float* m, int64_t point, const float* bias,
                                                   float* top, float* bottom, int64_t step) {
  const auto get = [](const float* p) {
    V v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  };
  const auto put = [](float* p, const V& v) { __builtin_memcpy(p, &v, sizeof v); };
  V up[4], down[4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const V a = get(m + j * point), b = get(m + (4 + j) * point);
    const V c = get(m + (8 + j) * point), d = get(m + (12 + j) * point);
    up[j] = a + (b + c);
    down[j] = (b - c) - d;
  }
  const V shift = get(bias);
  put(top, up[0] + (up[1] + up[2]) + shift);
  if (step) put(top + step, (up[1] - up[2]) - up[3] + shift);
  if (!bottom) return;
  put(bottom, down[0] + (down[1] + down[2]) + shift);
  if (step) put(bottom + step, (down[1] - down[2]) - down[3] + shift);
}

void transform_output(const float* m, int64_t point, const float* bias, int64_t channels,
                      float* top, float* bottom, int64_t step) {
  int64_t c = 0;
  for (; c + kLanes<float> <= channels; c += kLanes<float>) {
    transform_lanes<Vec<float>>(m + c, point, bias + c, top + c, bottom ? bottom + c : nullptr,
                                step);
  }
  for (; c < channels; c += kHalfLanes) {
    transform_lanes<HalfVec>(m + c, point, bias + c, top + c, bottom ? bottom + c : nullptr, step);
  }
}

struct Work {
  const float *x, *packed, *bias;
  float* y;
  const WinogradLayout& at;
  const Tiling& tiling;
  const PostOpRun& post;

  int64_t in_row() const { return at.channels + kRowPad; }
  int64_t out_row() const { return at.out_channels + kRowPad; }
  // Numbers of scratch for so many tiles.
  int64_t scratch(int64_t tiles) const {
    return kPoints * tiles * (in_row() + out_row()) + 4 * tiles * at.out_channels;
  }

  void run(int64_t begin, int64_t end, float* scratch) const {
    const int64_t tiles = end - begin;
    float* const v = scratch;
    float* const m = v + kPoints * tiles * in_row();
    float* const rows = m + kPoints * tiles * out_row();
    for (int64_t t = begin; t < end; ++t) {
      transform_input(tiling.pixels(x, t).data(), at.channels, v + (t - begin) * in_row(),
                      tiles * in_row(), kLanes<float>);
    }
    for (int64_t p = 0; p < kPoints; ++p) {
      packed_product(tiles, at.channels, at.out_channels, v + p * tiles * in_row(), in_row(),
                     packed + p * at.channels * at.out_channels, m + p * tiles * out_row(),
                     out_row(), {.bias = tiling.zeros});
    }
    for (int64_t t = begin; t < end;) {  // neighbours along a row
      const int64_t count = std::min(end - t, tiling.tiles_x - t % tiling.tiles_x);
      scatter(t, count, m + (t - begin) * out_row(), tiles * out_row(), rows);
      t += count;
    }
  }

 private:
  void scatter(int64_t t, int64_t count, const float* m, int64_t point, float* rows) const {
    const int64_t n = tiling.sample(t), h = tiling.row(t), w = tiling.column(t);
    const int64_t c = at.out_channels;
    const bool two = h + 1 < at.out_h;
    const int64_t width = std::min(2 * count, at.out_w - w);
    float* const to = y + ((n * at.out_h + h) * at.out_w + w) * c;
    float* const below = two ? to + at.out_w * c : nullptr;
    float* const top = post.empty() ? to : rows;
    float* const bottom = two ? (post.empty() ? below : rows + 2 * count * c) : nullptr;
    for (int64_t i = 0; i < count; ++i) {
      transform_output(m + i * out_row(), point, bias, c, top + 2 * i * c,
                       bottom ? bottom + 2 * i * c : nullptr, 2 * i + 1 < width ? c : 0);
    }
    if (post.empty()) return;
    post(top, to, width * c);
    if (two) post(bottom, below, width * c);
  }
};

// ---- filters ------------------------------------------------------------------------------------

constexpr int64_t kPanel = 4 * kHalfLanes;  // columns, as packed_product has them
constexpr int64_t kFilterBlock = 8;         // filters that lie side by side, for each of a panel

// G g G^T of a register of filters: taps lie `kPanel` numbers apart, points `point` numbers. In
// double precision: it is rounded once.
void transform_filter(const float* taps, float* out, int64_t point) {
  using V = Vec<double>;
  const auto get = [](const float* p) {
    HalfVec v;
    __builtin_memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, V);
  };
  const auto put = [](float* p, const V& v) {
    const HalfVec rounded = __builtin_convertvector(v, HalfVec);
    __builtin_memcpy(p, &rounded, sizeof rounded);
  };
  V rows[4][3];
#pragma GCC unroll 3
  for (int j = 0; j < 3; ++j) {
    const V a = get(taps + j * kPanel), b = get(taps + (3 + j) * kPanel);
    const V c = get(taps + (6 + j) * kPanel);
    rows[0][j] = a;
    rows[1][j] = (a + b + c) / 2;
    rows[2][j] = (a - b + c) / 2;
    rows[3][j] = c;
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const V &a = rows[i][0], &b = rows[i][1], &c = rows[i][2];
    put(out + 4 * i * point, a);
    put(out + (4 * i + 1) * point, (a + b + c) / 2);
    put(out + (4 * i + 2) * point, (a - b + c) / 2);
    put(out + (4 * i + 3) * point, c);
  }
}

// G^T u G of a register of filters: the transpose of that.
void transform_filter_back(const float* u, int64_t point, float* taps) {
  using V = Vec<float>;
  V rows[3][4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const V a = load(u + j * point), b = load(u + (4 + j) * point);
    const V c = load(u + (8 + j) * point), d = load(u + (12 + j) * point);
    rows[0][j] = a + (b + c) / 2;
    rows[1][j] = (b - c) / 2;
    rows[2][j] = (b + c) / 2 + d;
  }
#pragma GCC unroll 3
  for (int i = 0; i < 3; ++i) {
    const V &a = rows[i][0], &b = rows[i][1], &c = rows[i][2], &d = rows[i][3];
    store(taps + 3 * i * kPanel, a + (b + c) / 2);
    store(taps + (3 * i + 1) * kPanel, (b - c) / 2);
    store(taps + (3 * i + 2) * kPanel, (b + c) / 2 + d);
  }
}

// ---- the gradient of the filters ----------------------------------------------------------------

// The transpose of the convolution: for each point, transformed tiles of x, transposed, times
// transformed tiles of dy. Some tiles at a time are transformed by all threads, which then share
// the products, so that sums have one order for any number of threads.

constexpr int64_t kInPanel = kLanes<float>;  // channels of x side by side; kPanel of dy
constexpr int kFilterRows = kLanes<float> / 2 > 4 ? kLanes<float> / 2 : 4;  // of a tile of products
constexpr int64_t kDepth = 128;            // tiles of one panel of dy that stay in the first cache
constexpr int64_t kMostSums = 4 << 20;     // bytes
constexpr int64_t kFewestBytes = 4 << 20;  // of transformed tiles

struct Channels {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

// A dy A^T of some channels of one tile of 2 x 2, to panels of all tiles.
void transform_diff(const std::array<const float*, 4>& pixel, Channels of, float* out, int64_t tile,
                    int64_t count) {
  using V = Vec<float>;
  const int64_t point = of.size() * count;
  for (int64_t c = 0; c < of.size(); c += kLanes<float>) {
    const int64_t panel = c / kPanel * kPanel, width = std::min(kPanel, of.size() - panel);
    float* const to = out + panel * count + tile * width + c % kPanel;
    const V a = load(pixel[0] + of.begin + c), b = load(pixel[1] + of.begin + c);
    const V d = load(pixel[2] + of.begin + c), e = load(pixel[3] + of.begin + c);
    const V rows[4][2] = {{a, b}, {a + d, b + e}, {a - d, b - e}, {-d, -e}};
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      float* const at = to + 4 * i * point;
      store(at, rows[i][0]);
      store(at + point, rows[i][0] + rows[i][1]);
      store(at + 2 * point, rows[i][0] - rows[i][1]);
      store(at + 3 * point, -rows[i][1]);
    }
  }
}

// sums (+)= V^T M: a panel of M, whose rows are `width` numbers, and all panels of V.
void add_products(const float* v, int64_t in, const float* m, int64_t width, int64_t count,
                  float* sums, int64_t row, bool accumulate) {
  const Tile<float> run = tiles<float>[kFilterRows - 1][width / kLanes<float> - 1];
  for (int64_t t = 0; t < count; t += kDepth) {
    const int64_t depth = std::min(kDepth, count - t);
    for (int64_t i = 0; i < in; i += kFilterRows) {
      const float* const a = v + i / kInPanel * kInPanel * count + t * kInPanel + i % kInPanel;
      run(depth, a, 1, kInPanel, m + t * width, width, sums + i * row, row,
          {.accumulate = accumulate || t > 0});
    }
  }
}

// Sums (point, in, out) of some channels of dy to filters (out, in, 3, 3).
void gather_filters(const float* sums, int64_t in, Channels of, float* dw) {
  const int64_t blocks = ceil_div(in, kFilterBlock);
  parallel_for(ceil_div(of.size(), kPanel) * blocks, 4, [&](int64_t begin, int64_t end) {
    alignas(kBytes) float taps[kFilterBlock][9][kPanel];
    for (int64_t job = begin; job < end; ++job) {
      const int64_t o0 = job / blocks * kPanel, i0 = job % blocks * kFilterBlock;
      const int64_t width = std::min(kPanel, of.size() - o0);
      const int64_t height = std::min(kFilterBlock, in - i0);
      for (int64_t i = 0; i < height; ++i) {
        for (int64_t o = 0; o < width; o += kLanes<float>) {
          transform_filter_back(sums + (i0 + i) * of.size() + o0 + o, in * of.size(),
                                &taps[i][0][o]);
        }
      }
      for (int64_t o = 0; o < width; ++o) {
        float* const to = dw + ((of.begin + o0 + o) * in + i0) * 9;
        for (int64_t i = 0; i < height; ++i) {
          for (int t = 0; t < 9; ++t) to[9 * i + t] = taps[i][t][o];
        }
      }
    }
  });
}

}  // namespace

void winograd_pack(const float* weight, int64_t in, int64_t out, WinogradFilters filters,
                   float* packed) {
  const bool reversed = filters == WinogradFilters::reversed;
  const int64_t in_step = reversed ? 9 * out : 9, out_step = reversed ? 9 : 9 * in;
  const int64_t point = in * out, blocks = ceil_div(in, kFilterBlock);
  parallel_for(ceil_div(out, kPanel) * blocks, 4, [&](int64_t begin, int64_t end) {
    alignas(kBytes) float taps[kFilterBlock][9][kPanel];
    for (int64_t job = begin; job < end; ++job) {
      const int64_t o0 = job / blocks * kPanel, i0 = job % blocks * kFilterBlock;
      const int64_t width = std::min(kPanel, out - o0), count = std::min(kFilterBlock, in - i0);
      for (int64_t o = 0; o < width; ++o) {
        const float* const from = weight + i0 * in_step + (o0 + o) * out_step;
        for (int64_t i = 0; i < count; ++i) {
          for (int t = 0; t < 9; ++t) taps[i][t][o] = from[i * in_step + (reversed ? 8 - t : t)];
        }
      }
      for (int64_t i = 0; i < count; ++i) {
        float* const to = packed + o0 * in + (i0 + i) * width;
        for (int64_t o = 0; o < width; o += kHalfLanes) {
          transform_filter(&taps[i][0][o], to + o, point);
        }
      }
    }
  });
}

void winograd_convolution(const float* x, const float* packed, const float* bias, float* y,
                          const WinogradLayout& at, const dnn::PostOps& post_ops) {
  const Scratch zeros(sizeof(float) * static_cast<std::size_t>(at.channels + at.out_channels));
  std::fill_n(zeros.as<float>(), at.channels + at.out_channels, 0.f);
  const PostOpRun post(post_ops);
  const Tiling tiling{at, zeros.as<float>()};
  const Work work{.x = x,
                  .packed = packed,
                  .bias = bias ? bias : zeros.as<float>() + at.channels,
                  .y = y,
                  .at = at,
                  .tiling = tiling,
                  .post = post};
  const int64_t tiles = tiling.count(), threads = num_threads();
  const int64_t fit = kCacheFloats / (kPoints * (work.in_row() + work.out_row()));
  const int64_t most = std::max(kFewestTiles, fit / kMaxRows * kMaxRows);
  // The same number for each thread.
  int64_t blocks = ceil_div(tiles, most);
  if (tiles >= threads) blocks = ceil_div(blocks, threads) * threads;
  const int64_t need = ceil_div(work.scratch(ceil_div(tiles, blocks)), 16) * 16;
  const Scratch scratch(sizeof(float) * static_cast<std::size_t>(need * threads));
  parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    float* const mine = scratch.as<float>() + omp_get_thread_num() % threads * need;
    for (int64_t b = begin; b < end; ++b) {
      work.run(tiles * b / blocks, tiles * (b + 1) / blocks, mine);
    }
  });
}

void winograd_backward_filter(const float* x, const float* dy, float* dw,
                              const WinogradLayout& at) {
  const int64_t in = at.channels, out = at.out_channels, panels = ceil_div(out, kPanel);
  const Scratch zeros(sizeof(float) * static_cast<std::size_t>(std::max(in, out)));
  std::fill_n(zeros.as<float>(), std::max(in, out), 0.f);
  const Tiling tiling{at, zeros.as<float>()};
  const int64_t tiles_in_all = tiling.count();

  // Some channels of dy at a time, for which x is transformed again: that is a small part of the
  // products, and sums for all of them take much memory.
  const auto point_bytes = static_cast<int64_t>(kPoints * sizeof(float));
  const int64_t groups = std::min(panels, ceil_div(point_bytes * in * out, kMostSums));
  const int64_t most_out = ceil_div(panels, groups) * kPanel;
  // Sums are read and written once for so many tiles: these should be the larger part.
  const int64_t tile_bytes = point_bytes * (in + most_out), sum_bytes = point_bytes * in * most_out;
  const int64_t most =
      std::max(kDepth, std::max(2 * sum_bytes, kFewestBytes) / tile_bytes / kDepth * kDepth);
  const int64_t chunks = ceil_div(tiles_in_all, most), chunk = ceil_div(tiles_in_all, chunks);
  const Scratch scratch(static_cast<std::size_t>(chunk * tile_bytes + sum_bytes));
  float* const v = scratch.as<float>();                // point, panel of in, tile, in
  float* const m = v + kPoints * in * chunk;           // point, panel of out, tile, out
  float* const sums = m + kPoints * most_out * chunk;  // point, in, out
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t begin_panel = panels * g / groups, end_panel = panels * (g + 1) / groups;
    const Channels of{begin_panel * kPanel, std::min(out, end_panel * kPanel)};
    for (int64_t c = 0; c < chunks; ++c) {
      const int64_t first = tiles_in_all * c / chunks;
      const int64_t count = tiles_in_all * (c + 1) / chunks - first;
      parallel_for(count, 4, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          transform_input(tiling.pixels(x, first + t).data(), in, v + t * kInPanel, in * count,
                          kInPanel * count);
          transform_diff(tiling.results(dy, first + t), of, m, t, count);
        }
      });
      const int64_t own_panels = end_panel - begin_panel;
      parallel_for(kPoints * own_panels, 1, [&](int64_t begin, int64_t end) {
        for (int64_t job = begin; job < end; ++job) {
          const int64_t p = job / own_panels, o = job % own_panels * kPanel;
          add_products(v + p * in * count, in, m + (p * of.size() + o) * count,
                       std::min(kPanel, of.size() - o), count, sums + p * in * of.size() + o,
                       of.size(), c > 0);
        }
      });
    }
    gather_filters(sums, in, of, dw);
  }
}

}  // namespace mge::cpu::MGE_SIMD_NS
