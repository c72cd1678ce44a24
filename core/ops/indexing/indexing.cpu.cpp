#include "core/kernels/cpu/indexing.h"

#include "core/ops/indexing/basic.h"

namespace mge {

void kernel(const IndexingMultiAxisVec& op, CpuContext&, Views in, MutViews out) {
  const char* name = IndexingMultiAxisVec::traits.name;
  const BasicPart part = basic_part(name, op, in[0].shape, in[0].strides);
  Dims names;
  for (std::int64_t axis : op.vec_axis) names.push_back(part.axes[static_cast<int>(axis)]);
  const void* data = in[0].ptr<char>() + part.offset * size_of(in[0].dtype);
  cpu::take({name, op.vec_axis, names, in.subspan(1), static_cast<int>(op.at)},
            {data, in[0].dtype, part.shape, part.strides}, out[0]);
}
REGISTER_KERNEL(IndexingMultiAxisVec, cpu);

void kernel(const Gather& op, CpuContext&, Views in, MutViews out) {
  const int axis = normalize_axis("Gather", op.axis, in[0].ndim());
  cpu::take_along({"Gather", axis, in[1]}, in[0], out[0]);
}
REGISTER_KERNEL(Gather, cpu);

void kernel(const IndexingOneHot& op, CpuContext&, Views in, MutViews out) {
  const int axis = normalize_axis("IndexingOneHot", op.axis, in[0].ndim());
  View index = in[1];
  index.shape.insert(axis, 1);
  index.strides.insert(axis, 1);
  cpu::take_along({"IndexingOneHot", axis, index, false}, in[0], out[0]);
}
REGISTER_KERNEL(IndexingOneHot, cpu);

}  // namespace mge
