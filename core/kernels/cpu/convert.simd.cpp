#include "core/kernels/cpu/convert_lanes.h"
#include "core/kernels/cpu/copy_kernels.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

template <class T>
inline constexpr bool is_unsigned = std::is_unsigned_v<T> && !std::is_same_v<T, bool>;
// Whether convert_contiguous() below asks for this pair of types.
template <class From, class To>
inline constexpr bool has_loop =
    std::is_integral_v<From> && std::is_integral_v<To>
        ? !is_unsigned<To> && (!is_unsigned<From> || sizeof(From) < sizeof(To)) &&
              !(std::is_same_v<From, bool> && std::is_same_v<To, bool>)
        : !std::is_same_v<From, To>;

}  // namespace

void convert_contiguous(const void* in, DType from, void* out, DType to, std::int64_t n) {
  if (from == to) {
    std::memcpy(out, in, static_cast<std::size_t>(n * size_of(to)));
    return;
  }
  // The bits of an integer that becomes another one do not depend on whether the result has a sign,
  // nor on that of the source unless it widens.
  const bool whole = !is_float(from) && !is_float(to);
  const bool widens = size_of(from) < size_of(to) || is_float(to);
  if (!widens && from != DType::boolean) from = signed_dtype(from);
  if (whole && to != DType::boolean) to = signed_dtype(to);
  visit_dtype(from, [&]<class From>(Tag<From>) {
    visit_dtype(to, [&]<class To>(Tag<To>) {
      if constexpr (has_loop<From, To>) {
        // The byte of a bool is 0 or 1, which uint8 says as well.
        using Read = std::conditional_t<std::is_same_v<From, bool>, std::uint8_t, From>;
        convert_run<To>(static_cast<const Read*>(in), static_cast<To*>(out), n);
      }
    });
  });
}

}  // namespace mge::cpu::MGE_SIMD_NS
