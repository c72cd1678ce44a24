#include <type_traits>

#include "core/ops/linalg/cross.loops.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

// What T is computed in: integers wrap, as unsigned ones do.
template <class T, bool integer = std::is_integral_v<T>>
struct Computed {
  using type = ComputeType<T>;
};
template <class T>
struct Computed<T, true> {
  using type = std::common_type_t<std::make_unsigned_t<T>, std::uint32_t>;
};

template <class T>
void run(Vectors a, Vectors b, T* out, std::int64_t n) {
  using C = typename Computed<T>::type;
  const T *p = static_cast<const T*>(a.data), *q = static_cast<const T*>(b.data);
  const std::int64_t ac = a.component, av = a.vector, bc = b.component, bv = b.vector;
  const auto one = [&](std::int64_t i, std::int64_t pc, std::int64_t pv, std::int64_t qc,
                       std::int64_t qv) {
    const T *x = p + i * pv, *y = q + i * qv;
    const C x0 = static_cast<C>(x[0]), x1 = static_cast<C>(x[pc]), x2 = static_cast<C>(x[2 * pc]);
    const C y0 = static_cast<C>(y[0]), y1 = static_cast<C>(y[qc]), y2 = static_cast<C>(y[2 * qc]);
    out[3 * i] = static_cast<T>(x1 * y2 - x2 * y1);
    out[3 * i + 1] = static_cast<T>(x2 * y0 - x0 * y2);
    out[3 * i + 2] = static_cast<T>(x0 * y1 - x1 * y0);
  };
  if (ac == 1 && av == 3 && bc == 1 && bv == 3) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) one(i, 1, 3, 1, 3);
  } else {
    for (std::int64_t i = 0; i < n; ++i) one(i, ac, av, bc, bv);
  }
}

}  // namespace

void cross_products(DType dtype, Vectors a, Vectors b, void* out, std::int64_t n) {
  visit_signed(dtype, [&]<class T>(Tag<T>) {
    if constexpr (!std::is_same_v<T, bool>) run(a, b, static_cast<T*>(out), n);
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
