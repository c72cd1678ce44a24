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

// The filter of one pair of channels: G g G^T.
void transform_filter(const float* g, double* out) {
  double rows[4][3];
  for (int j = 0; j < 3; ++j) {
    const double a = g[j], b = g[3 + j], c = g[6 + j];
    rows[0][j] = a;
    rows[1][j] = (a + b + c) / 2;
    rows[2][j] = (a - b + c) / 2;
    rows[3][j] = c;
  }
  for (int i = 0; i < 4; ++i) {
    const double a = rows[i][0], b = rows[i][1], c = rows[i][2];
    out[4 * i] = a;
    out[4 * i + 1] = (a + b + c) / 2;
    out[4 * i + 2] = (a - b + c) / 2;
    out[4 * i + 3] = c;
  }
}

// B^T d B of one tile: `pixel` says where each of its 16 pixels is. The results of a point lie
// `point` numbers from those of the one before.
void transform_input(const float* const* pixel, int64_t channels, float* out, int64_t point) {
  using V = Vec<float>;
  for (int64_t c = 0; c < channels; c += kLanes<float>) {
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
      float* const to = out + 4 * i * point + c;
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
  const float *x, *packed, *bias, *zeros;
  float* y;
  const WinogradLayout& at;
  const PostOpRun& post;
  int64_t tiles_x, tiles_y;

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
    for (int64_t t = begin; t < end; ++t) gather(t, v + (t - begin) * in_row(), tiles * in_row());
    for (int64_t p = 0; p < kPoints; ++p) {
      packed_product(tiles, at.channels, at.out_channels, v + p * tiles * in_row(), in_row(),
                     packed + p * at.channels * at.out_channels, m + p * tiles * out_row(),
                     out_row(), {.bias = zeros});
    }
    for (int64_t t = begin; t < end;) {  // neighbours along a row
      const int64_t count = std::min(end - t, tiles_x - t % tiles_x);
      scatter(t, count, m + (t - begin) * out_row(), tiles * out_row(), rows);
      t += count;
    }
  }

 private:
  void gather(int64_t t, float* to, int64_t point) const {
    const int64_t n = t / (tiles_x * tiles_y);
    const int64_t top = t / tiles_x % tiles_y * 2 - at.pad_h, left = t % tiles_x * 2 - at.pad_w;
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
    transform_input(pixel.data(), at.channels, to, point);
  }

  void scatter(int64_t t, int64_t count, const float* m, int64_t point, float* rows) const {
    const int64_t n = t / (tiles_x * tiles_y), c = at.out_channels;
    const int64_t h = t / tiles_x % tiles_y * 2, w = t % tiles_x * 2;
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

}  // namespace

void winograd_pack(const float* weight, int64_t in, int64_t out, float* packed) {
  const Scratch scratch(sizeof(float) * static_cast<std::size_t>(kPoints * in * out));
  float* const plain = scratch.as<float>();  // point, in, out
  parallel_for(out, 16, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      for (int64_t i = 0; i < in; ++i) {
        double u[kPoints];
        transform_filter(weight + (o * in + i) * 9, u);
        for (int64_t p = 0; p < kPoints; ++p) {
          plain[(p * in + i) * out + o] = static_cast<float>(u[p]);
        }
      }
    }
  });
  for (int64_t p = 0; p < kPoints; ++p) {
    const float* from = plain + p * in * out;
    pack_columns(in, out, packed + p * in * out,
                 [&](int64_t i, int64_t o) { return from[i * out + o]; });
  }
}

void winograd_convolution(const float* x, const float* packed, const float* bias, float* y,
                          const WinogradLayout& at, const dnn::PostOps& post_ops) {
  const Scratch zeros(sizeof(float) * static_cast<std::size_t>(at.channels + at.out_channels));
  std::fill_n(zeros.as<float>(), at.channels + at.out_channels, 0.f);
  const PostOpRun post(post_ops);
  const Work work{x,
                  packed,
                  bias ? bias : zeros.as<float>() + at.channels,
                  zeros.as<float>(),
                  y,
                  at,
                  post,
                  ceil_div(at.out_w, 2),
                  ceil_div(at.out_h, 2)};
  const int64_t tiles = at.batch * work.tiles_y * work.tiles_x, threads = num_threads();
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

}  // namespace mge::cpu::MGE_SIMD_NS
