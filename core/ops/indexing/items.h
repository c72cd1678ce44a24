// Index expressions whose bounds are inputs of an op, in the code of IndexItems: an item is
// axis * 16 + 1 (has a start) + 2 (a stop) + 4 (a step) + 8 (a position, or an index array).
#pragma once

#include "core/ops/indexing/indexing.h"

namespace mge {

// The items in the fields of the ops that have the bounds as fields; `arrays` gets the index
// arrays. The bounds are the inputs from `first` on, and all of them have to be used. A position
// stands for an index array where `vec` says so.
VecItems read_items(const char* op, const Dims& codes, bool vec, const Values& in,
                    std::size_t first, Values& arrays);

}  // namespace mge
