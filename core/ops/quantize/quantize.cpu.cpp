#include <array>
#include <cmath>
#include <optional>

#include "core/kernels/cpu/nd_loop.h"
#include "core/kernels/cpu/packed.h"
#include "core/kernels/cpu/parallel.h"
#include "core/ops/quantize/quantize.h"
#include "core/ops/quantize/quantize.loops.h"

namespace mge {
namespace {

using cpu::QuantKind;
using cpu::QuantRun;

// Fewer elements than this are not worth a thread.
constexpr std::int64_t kGrain = 1 << 14;

struct Job {
  QuantRun run{};  // of all elements; strides as in `loop`
  // Operand 0 is the tensor, then come the parameters.
  cpu::NdLoop<4> loop;
  bool back;
};

const char* at(const void* p, std::int64_t element, DType dtype) {
  return p ? static_cast<const char*>(p) + element * size_of(dtype) : nullptr;
}
char* at(void* p, std::int64_t element, DType dtype) {
  return const_cast<char*>(at(static_cast<const void*>(p), element, dtype));
}

// `count` elements from the `first` one of a row on, whose operands begin at `offset`.
void run_part(const Job& job, const std::array<std::int64_t, 4>& offset, std::int64_t first,
              std::int64_t count) {
  const DType wide = cpu::compute_dtype(job.run.dtype);
  const std::int64_t element = offset[0] + first;
  QuantRun run = job.run;
  run.x = at(run.x, element, run.dtype);
  run.dy = at(run.dy, element, run.dtype);
  run.out = at(run.out, element, run.dtype);
  run.ds = at(run.ds, element, wide);
  for (int k = 0; k < 3; ++k) {
    run.step[k] = job.loop.stride_or_0(k + 1, 0);
    const auto start = offset[static_cast<std::size_t>(k) + 1] + first * run.step[k];
    run.param[k] = at(run.param[k], start, wide);
  }
  run.count = count;
  if (job.back) {
    MGE_DISPATCH(quantize_backward)(run);
  } else {
    MGE_DISPATCH(quantize_forward)(run);
  }
}

void run_all(const Job& job) {
  const std::int64_t inner = job.loop.size_or_1(0);
  cpu::parallel_for(job.loop.total(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    cpu::NdWalk<4> walk(job.loop, 1, begin / inner);
    for (std::int64_t first = begin % inner; begin < end; first = 0) {
      const std::int64_t n = std::min(inner - first, end - begin);
      run_part(job, walk.offset, first, n);
      begin += n;
      walk.next();
    }
  });
}

// The parameters in the dtype that the loops compute in.
struct Params {
  std::array<std::optional<cpu::Packed>, 3> packed;
  std::array<Strides, 3> strides;
  std::array<const void*, 3> data{};

  Params(Views in, const Shape& shape, DType wide) {
    for (std::size_t k = 0; k < 3; ++k) {
      strides[k] = Dims::filled(shape.size(), 0);
      if (k >= in.size()) continue;
      data[k] = packed[k].emplace(in[k], wide).data();
      strides[k] = broadcast_strides(in[k].shape, row_major(in[k].shape), shape);
    }
  }
};

void run(QuantKind kind, const QuantRange& range, const View* dy, const View& x, Views params,
         MutViews out) {
  const MutView& y = out[0];
  if (y.size() == 0) return;
  const Params p(params, y.shape, cpu::compute_dtype(y.dtype));
  const cpu::Packed x_packed(x, y.dtype, y.strides);
  const cpu::Packed dy_packed(dy ? *dy : x, y.dtype, y.strides);
  const std::array<const Strides*, 4> strides = {&y.strides, &p.strides[0], &p.strides[1],
                                                 &p.strides[2]};
  Job job{.run = {}, .loop = cpu::NdLoop<4>(y.shape, strides), .back = dy != nullptr};
  job.run.kind = kind;
  job.run.dtype = y.dtype;
  job.run.qmin = static_cast<double>(range.qmin);
  job.run.qmax = static_cast<double>(range.qmax);
  job.run.x = x_packed.data();
  job.run.dy = dy ? dy_packed.data() : nullptr;
  job.run.out = y.data;
  job.run.ds = out.size() > 1 ? out[1].data : nullptr;
  for (std::size_t k = 0; k < 3; ++k) job.run.param[k] = p.data[k];
  run_all(job);
}

// 2^scale, in float64: whole powers are exact.
struct Steps {
  std::vector<double> values;
  View view;
  explicit Steps(const View& scale) : values(cpu::doubles(scale)) {
    for (double& v : values) v = std::exp2(v);
    view = {values.data(), DType::float64, scale.shape, row_major(scale.shape)};
  }
};

}  // namespace

void kernel(const FakeQuant& op, CpuContext&, Views in, MutViews out) {
  run(QuantKind::fake, op, nullptr, in[0], in.subspan(1), out);
}
REGISTER_KERNEL(FakeQuant, cpu);

void kernel(const FakeQuantBackward& op, CpuContext&, Views in, MutViews out) {
  run(QuantKind::fake, op, &in[0], in[1], in.subspan(2), out);
}
REGISTER_KERNEL(FakeQuantBackward, cpu);

void kernel(const TQT& op, CpuContext&, Views in, MutViews out) {
  const Steps steps(in[1]);
  run(QuantKind::tqt, op, nullptr, in[0], {&steps.view, 1}, out);
}
REGISTER_KERNEL(TQT, cpu);

void kernel(const TQTBackward& op, CpuContext&, Views in, MutViews out) {
  const Steps steps(in[2]);
  run(QuantKind::tqt, op, &in[0], in[1], {&steps.view, 1}, out);
}
REGISTER_KERNEL(TQTBackward, cpu);

void kernel(const LSQ& op, CpuContext&, Views in, MutViews out) {
  run(QuantKind::lsq, op, nullptr, in[0], in.subspan(1), out);
}
REGISTER_KERNEL(LSQ, cpu);

void kernel(const LSQBackward& op, CpuContext&, Views in, MutViews out) {
  run(QuantKind::lsq, op, &in[0], in[1], in.subspan(2), out);
}
REGISTER_KERNEL(LSQBackward, cpu);

}  // namespace mge
