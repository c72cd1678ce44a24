#include <algorithm>
#include <limits>

#include "core/kernels/cpu/packed_product.h"
#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/post_ops.h"
#include "core/ops/convolution/pointwise.loops.h"
#include "core/runtime/allocator.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

using std::int64_t;

constexpr int64_t kBlockFloats = 6 << 10;  // of pixels in and out, which stay in the first cache
constexpr int64_t kThreadWork = 300000;    // multiplications that pay for a thread

// Whether a tile's end does all that follows.
bool ends(const dnn::PostOps& post, TileEnd& end) {
  if (post.scale != 1 || post.shift != 0 || post.add == dnn::PostOps::Add::after_activation) {
    return false;
  }
  constexpr float kInf = std::numeric_limits<float>::infinity();
  end.add = post.add == dnn::PostOps::Add::before_activation;
  end.bounded = post.activation.has_value();
  if (!post.activation) return true;
  switch (*post.activation) {
    case ElementMode::RELU:
      end.low = 0, end.high = kInf;
      return true;
    case ElementMode::RELU6:
      end.low = 0, end.high = 6;
      return true;
    case ElementMode::CLIP:
      end.low = post.alpha, end.high = post.beta;
      return true;
    default:
      return false;
  }
}

}  // namespace

void pointwise_pack(const float* weight, int64_t in, int64_t out, float* packed) {
  pack_columns(in, out, packed, [&](int64_t i, int64_t o) { return weight[o * in + i]; });
}

void pointwise_convolution(const float* x, const float* packed, const float* bias, float* y,
                           const PointwiseLayout& at, const dnn::PostOps& post_ops) {
  const PostOpRun post(post_ops);
  const int64_t in = at.channels, out = at.out_channels;
  const int64_t rows = std::max<int64_t>(1, kBlockFloats / (in + out) / kMaxRows) * kMaxRows;
  const int64_t blocks = (at.pixels + rows - 1) / rows, threads = num_threads();
  const int64_t need = rows * out;
  const Scratch scratch(sizeof(float) * static_cast<std::size_t>(need * threads + out));
  float* const zeros = scratch.as<float>() + need * threads;
  std::fill_n(zeros, out, 0.f);
  const int64_t grain = std::max<int64_t>(1, kThreadWork / std::max<int64_t>(1, rows * in * out));
  TileEnd finish{.bias = bias ? bias : zeros};
  const bool whole = ends(post_ops, finish);
  if (!whole) finish = {.bias = finish.bias};
  parallel_for(blocks, grain, [&](int64_t begin, int64_t end) {
    float* const mine = scratch.as<float>() + omp_get_thread_num() % threads * need;
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * rows, count = std::min(rows, at.pixels - first);
      float* const to = y + first * out;
      packed_product(count, in, out, x + first * in, in, packed, whole ? to : mine, out, finish);
      if (!whole) post(mine, to, count * out);
    }
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
