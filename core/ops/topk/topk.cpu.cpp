#include "core/ops/topk/topk.h"
#include "core/kernels/cpu/copy.h"
#include "core/kernels/cpu/sort.h"
#include "core/runtime/allocator.h"

namespace mge {
namespace {

// The k-th of each row of `all`, a row-major tensor of k columns.
void copy_last_column(const MutView& all, std::int64_t k, const MutView& out) {
  View column{static_cast<const std::byte*>(all.data) + (k - 1) * size_of(all.dtype), all.dtype,
              out.shape, out.strides};
  for (std::int64_t& step : column.strides) step *= k;
  cpu::copy(column, out);
}

}  // namespace

void kernel(const TopK& op, CpuContext&, Views in, MutViews out) {
  if (!op.kth_only) return cpu::topk(in[0], op.k, op.descending, out[0], out[1]);
  Shape shape = in[0].shape;
  shape[shape.size() - 1] = op.k;
  const std::size_t n = static_cast<std::size_t>(count(shape));
  const Scratch values(n * static_cast<std::size_t>(size_of(in[0].dtype)));
  const Scratch positions(n * sizeof(std::int32_t));
  const MutView v{values.as<void>(), in[0].dtype, shape, row_major(shape)};
  const MutView p{positions.as<void>(), DType::int32, shape, row_major(shape)};
  cpu::topk(in[0], op.k, op.descending, v, p);
  copy_last_column(v, op.k, out[0]);
  copy_last_column(p, op.k, out[1]);
}
REGISTER_KERNEL(TopK, cpu);

}  // namespace mge
