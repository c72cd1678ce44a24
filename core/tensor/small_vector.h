// A vector whose first few elements live inside it: operands and outputs of an op are so few that a
// call should not allocate for them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>

namespace mge {

template <class T, std::size_t kInline>
class SmallVector {
 public:
  SmallVector() = default;
  explicit SmallVector(std::size_t n) { resize(n); }
  SmallVector(std::initializer_list<T> items) {
    reserve(items.size());
    for (const T& item : items) push_back(item);
  }
  SmallVector(const SmallVector& o) {
    reserve(o.size_);
    for (const T& item : o) push_back(item);
  }
  SmallVector(SmallVector&& o) noexcept { take(o); }
  SmallVector& operator=(SmallVector o) noexcept {
    clear();
    more_.reset();
    take(o);
    return *this;
  }
  ~SmallVector() = default;

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }
  void push_back(T item) {
    reserve(size_ + 1);
    data_[size_++] = std::move(item);
  }
  template <class... Args>
  void emplace_back(Args&&... args) {
    push_back(T(std::forward<Args>(args)...));
  }
  void reserve(std::size_t n) {
    if (n <= capacity_) return;
    const std::size_t capacity = std::max(n, 2 * capacity_);
    auto bigger = std::make_unique<T[]>(capacity);
    std::move(data_, data_ + size_, bigger.get());
    more_ = std::move(bigger);
    data_ = more_.get();
    capacity_ = capacity;
  }
  // Elements that fall away are reset, so that what they hold is let go.
  void resize(std::size_t n) {
    reserve(n);
    for (std::size_t i = n; i < size_; ++i) data_[i] = T{};
    size_ = n;
  }
  void clear() { resize(0); }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  operator std::span<const T>() const { return {data_, size_}; }
  operator std::span<T>() { return {data_, size_}; }

 private:
  void take(SmallVector& o) noexcept {
    size_ = o.size_;
    if (o.more_) {
      more_ = std::move(o.more_);
      data_ = more_.get();
      capacity_ = o.capacity_;
    } else {
      data_ = inline_;
      capacity_ = kInline;
      std::move(o.inline_, o.inline_ + size_, inline_);
    }
    o.data_ = o.inline_;
    o.capacity_ = kInline;
    o.size_ = 0;
  }

  T inline_[kInline];
  std::unique_ptr<T[]> more_;
  T* data_ = inline_;
  std::size_t size_ = 0, capacity_ = kInline;
};

}  // namespace mge
