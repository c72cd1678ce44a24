// Element types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <type_traits>
#include <utility>

#include "core/runtime/error.h"
#include "core/tensor/half.h"

namespace mge {

enum class DType : std::uint8_t {
  float32,
  float16,
  bfloat16,
  float64,
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  boolean,
  complex64,  // pairs (real part, imaginary part) of float32
  complex128,
};
inline constexpr int kDTypeCount = 15;

enum class DTypeClass : std::uint8_t { boolean, integer, floating, complex };

struct DTypeInfo {
  const char* name;  // NumPy's name
  std::uint8_t size;
  DTypeClass kind;
  bool is_signed;
};

inline constexpr DTypeInfo kDTypeInfo[kDTypeCount] = {
    {"float32", 4, DTypeClass::floating, true},    {"float16", 2, DTypeClass::floating, true},
    {"bfloat16", 2, DTypeClass::floating, true},   {"float64", 8, DTypeClass::floating, true},
    {"int8", 1, DTypeClass::integer, true},        {"uint8", 1, DTypeClass::integer, false},
    {"int16", 2, DTypeClass::integer, true},       {"uint16", 2, DTypeClass::integer, false},
    {"int32", 4, DTypeClass::integer, true},       {"uint32", 4, DTypeClass::integer, false},
    {"int64", 8, DTypeClass::integer, true},       {"uint64", 8, DTypeClass::integer, false},
    {"bool", 1, DTypeClass::boolean, false},       {"complex64", 8, DTypeClass::complex, true},
    {"complex128", 16, DTypeClass::complex, true},
};

inline constexpr const DTypeInfo& info(DType dtype) {
  return kDTypeInfo[static_cast<std::size_t>(dtype)];
}
inline constexpr const char* name(DType dtype) { return info(dtype).name; }
inline constexpr std::int64_t size_of(DType dtype) { return info(dtype).size; }
inline constexpr bool is_float(DType dtype) { return info(dtype).kind == DTypeClass::floating; }
inline constexpr bool is_integer(DType dtype) { return info(dtype).kind == DTypeClass::integer; }
inline constexpr bool is_bool(DType dtype) { return dtype == DType::boolean; }
inline constexpr bool is_complex(DType dtype) { return info(dtype).kind == DTypeClass::complex; }
inline constexpr bool is_low_float(DType dtype) {
  return dtype == DType::float16 || dtype == DType::bfloat16;
}

// The dtype of the two parts of a complex number, and of the complex number of such parts.
inline constexpr DType part_dtype(DType complex) {
  return complex == DType::complex128 ? DType::float64 : DType::float32;
}
inline constexpr DType complex_dtype(DType part) {
  return part == DType::float64 ? DType::complex128 : DType::complex64;
}

inline std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name(dtype); }

// The dtype with this NumPy name; raises TypeError.
DType dtype_from_name(const char* op, std::string_view name);

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::float32;
};
template <>
struct DTypeOf<Half> {
  static constexpr DType value = DType::float16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::bfloat16;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::float64;
};
template <>
struct DTypeOf<std::int8_t> {
  static constexpr DType value = DType::int8;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::uint8;
};
template <>
struct DTypeOf<std::int16_t> {
  static constexpr DType value = DType::int16;
};
template <>
struct DTypeOf<std::uint16_t> {
  static constexpr DType value = DType::uint16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::int32;
};
template <>
struct DTypeOf<std::uint32_t> {
  static constexpr DType value = DType::uint32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::int64;
};
template <>
struct DTypeOf<std::uint64_t> {
  static constexpr DType value = DType::uint64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

template <class T>
struct Tag {
  using type = T;
};

// Calls f(Tag<T>{}) with the C++ type of a real dtype: visit_dtype(d, [&]<class T>(Tag<T>) { ...
// }). Complex tensors get no kernels of their own through it: an op that takes them says so
// (OpTraits::complex) and works on their parts.
template <class F>
decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32:
      return f(Tag<float>{});
    case DType::float16:
      return f(Tag<Half>{});
    case DType::bfloat16:
      return f(Tag<BFloat16>{});
    case DType::float64:
      return f(Tag<double>{});
    case DType::int8:
      return f(Tag<std::int8_t>{});
    case DType::uint8:
      return f(Tag<std::uint8_t>{});
    case DType::int16:
      return f(Tag<std::int16_t>{});
    case DType::uint16:
      return f(Tag<std::uint16_t>{});
    case DType::int32:
      return f(Tag<std::int32_t>{});
    case DType::uint32:
      return f(Tag<std::uint32_t>{});
    case DType::int64:
      return f(Tag<std::int64_t>{});
    case DType::uint64:
      return f(Tag<std::uint64_t>{});
    case DType::boolean:
      return f(Tag<bool>{});
    default:
      fail_type("dtype", "expected a real dtype, got ", dtype);
  }
}

// The signed integer of the same width as an integer type; other types, bool among them, as they
// are. Sums, products and comparisons for equality have the same bits for both, so that one loop
// serves them.
template <class T>
struct SignedOf {
  using type = T;
};
template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
struct SignedOf<T> {
  using type = std::make_signed_t<T>;
};
template <class T>
using Signed = typename SignedOf<T>::type;
inline constexpr DType signed_dtype(DType dtype) {
  switch (dtype) {
    case DType::uint8:
      return DType::int8;
    case DType::uint16:
      return DType::int16;
    case DType::uint32:
      return DType::int32;
    case DType::uint64:
      return DType::int64;
    default:
      return dtype;
  }
}

// As visit_dtype, for loops that give an unsigned dtype the bits of its signed one.
template <class F>
decltype(auto) visit_signed(DType dtype, F&& f) {
  return visit_dtype(signed_dtype(dtype), [&]<class T>(Tag<T>) { return f(Tag<Signed<T>>{}); });
}

// What moves as 16 bytes, aligned as its halves are.
struct Word128 {
  std::uint64_t low, high;
};

// Calls f(Tag<T>{}) with an unsigned integer type (or Word128) of the dtype's width: for copies
// that do not look at the value, which need 5 instantiations instead of 15.
template <class F>
decltype(auto) visit_width(DType dtype, F&& f) {
  switch (size_of(dtype)) {
    case 1:
      return f(Tag<std::uint8_t>{});
    case 2:
      return f(Tag<std::uint16_t>{});
    case 4:
      return f(Tag<std::uint32_t>{});
    case 16:
      return f(Tag<Word128>{});
    default:
      return f(Tag<std::uint64_t>{});
  }
}

// As visit_dtype, for the four float types only; raises TypeError that names op otherwise.
template <class F>
decltype(auto) visit_float(const char* op, DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32:
      return f(Tag<float>{});
    case DType::float16:
      return f(Tag<Half>{});
    case DType::bfloat16:
      return f(Tag<BFloat16>{});
    case DType::float64:
      return f(Tag<double>{});
    default:
      fail_type(op, "expected a float dtype, got ", dtype);
  }
}

// The type that arithmetic on T happens in.
template <class T>
using ComputeType =
    std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

}  // namespace mge
