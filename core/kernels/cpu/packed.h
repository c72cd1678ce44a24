// Operands in the dtype and layout that a kernel wants, copied only where they are not.
#pragma once

#include <optional>
#include <vector>

#include "core/kernels/cpu/copy.h"
#include "core/runtime/allocator.h"
#include "core/tensor/view.h"

namespace mge::cpu {

// True where both strides reach the same elements (an axis of size 1 is never stepped along).
inline bool same_layout(const Shape& shape, const Strides& a, const Strides& b) {
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1 && a[i] != b[i]) return false;
  }
  return true;
}

class Packed {
 public:
  Packed(const View& v, DType dtype, const Strides& strides) : data_(v.data) {
    if (v.dtype == dtype && (v.size() == 0 || same_layout(v.shape, v.strides, strides))) return;
    copy_.emplace(static_cast<std::size_t>(v.size() * size_of(dtype)));
    copy(v, MutView{copy_->as<void>(), dtype, v.shape, strides});
    data_ = copy_->as<void>();
  }
  Packed(const View& v, DType dtype) : Packed(v, dtype, row_major(v.shape)) {}
  explicit Packed(const View& v) : Packed(v, v.dtype) {}

  const void* data() const { return data_; }
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data_);
  }

 private:
  const void* data_;
  std::optional<Scratch> copy_;
};

// The elements of a small tensor, in row-major order.
inline std::vector<double> doubles(const View& v) {
  std::vector<double> out(static_cast<std::size_t>(v.size()));
  copy(v, MutView{out.data(), DType::float64, v.shape, row_major(v.shape)});
  return out;
}
inline void store_doubles(const std::vector<double>& from, const MutView& to) {
  copy(View{from.data(), DType::float64, to.shape, row_major(to.shape)}, to);
}

// The dtype that arithmetic on `dtype` happens in.
inline DType compute_dtype(DType dtype) {
  return dtype == DType::float64 ? DType::float64 : DType::float32;
}

}  // namespace mge::cpu
