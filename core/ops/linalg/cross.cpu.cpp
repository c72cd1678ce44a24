#include "core/kernels/cpu/nd_loop.h"
#include "core/kernels/cpu/parallel.h"
#include "core/ops/linalg/cross.loops.h"
#include "core/ops/linalg/linalg.h"

namespace mge {
namespace {

constexpr std::int64_t kGrain = 1 << 13;  // vectors that are worth a thread

// The axes of an operand that are not the vectors', and the stride of those.
Strides outer_strides(const View& v, const Shape& shape, std::int64_t& component) {
  Strides out = broadcast_strides(v.shape, v.strides, shape);
  component = out.back();
  out.erase(out.size() - 1);
  return out;
}

}  // namespace

void kernel(const CrossProduct&, CpuContext&, Views in, MutViews outs) {
  const MutView& out = outs[0];
  if (out.size() == 0) return;
  std::int64_t a_component, b_component;
  const Strides a = outer_strides(in[0], out.shape, a_component);
  const Strides b = outer_strides(in[1], out.shape, b_component);
  Shape outer = out.shape;
  Strides to = out.strides;
  outer.erase(outer.size() - 1);
  to.erase(to.size() - 1);
  const cpu::NdLoop<3> loop(outer, std::array<const Strides*, 3>{&to, &a, &b});
  // Along its innermost axis the output, which is row-major, advances by one vector.
  const std::int64_t row = loop.size_or_1(0), size = size_of(out.dtype),
                     piece = std::min(row, kGrain);
  const std::int64_t pieces = (row + piece - 1) / piece;
  cpu::parallel_for(
      loop.total() / row * pieces, 1 + kGrain / piece, [&](std::int64_t begin, std::int64_t end) {
        cpu::NdWalk<3> walk(loop, 1, begin / pieces);
        for (std::int64_t unit = begin; unit < end; ++unit) {
          const std::int64_t at = unit % pieces * piece;
          const auto from = [&](std::size_t k, int operand, std::int64_t component) {
            const std::int64_t step = loop.stride_or_0(operand, 0);
            const std::int64_t start = walk.offset[k] + at * step;
            return cpu::Vectors{static_cast<const char*>(in[k - 1].data) + start * size, component,
                                step};
          };
          MGE_DISPATCH(cross_products)(
              out.dtype, from(1, 1, a_component), from(2, 2, b_component),
              static_cast<char*>(out.data) + (walk.offset[0] + at * 3) * size,
              std::min(piece, row - at));
          if (unit % pieces == pieces - 1) walk.next();
        }
      });
}
REGISTER_KERNEL(CrossProduct, cpu);

}  // namespace mge
