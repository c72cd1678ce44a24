#include <optional>

#include "core/kernels/cpu/copy.h"
#include "core/kernels/cpu/nd_loop.h"
#include "core/kernels/cpu/parallel.h"
#include "core/ops/complex/complex.loops.h"
#include "core/runtime/allocator.h"

namespace mge {
namespace {

constexpr std::int64_t kGrain = 1 << 14;

// An operand in the order of the output: itself, one number that repeats, or a copy.
cpu::ComplexOperand in_order(const View& v, const MutView& out, std::optional<Scratch>& copied) {
  const bool one = v.size() == 1;
  if (one || (v.shape == out.shape && v.strides == out.strides)) return {v.data, one};
  copied.emplace(static_cast<std::size_t>(out.size() * size_of(v.dtype)));
  cpu::copy(v, {copied->as<void>(), v.dtype, out.shape, out.strides});
  return {copied->as<void>(), false};
}

void* advance(void* p, std::int64_t bytes) { return static_cast<char*>(p) + bytes; }
const void* advance(const void* p, std::int64_t bytes) {
  return static_cast<const char*>(p) + bytes;
}

}  // namespace

void kernel(const ComplexElemwise& op, CpuContext&, Views in, MutViews out) {
  const std::int64_t n = out[0].size();
  if (n == 0) return;
  std::optional<Scratch> copied[2];
  cpu::ComplexOperand operand[2] = {in_order(in[0], out[0], copied[0]), {nullptr, false}};
  operand[1] = in.size() > 1 ? in_order(in[1], out[0], copied[1]) : operand[0];
  // At most one repeats: two single numbers have a single one as their result.
  if (n == 1) operand[0].repeats = operand[1].repeats = false;
  const std::int64_t in_size = size_of(in[0].dtype), out_size = size_of(out[0].dtype);
  const DType part = part_dtype(in[0].dtype);
  cpu::parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    const auto from = [&](cpu::ComplexOperand o) {
      return cpu::ComplexOperand{o.repeats ? o.data : advance(o.data, begin * in_size), o.repeats};
    };
    MGE_DISPATCH(complex_arithmetic)(op.mode, part, from(operand[0]), from(operand[1]),
                                     advance(out[0].data, begin * out_size), end - begin);
  });
}
REGISTER_KERNEL(ComplexElemwise, cpu);

void kernel(const Complex&, CpuContext&, Views in, MutViews outs) {
  const MutView& out = outs[0];
  if (out.size() == 0) return;
  const Strides re = broadcast_strides(in[0].shape, in[0].strides, out.shape);
  const Strides im = broadcast_strides(in[1].shape, in[1].strides, out.shape);
  const cpu::NdLoop<3> loop(out.shape, std::array<const Strides*, 3>{&out.strides, &re, &im});
  const DType part = in[0].dtype;
  const std::int64_t size = size_of(part), row = loop.size_or_1(0);
  constexpr std::int64_t kPiece = 4096;
  const std::int64_t pieces = (row + kPiece - 1) / kPiece;
  // The output is dense: along its innermost axis it advances by one.
  cpu::parallel_for(
      loop.total() / row * pieces, 1 + kGrain / std::min(row, kPiece),
      [&](std::int64_t begin, std::int64_t end) {
        cpu::NdWalk<3> walk(loop, 1, begin / pieces);
        for (std::int64_t unit = begin; unit < end; ++unit) {
          const std::int64_t at = unit % pieces * kPiece;
          const std::int64_t re_step = loop.stride_or_0(1, 0), im_step = loop.stride_or_0(2, 0);
          MGE_DISPATCH(complex_zip)(
              part, advance(in[0].data, (walk.offset[1] + at * re_step) * size), re_step,
              advance(in[1].data, (walk.offset[2] + at * im_step) * size), im_step,
              advance(out.data, (walk.offset[0] + at) * 2 * size), std::min(kPiece, row - at));
          if (unit % pieces == pieces - 1) walk.next();
        }
      });
}
REGISTER_KERNEL(Complex, cpu);

}  // namespace mge
