#include <atomic>

#include "core/kernels/cpu/packed.h"
#include "core/kernels/cpu/parallel.h"
#include "core/ops/check_non_finite/check_non_finite.h"
#include "core/ops/check_non_finite/check_non_finite.loops.h"

namespace mge {

// Fewer elements than this are not worth a thread.
static constexpr std::int64_t kGrain = 1 << 15;

Values execute(const CheckNonFinite& op, Values& in) {
  Specs specs;
  for (const Value& v : in) specs.push_back(v.spec());
  const Specs wanted = infer(op, specs);
  Values out;
  for (std::size_t k = 0; k < in.size(); ++k) {
    const bool mine =
        in[k].unique() && cpu::same_layout(in[k].shape(), in[k].strides(), wanted[k].strides);
    out.push_back(mine ? in[k].detached() : Value::empty(wanted[k]));
  }
  const Value flag = Value::empty(wanted.back());
  std::atomic<bool> good = true;
  for (std::size_t k = 0; k < in.size(); ++k) {
    const MutView y = out[k].mut();
    if (y.size() == 0) continue;
    const cpu::Packed x(in[k].view(), y.dtype, y.strides);
    const std::int64_t size = size_of(y.dtype);
    cpu::parallel_for(y.size(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      const bool fine = MGE_DISPATCH(scale_and_check)(y.dtype, x.as<char>() + begin * size,
                                                      static_cast<char*>(y.data) + begin * size,
                                                      op.scale, end - begin);
      if (!fine) good.store(false, std::memory_order_relaxed);
    });
  }
  *flag.mut().ptr<std::int32_t>() = good.load() ? 0 : 1;
  out.push_back(flag);
  return out;
}

}  // namespace mge
