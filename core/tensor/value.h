// Value: an immutable handle of a tensor. Copying one is a reference count; views share storage.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/runtime/allocator.h"
#include "core/runtime/device.h"
#include "core/runtime/refcount.h"
#include "core/tensor/small_vector.h"
#include "core/tensor/view.h"

namespace mge {

// Everything about a tensor but its contents.
struct Spec {
  DType dtype = DType::float32;
  Shape shape;
  Strides strides;
  Device device;

  Spec() = default;
  Spec(DType dtype_, const Shape& shape_) : Spec(dtype_, shape_, row_major(shape_)) {}
  Spec(DType dtype_, const Shape& shape_, const Strides& strides_)
      : dtype(dtype_), shape(shape_), strides(strides_) {}
  int ndim() const { return shape.size(); }
  std::int64_t size() const { return count(shape); }
};

class Storage : public RefCounted {
 public:
  static Ref<Storage> create(std::size_t bytes);
  static void destroy(Storage* s) noexcept;
  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Storage(void* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  void* data_;
  std::size_t bytes_;
};

// Which slot of which tape follows a value (core/autodiff). A serial is never used twice, so a
// reference to a tape that is gone matches nothing.
struct TrackRef {
  std::uint64_t tape = 0;
  std::uint32_t slot = 0;
};

// Something computed from a value and kept with it, such as weights in a kernel's own layout.
struct Companion {
  virtual ~Companion() = default;
};

class ValueImpl : public RefCounted {
 public:
  Spec spec;
  Ref<Storage> storage;
  void* data = nullptr;  // the first element, inside the storage
  TrackRef track;        // the usual case: one tape
  TrackRef trace;        // which value of which traced call it is (core/graph)
  std::unique_ptr<std::vector<TrackRef>> more_tracks;
  std::unique_ptr<Companion> companion;
  std::unique_ptr<Companion> cast_notice;  // tells autocast, which keeps a cast of it, of its end

  static void destroy(ValueImpl* v) noexcept;
};

// A serial for TrackRef::tape that nobody has.
std::uint64_t next_track_serial();
// Has the contents of a pending value computed (core/graph); raises where that cannot be.
void materialize(const ValueImpl& v);

class Value {
 public:
  Value() = default;
  // A new tensor with unset contents; spec.strides must be dense.
  static Value empty(const Spec& spec);
  static Value empty(DType dtype, const Shape& shape, const Device& device) {
    Spec s(dtype, shape);
    s.device = device;
    return empty(s);
  }
  // A tensor whose contents are still to be computed: it has no storage yet. Whoever asks for the
  // contents has them computed first.
  static Value pending(const Spec& spec);
  // A view of the same storage; `offset` in elements from this value's first element.
  Value alias(const Shape& shape, const Strides& strides, std::int64_t offset = 0) const;
  // The same contents under an identity of its own: no tape follows it.
  Value detached() const { return alias(shape(), strides()); }

  explicit operator bool() const { return static_cast<bool>(impl_); }
  const Spec& spec() const { return impl_->spec; }
  DType dtype() const { return impl_->spec.dtype; }
  const Shape& shape() const { return impl_->spec.shape; }
  const Strides& strides() const { return impl_->spec.strides; }
  const Device& device() const { return impl_->spec.device; }
  int ndim() const { return impl_->spec.shape.size(); }
  std::int64_t size() const { return count(shape()); }
  bool row_major() const { return is_row_major(shape(), strides()); }
  // True where nobody else holds this value or its storage: its buffer may be written.
  bool unique() const { return impl_->unique() && ready().storage->unique(); }

  View view() const { return {ready().data, dtype(), shape(), strides()}; }
  // For a value that nobody has seen yet, or that is unique().
  MutView mut() const { return {ready().data, dtype(), shape(), strides()}; }
  template <class T>
  const T* ptr() const {
    return static_cast<const T*>(ready().data);
  }

  ValueImpl* impl() const { return impl_.get(); }
  friend bool operator==(const Value& a, const Value& b) { return a.impl_ == b.impl_; }

 private:
  const ValueImpl& ready() const {
    if (!impl_->storage) [[unlikely]]
      materialize(*impl_);
    return *impl_;
  }

  Ref<ValueImpl> impl_;
};

// Most ops have one output and up to three inputs.
using Values = SmallVector<Value, 4>;
using Specs = SmallVector<Spec, 3>;

}  // namespace mge
