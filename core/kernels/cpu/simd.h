// Which build of a kernel runs. A file named *.simd.cpp is compiled once for each instruction set,
// with MGE_SIMD_NS set to the name of its namespace:
//
//   MGE_DECLARE_SIMD(void, add_lanes, (const float* a, const float* b, float* out, int64_t n));
//   MGE_DISPATCH(add_lanes)(a, b, out, n);           // anywhere: the best build for this machine
//
//   namespace mge::cpu::MGE_SIMD_NS {                // in lanes.simd.cpp
//   void add_lanes(const float* a, const float* b, float* out, int64_t n) { ... }
//   }
//
// Both macros are used inside namespace mge::cpu or from below it. Everything in a *.simd.cpp file
// lives in that namespace or in an anonymous one: the linker keeps only one copy of what several
// files define inline, and that copy must run everywhere.
#pragma once

#include <cstdint>

namespace mge::cpu {

enum class Isa : std::uint8_t { generic, avx2, avx512 };

// The instruction set that kernels use: the best that this machine has, or the one that the
// environment variable MGE_CPU_ISA names (generic, avx2, avx512). Decided at the first call; raises
// ValueError for an unknown name and RuntimeError where the machine or the build lacks it.
Isa isa();
const char* isa_name(Isa level);

}  // namespace mge::cpu

#if defined(__x86_64__)
#define MGE_DECLARE_SIMD(ret, name, args) \
  namespace avx2 {                        \
  ret name args;                          \
  }                                       \
  namespace avx512 {                      \
  ret name args;                          \
  }                                       \
  static_assert(true)
#define MGE_DISPATCH(name)                                                  \
  (::mge::cpu::isa() == ::mge::cpu::Isa::avx512 ? &::mge::cpu::avx512::name \
                                                : &::mge::cpu::avx2::name)
#else
#define MGE_DECLARE_SIMD(ret, name, args) \
  namespace generic {                     \
  ret name args;                          \
  }                                       \
  static_assert(true)
#define MGE_DISPATCH(name) (&::mge::cpu::generic::name)
#endif
