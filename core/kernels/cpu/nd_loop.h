// The loop nest over several strided operands of one shape, brought to its
// simplest form: no axes of length 1, axes ordered by the stride of operand 0,
// neighbours merged where every operand allows it.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "core/tensor/shape.h"

namespace mge::cpu {

// Axis 0 is the innermost. Strides are counted in elements, and operand 0's are
// never negative.
template <int N>
struct NdLoop {
  int ndim = 0;
  std::array<std::int64_t, kMaxDims> size{};
  std::array<std::array<std::int64_t, kMaxDims>, N> stride{};
  // Of each operand's first element after axes were reversed, in elements.
  std::array<std::int64_t, N> start{};

  // strides[k] is operand k's, one for each axis of shape (0 where it repeats).
  NdLoop(const Shape& shape, std::span<const Strides* const, N> strides) {
    for (int axis = shape.size() - 1; axis >= 0; --axis) {
      if (shape[axis] != 1) insert(shape[axis], axis, strides);
    }
    merge();
  }

  std::int64_t total() const {
    std::int64_t n = 1;
    for (int i = 0; i < ndim; ++i) n *= size[at(i)];
    return n;
  }
  std::int64_t size_or_1(int axis) const { return axis < ndim ? size[at(axis)] : 1; }
  std::int64_t stride_or_0(int operand, int axis) const {
    return axis < ndim ? stride[at(operand)][at(axis)] : 0;
  }
  // One dimension left, in which every operand advances by one element.
  bool flat() const {
    if (ndim == 0) return true;
    if (ndim != 1) return false;
    for (int k = 0; k < N; ++k) {
      if (stride[at(k)][0] != 1) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t at(int i) { return static_cast<std::size_t>(i); }

  void insert(std::int64_t n, int axis, std::span<const Strides* const, N> strides) {
    std::array<std::int64_t, N> s;
    const bool flip = (*strides[0])[axis] < 0;
    for (int k = 0; k < N; ++k) {
      s[at(k)] = (*strides[at(k)])[axis];
      if (flip) {
        start[at(k)] += s[at(k)] * (n - 1);
        s[at(k)] = -s[at(k)];
      }
    }
    int place = ndim;
    while (place > 0 && less(s, place - 1)) --place;
    for (int i = ndim; i > place; --i) {
      size[at(i)] = size[at(i - 1)];
      for (int k = 0; k < N; ++k) stride[at(k)][at(i)] = stride[at(k)][at(i - 1)];
    }
    size[at(place)] = n;
    for (int k = 0; k < N; ++k) stride[at(k)][at(place)] = s[at(k)];
    ++ndim;
  }

  // Whether an axis with strides s belongs inside the axis at `place`. Axes
  // that operand 0 does not tell apart (a reduced or a broadcast one) are left
  // to the operands after it.
  bool less(const std::array<std::int64_t, N>& s, int place) const {
    for (int k = 0; k < N; ++k) {
      const std::int64_t a = std::abs(s[at(k)]), b = std::abs(stride[at(k)][at(place)]);
      if (a == 0 || b == 0) continue;
      if (a != b) return a < b;
    }
    return false;
  }

  void merge() {
    int kept = 0;
    for (int i = 1; i < ndim; ++i) {
      bool fits = true;
      for (int k = 0; k < N; ++k) {
        fits &= stride[at(k)][at(i)] == stride[at(k)][at(kept)] * size[at(kept)];
      }
      if (fits) {
        size[at(kept)] *= size[at(i)];
        continue;
      }
      ++kept;
      size[at(kept)] = size[at(i)];
      for (int k = 0; k < N; ++k) stride[at(k)][at(kept)] = stride[at(k)][at(i)];
    }
    ndim = ndim == 0 ? 0 : kept + 1;
  }
};

// Walks the axes from `first` on of a loop nest in order; offsets of all
// operands are kept up to date.
template <int N>
class NdWalk {
 public:
  // Starts at step `begin` of the product of the sizes of the axes first, first
  // + 1, ...
  NdWalk(const NdLoop<N>& loop, int first, std::int64_t begin)
      : offset(loop.start), loop_(loop), first_(first) {
    for (int i = first; i < loop.ndim; ++i) {
      const auto a = static_cast<std::size_t>(i);
      index_[a] = begin % loop.size[a];
      begin /= loop.size[a];
      for (std::size_t k = 0; k < N; ++k) offset[k] += index_[a] * loop.stride[k][a];
    }
  }
  void next() {
    for (int i = first_; i < loop_.ndim; ++i) {
      const auto a = static_cast<std::size_t>(i);
      for (std::size_t k = 0; k < N; ++k) offset[k] += loop_.stride[k][a];
      if (++index_[a] < loop_.size[a]) return;
      index_[a] = 0;
      for (std::size_t k = 0; k < N; ++k) offset[k] -= loop_.size[a] * loop_.stride[k][a];
    }
  }

  std::array<std::int64_t, N> offset;  // in elements

 private:
  const NdLoop<N>& loop_;
  int first_;
  std::array<std::int64_t, kMaxDims> index_{};
};

}  // namespace mge::cpu
