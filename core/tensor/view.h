// What a kernel sees of a tensor: a pointer and a layout. Nothing owns anything here.
#pragma once

#include <span>

#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace mge {

struct View {
  const void* data = nullptr;
  DType dtype = DType::float32;
  Shape shape;
  Strides strides;  // in elements; may be 0 or negative

  template <class T>
  const T* ptr() const {
    return static_cast<const T*>(data);
  }
  int ndim() const { return shape.size(); }
  std::int64_t size() const { return count(shape); }
  bool row_major() const { return is_row_major(shape, strides); }
};

struct MutView {
  void* data = nullptr;
  DType dtype = DType::float32;
  Shape shape;
  Strides strides;

  template <class T>
  T* ptr() const {
    return static_cast<T*>(data);
  }
  int ndim() const { return shape.size(); }
  std::int64_t size() const { return count(shape); }
  bool row_major() const { return is_row_major(shape, strides); }
  operator View() const { return {data, dtype, shape, strides}; }
};

using Views = std::span<const View>;
using MutViews = std::span<const MutView>;

}  // namespace mge
