#include "core/kernels/cpu/convert_lanes.h"
#include "core/kernels/cpu/lanes.h"
#include "core/ops/quantize/quantize.loops.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

constexpr std::int64_t kBlock = 512;

template <class T>
struct Bounds {
  T lo, hi;
};

// NaN stays NaN; the upper bound wins where it is below the lower one.
template <class T>
[[gnu::always_inline]] inline T clip(T t, const Bounds<T>& b) {
  const T above = t < b.lo ? b.lo : t;
  return above > b.hi ? b.hi : above;
}

// A parameter of each element, or one of all of them, which stays in a register.
template <bool uniform, class T>
struct Param {
  const T* values;
  T one;
  explicit Param(const T* p) : values(p), one(uniform && p ? *p : T(0)) {}
  [[gnu::always_inline]] T operator[](std::int64_t i) const { return uniform ? one : values[i]; }
};

template <QuantKind kind, bool uniform, class T>
void forward(const T* __restrict x, const T* s, const T* z, T* __restrict y, const Bounds<T> b,
             std::int64_t n) {
  const Param<uniform, T> step(s), zero(z);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (kind == QuantKind::tqt) {
      y[i] = clip(lanes::round(x[i] / step[i]), b) * step[i];
    } else if constexpr (kind == QuantKind::fake) {
      y[i] = (clip(lanes::round(x[i] / step[i]) + zero[i], b) - zero[i]) * step[i];
    } else {
      y[i] = (clip(lanes::round(x[i] / step[i] + zero[i]), b) - zero[i]) * step[i];
    }
  }
}

template <QuantKind kind, bool uniform, class T>
void backward(const T* __restrict dy, const T* __restrict x, const T* s, const T* z, const T* gain,
              T* __restrict dx, T* __restrict ds, const Bounds<T> b, std::int64_t n) {
  constexpr T kLog2 = T(0.693147180559945309);
  const Param<uniform, T> step(s), zero(z), factor(gain);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (kind == QuantKind::fake) {
      const T t = lanes::round(x[i] / step[i]) + zero[i];
      dx[i] = (t >= b.lo) & (t <= b.hi) ? dy[i] : T(0);
    } else if constexpr (kind == QuantKind::tqt) {
      const T t = x[i] / step[i], q = clip(lanes::round(t), b);
      const bool outside = (t < b.lo - T(0.5)) | (t > b.hi + T(0.5));
      dx[i] = outside ? T(0) : dy[i];
      ds[i] = dy[i] * (step[i] * kLog2) * (outside ? q : q - t);
    } else {
      const T t = x[i] / step[i] + zero[i], q = clip(lanes::round(t), b);
      const bool inside = (t >= b.lo) & (t <= b.hi);
      dx[i] = inside ? dy[i] : T(0);
      ds[i] = dy[i] * factor[i] * (inside ? q - t : q - zero[i]);
    }
  }
}

// Neighbouring parameters for elements [at, at + n); all of them where there is one.
template <class T>
const T* neighbours(const QuantRun& run, int which, std::int64_t at, std::int64_t n, bool uniform,
                    T* buffer) {
  const T* from = static_cast<const T*>(run.param[which]);
  const std::int64_t step = run.step[which];
  if (!from || uniform) return from;
  if (step == 1) return from + at;
  for (std::int64_t i = 0; i < n; ++i) buffer[i] = from[(at + i) * step];
  return buffer;
}

template <class T>
const T* load(const void* from, DType dtype, std::int64_t at, std::int64_t n, T* buffer) {
  if (dtype == dtype_of<T>) return static_cast<const T*>(from) + at;
  if constexpr (std::is_same_v<T, float>) {
    if (dtype == DType::float16) {
      widen(static_cast<const Half*>(from) + at, buffer, n);
    } else {
      widen(static_cast<const BFloat16*>(from) + at, buffer, n);
    }
  }
  return buffer;
}
template <class T>
void store(const T* buffer, void* to, DType dtype, std::int64_t at, std::int64_t n) {
  if constexpr (std::is_same_v<T, float>) {
    if (dtype == DType::float16) narrow(buffer, static_cast<Half*>(to) + at, n);
    if (dtype == DType::bfloat16) narrow(buffer, static_cast<BFloat16*>(to) + at, n);
  }
}

template <QuantKind kind, bool uniform, class T>
void run_blocks(const QuantRun& run, bool back) {
  alignas(64) T p[3][uniform ? 1 : kBlock];
  alignas(64) T x_wide[kBlock];
  alignas(64) T dy_wide[kBlock];
  alignas(64) T out_wide[kBlock];
  const Bounds<T> b{static_cast<T>(run.qmin), static_cast<T>(run.qmax)};
  const bool direct = run.dtype == dtype_of<T>;
  // Nothing to stage: one block of any length.
  const std::int64_t longest = direct && uniform ? run.count : kBlock;
  for (std::int64_t at = 0; at < run.count; at += longest) {
    const std::int64_t n = run.count - at < longest ? run.count - at : longest;
    const T* s = neighbours<T>(run, 0, at, n, uniform, p[0]);
    const T* z = neighbours<T>(run, 1, at, n, uniform, p[1]);
    const T* x = load<T>(run.x, run.dtype, at, n, x_wide);
    T* out = direct ? static_cast<T*>(run.out) + at : out_wide;
    if (back) {
      const T* gain = neighbours<T>(run, 2, at, n, uniform, p[2]);
      const T* dy = load<T>(run.dy, run.dtype, at, n, dy_wide);
      T* ds = run.ds ? static_cast<T*>(run.ds) + at : nullptr;
      backward<kind, uniform, T>(dy, x, s, z, gain, out, ds, b, n);
    } else {
      forward<kind, uniform, T>(x, s, z, out, b, n);
    }
    if (!direct) store(out, run.out, run.dtype, at, n);
  }
}

template <class T>
void pick(const QuantRun& run, bool back) {
  const bool uniform = run.step[0] == 0 && run.step[1] == 0 && run.step[2] == 0;
  switch (run.kind) {
    case QuantKind::fake:
      return uniform ? run_blocks<QuantKind::fake, true, T>(run, back)
                     : run_blocks<QuantKind::fake, false, T>(run, back);
    case QuantKind::tqt:
      return uniform ? run_blocks<QuantKind::tqt, true, T>(run, back)
                     : run_blocks<QuantKind::tqt, false, T>(run, back);
    case QuantKind::lsq:
      return uniform ? run_blocks<QuantKind::lsq, true, T>(run, back)
                     : run_blocks<QuantKind::lsq, false, T>(run, back);
  }
}

void run_any(const QuantRun& run, bool back) {
  run.dtype == DType::float64 ? pick<double>(run, back) : pick<float>(run, back);
}

}  // namespace

void quantize_forward(const QuantRun& run) { run_any(run, false); }
void quantize_backward(const QuantRun& run) { run_any(run, true); }

}  // namespace mge::cpu::MGE_SIMD_NS
