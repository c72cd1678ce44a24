// Threads take rows of C. A block of rows of A stays in the second cache while the panels of B pass
// by, each of which is in the first cache, or on its way there, for all tiles of the block. What
// the next panel holds is fetched meanwhile: the weights of a network come from memory in each
// step.
#include <algorithm>
#include <cstring>
#include <optional>

#include "core/kernels/cpu/gemm_tile.h"
#include "core/kernels/cpu/lanes.h"
#include "core/kernels/cpu/panel_product.h"
#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/post_ops.h"
#include "core/runtime/allocator.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;

constexpr int64_t kDepth = 384;          // of a block, at most
constexpr int64_t kBlockRows = 108;      // of A: 162 KiB, in the second cache beside panels of B
constexpr int64_t kRowsOfThread = 48;    // fewer are not worth reading all of B for
constexpr int64_t kThreadWork = 150000;  // multiplications that pay for a thread
constexpr int64_t kWidth = kTileCols<float>;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t whole_panels(int64_t cols) { return ceil_div(cols, kWidth) * kWidth; }

// Part number i of [0, n) in `parts`, in whole units.
struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};
Range part(int64_t n, int64_t parts, int64_t i, int64_t unit = 1) {
  const int64_t units = ceil_div(n, unit);
  return {std::min(n, units * i / parts * unit), std::min(n, units * (i + 1) / parts * unit)};
}

// The depth in blocks of about one size. Panels of a block follow those of the block before.
struct DepthBlocks {
  int64_t depth, count = ceil_div(depth, kDepth);
  Range operator[](int64_t q) const { return part(depth, count, q); }
};

// Rows in tiles of about one height.
struct Tiles {
  int64_t rows, count = ceil_div(rows, kMaxRows);
  Range operator[](int64_t t) const { return part(rows, count, t); }
};

// ---- the rows of A ------------------------------------------------------------------------------

constexpr int64_t kRowPad = 16;
constexpr int64_t kScratchRow = kDepth + kRowPad;

struct Left {
  const float* data;
  int64_t row;
};

// Rows a multiple of the first cache's way apart would evict one another: they are copied.
bool evicts(const PanelProduct& g) {
  return g.a_row * static_cast<int64_t>(sizeof(float)) % 4096 == 0;
}

void copy_rows(const float* from, int64_t from_row, int64_t rows, int64_t cols, float* to,
               int64_t to_row) {
  for (int64_t i = 0; i < rows; ++i, from += from_row, to += to_row) {
    std::memcpy(to, from, static_cast<std::size_t>(cols) * sizeof(float));
  }
}

Left left(const PanelProduct& g, Range rows, Range deep, float* scratch) {
  const float* const a = g.a + rows.begin * g.a_row + deep.begin;
  if (!evicts(g)) return {a, g.a_row};
  copy_rows(a, g.a_row, rows.size(), deep.size(), scratch, kScratchRow);
  return {scratch, kScratchRow};
}

// ---- what follows -------------------------------------------------------------------------------

// What happens at the ends of the sums over a block of the depth.
struct Ends {
  bool add;           // to what C holds
  const float* bias;  // or null
  bool follows;       // the block is the last one, and something follows
};

class Following {
 public:
  explicit Following(const dnn::PostOps* post) {
    if (!post) return;
    gelu_ = post->activation == ElementMode::GELU && post->scale == 1 && post->shift == 0;
    run_.emplace(*post);
  }
  bool empty() const { return !run_; }
  // From a tile, which is overwritten, to C.
  void operator()(float* tile, int64_t rows, int64_t cols, float* c, int64_t c_row) const {
    for (int64_t i = 0; i < rows; ++i, tile += kWidth, c += c_row) {
      if (!gelu_) {
        (*run_)(tile, c, cols);
      } else if (cols == kWidth) {
        gelu_row(tile, c);
      } else {
        float whole[kWidth];
        gelu_row(tile, whole);
        std::memcpy(c, whole, static_cast<std::size_t>(cols) * sizeof(float));
      }
    }
  }

 private:
  [[gnu::always_inline]] static void gelu_row(const float* __restrict x, float* __restrict y) {
    for (int64_t j = 0; j < kWidth; ++j) y[j] = lanes::fast_gelu(x[j]);
  }

  bool gelu_ = false;
  std::optional<PostOpRun> run_;
};

// ---- blocks -------------------------------------------------------------------------------------

// One panel, of `cols` columns, with `rows` rows; `next` is the panel that comes after it.
void run_panel(const Left& a, int64_t rows, int64_t depth, const float* panel, int64_t cols,
               const float* next, const Ends& ends, const Following& following, float* c,
               int64_t c_row) {
  alignas(64) float buffer[kMaxRows * kWidth] = {}, bias[kWidth] = {};
  if (ends.bias) std::copy_n(ends.bias, cols, bias);
  const Tiles split{rows};
  const int vectors = cols > kLanes<float> ? 2 : 1;
  const bool direct = cols == vectors * kLanes<float> && !ends.follows;
  const int64_t share = ceil_div(kWidth, split.count);
  for (int64_t t = 0; t < split.count; ++t) {
    const int64_t first = split[t].begin, height = split[t].size();
    float* const to = c + first * c_row;
    if (!direct && ends.add) copy_rows(to, c_row, height, cols, buffer, kWidth);
    tiles<float>[height - 1][vectors - 1](
        depth, a.data + first* a.row, a.row, 1, panel, kWidth, direct ? to : buffer,
        direct ? c_row : kWidth,
        {ends.add, ends.bias ? bias : nullptr, next + t * share * depth, share});
    if (ends.follows) {
      following(buffer, height, cols, to, c_row);
    } else if (!direct) {
      copy_rows(buffer, kWidth, height, cols, to, c_row);
    }
  }
}

// C[rows, cols], where both begin with whole tiles.
void run_part(const PanelProduct& g, const Following& following, Range rows, Range cols,
              float* scratch) {
  const DepthBlocks blocks{g.depth};
  const int64_t row_blocks = ceil_div(rows.size(), kBlockRows);
  for (int64_t q = 0; q < blocks.count; ++q) {
    const Range deep = blocks[q];
    const float* const panels = g.panels + deep.begin * whole_panels(g.cols);
    const bool first = q == 0, last = q + 1 == blocks.count;
    for (int64_t b = 0; b < row_blocks; ++b) {
      const Range within = part(rows.size(), row_blocks, b);
      const Range r{rows.begin + within.begin, rows.begin + within.end};
      const Left a = left(g, r, deep, scratch);
      for (int64_t j = cols.begin; j < cols.end; j += kWidth) {
        const int64_t next = j + kWidth < cols.end ? j + kWidth : cols.begin;
        const Ends ends{g.add || !first, first && g.bias ? g.bias + j : nullptr,
                        last && !following.empty()};
        run_panel(a, r.size(), deep.size(), panels + j * deep.size(),
                  std::min(kWidth, cols.end - j), panels + next * deep.size(), ends, following,
                  g.c + r.begin * g.c_row + j, g.c_row);
      }
    }
  }
}

// How C is cut for threads.
struct Cut {
  int64_t rows, cols;
};
Cut cut_for(const PanelProduct& g) {
  const double work =
      static_cast<double>(g.rows) * static_cast<double>(g.depth) * static_cast<double>(g.cols);
  const auto threads = static_cast<int64_t>(
      std::clamp(work / static_cast<double>(kThreadWork), 1.0, static_cast<double>(num_threads())));
  int64_t rows = std::clamp<int64_t>(g.rows / kRowsOfThread, 1, threads);
  while (threads % rows != 0) --rows;
  return {rows, threads / rows};
}

}  // namespace

void panel_product(const PanelProduct& g) {
  const Cut cut = cut_for(g);
  const int64_t parts = cut.rows * cut.cols;
  const Following following(g.post);
  const int64_t need = evicts(g) ? kBlockRows * kScratchRow : 0;
  const Scratch scratch(sizeof(float) * static_cast<std::size_t>(parts * need));
  parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      run_part(g, following, part(g.rows, cut.rows, p / cut.cols),
               part(g.cols, cut.cols, p % cut.cols, kWidth), scratch.as<float>() + p * need);
    }
  });
}

int64_t weight_panels_size(int64_t depth, int64_t cols) { return depth * whole_panels(cols); }

void pack_weight_panels(const float* weight, int64_t row, int64_t col, int64_t depth, int64_t cols,
                        float* panels) {
  const DepthBlocks blocks{depth};
  for (int64_t q = 0; q < blocks.count; ++q) {
    const Range deep = blocks[q];
    float* const to = panels + deep.begin * whole_panels(cols);
    parallel_for(ceil_div(cols, kWidth), 4, [&](int64_t begin, int64_t end) {
      for (int64_t panel = begin; panel < end; ++panel) {
        const int64_t j = panel * kWidth;
        pack(to + j * deep.size(), kWidth, weight + deep.begin * row + j * col, col, row,
             static_cast<int>(std::min(kWidth, cols - j)), deep.size());
      }
    });
  }
}

}  // namespace mge::cpu::MGE_SIMD_NS
