#include <algorithm>

#include "core/kernels/cpu/packed.h"
#include "core/ops/detection/nms.h"
#include "core/ops/detection/nms.loops.h"

namespace mge {

void kernel(const NMSKeep& op, CpuContext&, Views in, MutViews out) {
  const std::int64_t groups = in[0].shape[0], n = in[0].shape[1], most = op.max_output;
  const DType dtype = cpu::compute_dtype(in[0].dtype);
  const cpu::Packed boxes(in[0], dtype);
  for (std::int64_t g = 0; g < groups; ++g) {
    std::int32_t* kept = out[0].ptr<std::int32_t>() + g * most;
    const char* mine = boxes.as<char>() + g * n * 4 * size_of(dtype);
    const std::int64_t count = MGE_DISPATCH(nms)(dtype, mine, n, op.iou_thresh, kept, most);
    std::fill(kept + count, kept + most, count > 0 ? kept[count - 1] : 0);
    out[1].ptr<std::int32_t>()[g] = static_cast<std::int32_t>(count);
  }
}
REGISTER_KERNEL(NMSKeep, cpu);

}  // namespace mge
