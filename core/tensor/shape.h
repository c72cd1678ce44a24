// Shapes and strides: a few numbers that live inline.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>

#include "core/runtime/error.h"

namespace mge {

inline constexpr int kMaxDims = 8;

// Up to kMaxDims int64s: a shape, or strides counted in elements, or a list of axes.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<std::int64_t> values)
      : Dims(std::span(values.begin(), values.size())) {}
  explicit Dims(std::span<const std::int64_t> values) {
    check_rank(values.size());
    size_ = static_cast<int>(values.size());
    std::copy(values.begin(), values.end(), values_.begin());
  }
  static Dims filled(int n, std::int64_t value) {
    Dims out;
    check_rank(static_cast<std::size_t>(n));
    out.size_ = n;
    std::fill_n(out.values_.begin(), n, value);
    return out;
  }

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::int64_t& operator[](int i) { return values_[static_cast<std::size_t>(i)]; }
  std::int64_t operator[](int i) const { return values_[static_cast<std::size_t>(i)]; }
  std::int64_t back() const { return values_[static_cast<std::size_t>(size_ - 1)]; }
  std::int64_t* begin() { return values_.data(); }
  std::int64_t* end() { return values_.data() + size_; }
  const std::int64_t* begin() const { return values_.data(); }
  const std::int64_t* end() const { return values_.data() + size_; }
  void push_back(std::int64_t value) {
    check_rank(static_cast<std::size_t>(size_) + 1);
    values_[static_cast<std::size_t>(size_++)] = value;
  }
  void insert(int at, std::int64_t value) {
    push_back(value);
    std::rotate(begin() + at, end() - 1, end());
  }
  void erase(int at) {
    std::copy(begin() + at + 1, end(), begin() + at);
    --size_;
  }
  void resize(int n, std::int64_t fill = 0) {
    check_rank(static_cast<std::size_t>(n));
    for (int i = size_; i < n; ++i) values_[static_cast<std::size_t>(i)] = fill;
    size_ = n;
  }
  bool contains(std::int64_t value) const { return std::find(begin(), end(), value) != end(); }

  friend bool operator==(const Dims& a, const Dims& b) {
    return a.size_ == b.size_ && std::equal(a.begin(), a.end(), b.begin());
  }
  // As Python prints a tuple: (2, 3), (2,), ().
  friend std::ostream& operator<<(std::ostream& out, const Dims& d) {
    out << '(';
    for (int i = 0; i < d.size(); ++i) out << (i ? ", " : "") << d[i];
    return out << (d.size() == 1 ? ",)" : ")");
  }

 private:
  static void check_rank(std::size_t n) {
    if (n > kMaxDims)
      fail_value("Tensor", "at most ", kMaxDims, " dimensions are supported, got ", n);
  }
  std::array<std::int64_t, kMaxDims> values_;
  int size_ = 0;
};

using Shape = Dims;
using Strides = Dims;

// Number of elements; raises ValueError when it does not fit 2^62.
std::int64_t count(const Shape& shape);
Strides row_major(const Shape& shape);
// True where every element is reached once, in row-major order, with no gap (size-1 axes are free).
bool is_row_major(const Shape& shape, const Strides& strides);
// True where some permutation of the axes is row-major: dense, every element once (NCHW, NHWC,
// ...).
bool is_dense(const Shape& shape, const Strides& strides);
// Dense strides for `shape` whose axes are ordered as in `like` (row-major among equal strides):
// how an elementwise result keeps the memory format of its input.
Strides dense_like(const Shape& shape, const Strides& like);
// Physical NHWC (and the 1-d and 3-d analogues) for a shape (N, C, spatial...).
Strides channels_last(const Shape& shape);
bool is_channels_last(const Shape& shape, const Strides& strides);

// NumPy's broadcast of two shapes; raises ValueError that names op.
Shape broadcast(const char* op, const Shape& a, const Shape& b);
// Strides of an operand of `shape` and `strides` seen as `to` (0 where it repeats).
Strides broadcast_strides(const Shape& shape, const Strides& strides, const Shape& to);

// axis in [-ndim, ndim) as [0, ndim); raises ValueError that names op.
int normalize_axis(const char* op, std::int64_t axis, int ndim);
// The same for a list; raises on duplicates. The result is sorted.
Dims normalize_axes(const char* op, const Dims& axes, int ndim);

}  // namespace mge
