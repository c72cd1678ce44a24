#include <type_traits>

#include "core/kernels/cpu/convert_lanes.h"
#include "core/kernels/cpu/scan_loops.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

// Integers add as unsigned ones, because they wrap.
template <class T>
struct AccumulatorOf {
  using type = double;
};
template <class T>
  requires std::is_integral_v<T>
struct AccumulatorOf<T> {
  using type = std::make_unsigned_t<T>;
};

template <class T, class A>
A widen_one(T x) {
  if constexpr (is_low<T>) {
    return static_cast<A>(static_cast<float>(x));
  } else {
    return static_cast<A>(x);
  }
}
template <class T, class A>
T narrow_one(A x) {
  if constexpr (is_low<T>) {
    return T(round_to_odd(x));
  } else {
    return static_cast<T>(x);
  }
}

// Lanes side by side: one vector of sums moves along the lines.
template <class T>
void scan_side_by_side(const ScanRun& run) {
  using A = typename AccumulatorOf<T>::type;
  alignas(64) A sums[kScanLanes] = {};
  for (std::int64_t i = 0; i < run.n; ++i) {
    const T* __restrict in = static_cast<const T*>(run.in) + i * run.in_step;
    T* __restrict out = static_cast<T*>(run.out) + i * run.out_step;
    for (std::int64_t j = 0; j < run.lanes; ++j) {
      const A before = sums[j], after = static_cast<A>(before + widen_one<T, A>(in[j]));
      sums[j] = after;
      out[j] = narrow_one<T>(run.exclusive ? before : after);
    }
  }
}

// A few lines at a time, so that their chains of additions overlap.
template <class T, int Lanes>
void scan_few(const ScanRun& run, std::int64_t lane) {
  using A = typename AccumulatorOf<T>::type;
  const T* in = static_cast<const T*>(run.in) + lane * run.in_lane;
  T* out = static_cast<T*>(run.out) + lane * run.out_lane;
  A sums[Lanes] = {};
  for (std::int64_t i = 0; i < run.n; ++i) {
    for (int j = 0; j < Lanes; ++j) {
      const A before = sums[j];
      sums[j] = static_cast<A>(before + widen_one<T, A>(in[i * run.in_step + j * run.in_lane]));
      out[i * run.out_step + j * run.out_lane] = narrow_one<T>(run.exclusive ? before : sums[j]);
    }
  }
}

template <class T>
void scan(const ScanRun& run) {
  if (run.in_lane == 1 && run.out_lane == 1 && run.lanes >= 8) return scan_side_by_side<T>(run);
  std::int64_t lane = 0;
  for (; lane + 4 <= run.lanes; lane += 4) scan_few<T, 4>(run, lane);
  for (; lane < run.lanes; ++lane) scan_few<T, 1>(run, lane);
}

}  // namespace

void cumsum_run(DType dtype, const ScanRun& run) {
  visit_signed(dtype, [&]<class T>(Tag<T>) {
    scan<std::conditional_t<std::is_same_v<T, bool>, std::int8_t, T>>(run);
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
