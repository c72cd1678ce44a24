#include "core/kernels/cpu/convert_lanes.h"
#include "core/kernels/cpu/element_lanes.h"

namespace mge::cpu::MGE_SIMD_NS {
namespace {

template <class T>
void gather(const void* in, std::int64_t step, void* out, std::int64_t n) {
  const T* a = static_cast<const T*>(in);
  T* o = static_cast<T*>(out);
  if (step == 0) {
    for (std::int64_t i = 0; i < n; ++i) o[i] = *a;
  } else if (step == 1) {
    std::memcpy(o, a, static_cast<std::size_t>(n) * sizeof(T));
  } else {
    for (std::int64_t i = 0; i < n; ++i) o[i] = a[i * step];
  }
}
template <class T>
void scatter(const void* in, void* out, std::int64_t step, std::int64_t n) {
  const T* a = static_cast<const T*>(in);
  T* o = static_cast<T*>(out);
  if (step == 1) {
    std::memcpy(o, a, static_cast<std::size_t>(n) * sizeof(T));
  } else {
    for (std::int64_t i = 0; i < n; ++i) o[i * step] = a[i];
  }
}

}  // namespace

ElementRun integer_loop(ElementMode mode, DType dtype) {
  switch (dtype) {
    case DType::int8:
      return int_loop<std::int8_t>(mode);
    case DType::uint8:
      return int_loop<std::uint8_t>(mode);
    case DType::int16:
      return int_loop<std::int16_t>(mode);
    case DType::uint16:
      return int_loop<std::uint16_t>(mode);
    case DType::int32:
      return int_loop<std::int32_t>(mode);
    case DType::uint32:
      return int_loop<std::uint32_t>(mode);
    case DType::int64:
      return int_loop<std::int64_t>(mode);
    case DType::uint64:
      return int_loop<std::uint64_t>(mode);
    case DType::boolean:
      return bool_loop(mode);
    default:
      return nullptr;
  }
}

ElementRun where_loop(std::int64_t width) {
  switch (width) {
    case 1:
      return select_loop<std::uint8_t>;
    case 2:
      return select_loop<std::uint16_t>;
    case 4:
      return select_loop<std::uint32_t>;
    default:
      return select_loop<std::uint64_t>;
  }
}

void widen_low(const void* in, DType dtype, float* out, std::int64_t n) {
  if (dtype == DType::float16) {
    widen(static_cast<const Half*>(in), out, n);
  } else {
    widen(static_cast<const BFloat16*>(in), out, n);
  }
}
void narrow_low(const float* in, void* out, DType dtype, std::int64_t n) {
  if (dtype == DType::float16) {
    narrow(in, static_cast<Half*>(out), n);
  } else {
    narrow(in, static_cast<BFloat16*>(out), n);
  }
}

void stream_run(const void* in, void* out, std::int64_t bytes) {
  const char* from = static_cast<const char*>(in);
  char* to = static_cast<char*>(out);
  std::int64_t i = 0;
#ifdef __AVX__
  // Up to the first whole line.
  const std::int64_t head = static_cast<std::int64_t>(-reinterpret_cast<std::uintptr_t>(to) & 63u);
  i = head < bytes ? head : bytes;
  std::memcpy(to, from, static_cast<std::size_t>(i));
  for (; i + 64 <= bytes; i += 64) {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i + 32));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i), low);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i + 32), high);
  }
#endif
  std::memcpy(to + i, from + i, static_cast<std::size_t>(bytes - i));
}
void stream_end() {
#ifdef __AVX__
  _mm_sfence();
#endif
}

void gather_run(const void* in, std::int64_t step, void* out, std::int64_t n, std::int64_t width) {
  switch (width) {
    case 1:
      return gather<std::uint8_t>(in, step, out, n);
    case 2:
      return gather<std::uint16_t>(in, step, out, n);
    case 4:
      return gather<std::uint32_t>(in, step, out, n);
    default:
      return gather<std::uint64_t>(in, step, out, n);
  }
}
void scatter_run(const void* in, void* out, std::int64_t step, std::int64_t n, std::int64_t width) {
  switch (width) {
    case 1:
      return scatter<std::uint8_t>(in, out, step, n);
    case 2:
      return scatter<std::uint16_t>(in, out, step, n);
    case 4:
      return scatter<std::uint32_t>(in, out, step, n);
    default:
      return scatter<std::uint64_t>(in, out, step, n);
  }
}

}  // namespace mge::cpu::MGE_SIMD_NS
