#include <cmath>

#include "core/kernels/cpu/copy.h"
#include "core/kernels/cpu/parallel.h"
#include "core/ops/creation/creation.h"

namespace mge {
namespace {

constexpr std::int64_t kBlock = 1024;

// out[i] = f(i), computed as T in blocks and then converted.
template <class T, class F>
void generate(const MutView& out, F&& f) {
  cpu::parallel_for(out.size(), 1 << 15, [&](std::int64_t begin, std::int64_t end) {
    T block[kBlock];
    for (std::int64_t at = begin; at < end; at += kBlock) {
      const std::int64_t n = std::min(kBlock, end - at);
      for (std::int64_t i = 0; i < n; ++i) block[i] = f(at + i);
      cpu::convert(block, dtype_of<T>, static_cast<char*>(out.data) + at * size_of(out.dtype),
                   out.dtype, n);
    }
  });
}

bool is_whole(double x) { return std::abs(x) < 0x1p62 && x == std::floor(x); }

}  // namespace

void kernel(const Linspace& op, CpuContext&, Views, MutViews out) {
  // The last is `stop` itself, whatever the rounding of the step.
  const double step = op.num > 1 ? (op.stop - op.start) / static_cast<double>(op.num - 1) : 0;
  generate<double>(out[0], [&](std::int64_t i) {
    return i > 0 && i == op.num - 1 ? op.stop : op.start + static_cast<double>(i) * step;
  });
}
REGISTER_KERNEL(Linspace, cpu);

void kernel(const Arange& op, CpuContext&, Views, MutViews out) {
  const double last = op.start + static_cast<double>(op.num) * op.step;
  if (is_whole(op.start) && is_whole(op.step) && std::abs(last) < 0x1p62) {
    const auto start = static_cast<std::int64_t>(op.start),
               step = static_cast<std::int64_t>(op.step);
    generate<std::int64_t>(out[0], [=](std::int64_t i) { return start + i * step; });
  } else {
    generate<double>(out[0],
                     [&](std::int64_t i) { return op.start + static_cast<double>(i) * op.step; });
  }
}
REGISTER_KERNEL(Arange, cpu);

void kernel(const Eye& op, CpuContext&, Views, MutViews out) {
  if (out[0].size() == 0) return;  // of no columns there may be 2^40 rows
  const std::int64_t columns = op.columns, k = op.k;
  visit_width(out[0].dtype, [&]<class T>(Tag<T>) {
    T one{};
    const double value = 1;
    cpu::convert(&value, DType::float64, &one, out[0].dtype, 1);
    T* data = out[0].ptr<T>();
    cpu::parallel_for(op.rows, 1 + (1 << 14) / std::max<std::int64_t>(columns, 1),
                      [=](std::int64_t begin, std::int64_t end) {
                        std::fill(data + begin * columns, data + end * columns, T{});
                        for (std::int64_t i = begin; i < end; ++i) {
                          // Written so that a huge k does not overflow.
                          if (k >= -i && k < columns - i) data[i * columns + i + k] = one;
                        }
                      });
  });
}
REGISTER_KERNEL(Eye, cpu);

}  // namespace mge
