// Autocast: the layer above all others brings the inputs of an op to the dtype that suits it, as
// OpTraits::amp says. What it casts is recorded by the layers below, so that gradients reach what
// was cast in its own dtype.
#pragma once

#include <cstdint>

#include "core/op/op.h"

namespace mge {

struct Autocast {
  bool enabled = false;
  DType low = DType::bfloat16;  // what CPUs have instructions for
  DType high = DType::float32;
};

// Of this thread.
const Autocast& autocast();
void set_autocast(const Autocast& wanted);

// Scopes nest: each remembers what it found, and leave_autocast() brings that back. Raises
// RuntimeError where no scope is open.
void enter_autocast(const Autocast& wanted);
void leave_autocast();

// The dtype to which autocast, as it is now, brings the operands of an op that have this common
// dtype: it itself where autocast is off.
DType autocast_dtype(const Op& op, DType common);
// The floats that autocast changes. float64 was asked for by name.
inline bool autocast_takes(DType dtype) { return is_float(dtype) && dtype != DType::float64; }

// Casts that are kept while scopes are open on any thread, so that weights are cast once and not at
// each use. A cast goes with the value that it was made of.
struct CastCacheStats {
  std::int64_t entries = 0, bytes = 0;  // now
  std::int64_t casts = 0, reuses = 0;   // since the program began
};
CastCacheStats cast_cache_stats();

}  // namespace mge
