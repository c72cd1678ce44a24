#include "core/tensor/value.h"

#include <atomic>
#include <limits>
#include <new>

#include "core/tensor/borrowed.h"

namespace mge {

Ref<Storage> Storage::create(std::size_t bytes) {
  void* data = allocate(bytes);
  void* place = nullptr;
  try {
    place = allocate(sizeof(Storage));
  } catch (...) {
    deallocate(data, bytes);
    throw;
  }
  return Ref<Storage>::adopt(new (place) Storage(data, bytes));
}

void Storage::destroy(Storage* s) noexcept {
  deallocate(s->data_, s->bytes_);
  s->~Storage();
  deallocate(s, sizeof(Storage));
}

void ValueImpl::destroy(ValueImpl* v) noexcept {
  if (v->storage && v->storage->bytes() == 0) [[unlikely]]
    detail::drop_borrowed(std::move(v->storage));
  v->~ValueImpl();
  deallocate(v, sizeof(ValueImpl));
}

Value Value::empty(const Spec& spec) {
  std::size_t bytes;
  if (__builtin_mul_overflow(static_cast<std::size_t>(spec.size()),
                             static_cast<std::size_t>(size_of(spec.dtype)), &bytes)) {
    bytes = std::numeric_limits<std::size_t>::max();  // which the allocator refuses
  }
  auto storage = Storage::create(bytes);
  Value out;
  out.impl_ = Ref<ValueImpl>::adopt(new (allocate(sizeof(ValueImpl))) ValueImpl);
  out.impl_->spec = spec;
  out.impl_->data = storage->data();
  out.impl_->storage = std::move(storage);
  return out;
}

std::uint64_t next_track_serial() {
  static std::atomic<std::uint64_t> serial{0};
  return ++serial;
}

Value Value::pending(const Spec& spec) {
  Value out;
  out.impl_ = Ref<ValueImpl>::adopt(new (allocate(sizeof(ValueImpl))) ValueImpl);
  out.impl_->spec = spec;
  return out;
}

Value Value::alias(const Shape& shape, const Strides& strides, std::int64_t offset) const {
  Value out;
  out.impl_ = Ref<ValueImpl>::adopt(new (allocate(sizeof(ValueImpl))) ValueImpl);
  out.impl_->spec.dtype = dtype();
  out.impl_->spec.device = device();
  out.impl_->spec.shape = shape;
  out.impl_->spec.strides = strides;
  out.impl_->data = static_cast<char*>(ready().data) + offset * size_of(dtype());
  out.impl_->storage = impl_->storage;
  return out;
}

}  // namespace mge
