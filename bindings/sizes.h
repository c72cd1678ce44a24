// Shapes as Python sees them: in a call that is recorded for a file, sizes that remember where they
// come from (python/megengine/jit/sizes.py).
#pragma once

#include <atomic>

#include "bindings/tensor.h"

namespace mge::py {

// How many calls are recorded so: other programs pay with this look.
extern std::atomic<int> sizes_followed;
// The shape of a Tensor, and how many elements it has, in such a call; new references.
PyObject* shape_followed(const Value& v);
PyObject* size_followed(const Value& v);

inline nb::object shape_as_seen(const Value& v) {
  const bool plain = !sizes_followed.load(std::memory_order_relaxed);
  return nb::steal(plain ? shape_to_python(v.shape()) : shape_followed(v));
}
inline nb::object size_as_seen(const Value& v) {
  if (sizes_followed.load(std::memory_order_relaxed)) return nb::steal(size_followed(v));
  return nb::int_(v.size());
}

}  // namespace mge::py
