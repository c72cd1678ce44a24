// Elements as items that sort: a key in the order of the elements, and the position it came from.
// Everything is static, so that each file (and each instruction set) gets a copy of its own.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/tensor/dtype.h"

namespace mge::cpu {
namespace {

// ---- keys: unsigned integers in the order of the elements ---------------------------------------

template <class U>
U float_key(U bits, U infinity) {
  constexpr U sign = U{1} << (sizeof(U) * 8 - 1);
  const U magnitude = bits & static_cast<U>(sign - 1);
  U key = bits & sign ? static_cast<U>(sign - magnitude) : static_cast<U>(sign + magnitude);
  return magnitude > infinity ? std::numeric_limits<U>::max() : key;  // NaN comes last
}
template <class T>
auto key_of(T x) {
  if constexpr (std::is_same_v<T, float>) {
    return float_key(std::bit_cast<std::uint32_t>(x), std::uint32_t{0x7f800000});
  } else if constexpr (std::is_same_v<T, double>) {
    return float_key(std::bit_cast<std::uint64_t>(x), std::uint64_t{0x7ff} << 52);
  } else if constexpr (std::is_same_v<T, Half>) {
    return float_key(x.bits, std::uint16_t{0x7c00});
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return float_key(x.bits, std::uint16_t{0x7f80});
  } else {
    using U = std::make_unsigned_t<T>;
    constexpr U bias = std::is_signed_v<T> ? U{1} << (sizeof(T) * 8 - 1) : U{0};
    return static_cast<U>(static_cast<U>(x) ^ bias);
  }
}

// ---- items: a key and a position; all differ, so that any sort of them is stable ---------------

struct WideItem {
  std::uint64_t key;
  std::uint32_t index;
  friend bool operator<(const WideItem& a, const WideItem& b) {
    return a.key != b.key ? a.key < b.key : a.index < b.index;
  }
};
// Keys of up to 32 bits share a signed word with the position: vectors compare signed words best.
template <class Key>
using Item = std::conditional_t<sizeof(Key) == 8, WideItem, std::int64_t>;

inline std::uint32_t index_of(std::int64_t item) { return static_cast<std::uint32_t>(item); }
inline std::uint32_t index_of(const WideItem& item) { return item.index; }

template <class T>
using KeyOf = decltype(key_of(T{}));
template <class T>
using ItemOf = Item<KeyOf<T>>;

template <class T>
ItemOf<T> make_item(T x, std::int64_t index, bool descending) {
  KeyOf<T> key = key_of(x);
  if (descending) key = static_cast<KeyOf<T>>(~key);
  if constexpr (sizeof(key) == 8) {
    return {key, static_cast<std::uint32_t>(index)};
  } else {
    const std::uint32_t biased = static_cast<std::uint32_t>(key) ^ 0x80000000u;
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(biased) << 32 |
                                     static_cast<std::uint32_t>(index));
  }
}

}  // namespace
}  // namespace mge::cpu
