#include "core/kernels/cpu/simd.h"

#include <cstdlib>
#include <string_view>

#include "core/runtime/error.h"

namespace mge::cpu {
namespace {

#if defined(__x86_64__)
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
bool available(Isa level) {
  return level == Isa::avx512 ? has_avx512() : level == Isa::avx2 && has_avx2();
}
constexpr Isa kLeast = Isa::avx2;
#else
bool available(Isa level) { return level == Isa::generic; }
constexpr Isa kLeast = Isa::generic;
#endif

Isa parse(std::string_view name) {
  for (Isa level : {Isa::generic, Isa::avx2, Isa::avx512}) {
    if (name == isa_name(level)) return level;
  }
  fail_value("MGE_CPU_ISA", "expected generic, avx2 or avx512, got '", name, "'");
}

Isa detect() {
  if (const char* forced = std::getenv("MGE_CPU_ISA"); forced && *forced) {
    const Isa level = parse(forced);
    if (!available(level)) {
      fail_runtime("MGE_CPU_ISA", "'", forced, "' is not available in this build on this machine");
    }
    return level;
  }
  if (available(Isa::avx512)) return Isa::avx512;
  if (!available(kLeast)) {
    fail_runtime("megengine", "this build needs a CPU with ", isa_name(kLeast), " and FMA");
  }
  return kLeast;
}

}  // namespace

Isa isa() {
  static const Isa level = detect();
  return level;
}

const char* isa_name(Isa level) {
  constexpr const char* names[] = {"generic", "avx2", "avx512"};
  return names[static_cast<int>(level)];
}

}  // namespace mge::cpu
