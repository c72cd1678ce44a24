// What must hold of a graph: every value is made once and before it is used, ids exist, and the
// outputs of each node have the shapes and dtypes that its op infers.
//
// Every graph that is parsed or loaded is verified. After every pass, graphs are verified in debug
// and sanitizer builds, and where MGE_VERIFY_GRAPHS=1 or verify_passes() say so (the tests of
// tracing do).
#pragma once

#include "core/graph/graph.h"

namespace mge {

// Raises an error of this kind: "after NAME: %5 = ...: what is wrong".
void verify(const Graph& graph, ErrorKind kind, const char* after);

bool verifies_passes();
void verify_passes(bool on);

}  // namespace mge
