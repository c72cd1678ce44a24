#include "core/kernels/cpu/convert_lanes.h"
#include "core/kernels/cpu/copy_kernels.h"

namespace mge::cpu::MGE_SIMD_NS {

void convert_contiguous(const void* in, DType from, void* out, DType to, std::int64_t n) {
  if (from == to) {
    std::memcpy(out, in, static_cast<std::size_t>(n * size_of(to)));
    return;
  }
  visit_dtype(from, [&]<class From>(Tag<From>) {
    visit_dtype(to, [&]<class To>(Tag<To>) {
      // To and from bool: its byte is 0 or 1, which uint8 says as well.
      if constexpr (std::is_same_v<From, bool>) {
        if constexpr (!std::is_same_v<To, bool>) {
          convert_run<To>(static_cast<const std::uint8_t*>(in), static_cast<To*>(out), n);
        }
      } else if constexpr (!std::is_same_v<From, To>) {
        convert_run<To>(static_cast<const From*>(in), static_cast<To*>(out), n);
      }
    });
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
