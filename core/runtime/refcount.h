// Intrusive reference counts.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace mge {

class RefCounted {
 public:
  void retain() const noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  // True when the last reference went; the caller destroys the object.
  bool release() const noexcept { return count_.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  bool unique() const noexcept { return count_.load(std::memory_order_acquire) == 1; }

 protected:
  RefCounted() = default;
  ~RefCounted() = default;

 private:
  mutable std::atomic<std::uint32_t> count_{1};
};

// T offers retain(), release() and static destroy(T*).
template <class T>
class Ref {
 public:
  Ref() = default;
  // Takes over the reference that the caller holds.
  static Ref adopt(T* p) noexcept {
    Ref r;
    r.p_ = p;
    return r;
  }
  Ref(const Ref& o) noexcept : p_(o.p_) {
    if (p_) p_->retain();
  }
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Ref& operator=(Ref o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Ref() {
    if (p_ && p_->release()) std::remove_const_t<T>::destroy(p_);
  }
  T* get() const noexcept { return p_; }
  T* operator->() const noexcept { return p_; }
  T& operator*() const noexcept { return *p_; }
  explicit operator bool() const noexcept { return p_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) { return a.p_ == b.p_; }

 private:
  T* p_ = nullptr;
};

}  // namespace mge
