// One register of numbers, as wide as the instruction set has it. For *.simd.cpp files only.
#pragma once

#include <cstdint>

namespace mge::cpu::MGE_SIMD_NS {
namespace {

#if defined(__AVX512F__)
constexpr int kBytes = 64;
#elif defined(__AVX2__)
constexpr int kBytes = 32;
#else
constexpr int kBytes = 16;
#endif

template <class T>
struct VecOf {
  typedef T type [[gnu::vector_size(kBytes)]];
};
template <class T>
using Vec = typename VecOf<T>::type;
template <class T>
constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));

template <class T>
[[gnu::always_inline]] inline Vec<T> load(const T* p) {
  Vec<T> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
[[gnu::always_inline]] inline void store(T* p, Vec<T> v) {
  __builtin_memcpy(p, &v, sizeof v);
}

}  // namespace
}  // namespace mge::cpu::MGE_SIMD_NS
