// Values over memory of somebody else: how arrays of other libraries are taken without a copy.
#pragma once

#include <functional>

#include "core/tensor/value.h"

namespace mge {

// A value whose contents lie at `data`, which `release` gives back. It runs once: when the last
// value that uses the memory goes, on the thread where that happens. Such a value is never
// unique(), so that nothing is written into its memory.
Value borrow(const Spec& spec, const void* data, std::function<void()> release);

namespace detail {
// For ValueImpl::destroy(): lets go of a storage of no bytes, which may be one of borrow()'s.
void drop_borrowed(Ref<Storage> storage) noexcept;
}  // namespace detail

}  // namespace mge
