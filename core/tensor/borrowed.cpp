#include "core/tensor/borrowed.h"

#include <mutex>
#include <unordered_map>

namespace mge {
namespace {

// A borrowed value has a storage of no bytes, whose count of references says who uses the memory.
// One more reference is kept here: it makes every owner one of at least two, and is the last.
struct Loan {
  Ref<Storage> storage;
  std::function<void()> release;
};
struct Loans {
  std::mutex mutex;
  std::unordered_map<const Storage*, Loan> of;
};
Loans& loans() {
  static Loans* l = new Loans;  // outlives every tensor
  return *l;
}

}  // namespace

Value borrow(const Spec& spec, const void* data, std::function<void()> release) {
  Spec none(spec.dtype, Shape{0});
  none.device = spec.device;
  Value out = Value::empty(none);
  ValueImpl& impl = *out.impl();
  impl.spec = spec;
  impl.data = const_cast<void*>(data);
  const std::lock_guard guard(loans().mutex);
  loans().of.emplace(impl.storage.get(), Loan{impl.storage, std::move(release)});
  return out;
}

namespace detail {

void drop_borrowed(Ref<Storage> storage) noexcept {
  Loan ended;  // given back after the lock: what it calls may destroy values
  {
    const std::lock_guard guard(loans().mutex);
    const auto it = loans().of.find(storage.get());
    if (it == loans().of.end()) return;  // an empty tensor's own storage
    storage = {};
    if (!it->second.storage->unique()) return;
    ended = std::move(it->second);
    loans().of.erase(it);
  }
  ended.release();
}

}  // namespace detail
}  // namespace mge
