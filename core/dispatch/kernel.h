// execute_now() in two halves, for programs: what does not change from run to run is found out
// once.
#pragma once

#include "core/op/op.h"

namespace mge {

// The specs of the outputs where execute_now() would run the op's kernel on inputs of these specs;
// empty where it goes another way (a view, a decomposition, complex parts).
Specs kernel_outputs(const Op& op, const Specs& in);

// Runs the op's kernel on inputs of those specs. The outputs are pending values with the specs that
// kernel_outputs() gave; they get their contents when all is done. One may take over the buffer of
// an input for which `mine` is true, if nobody else holds that. Outputs that have storage are
// written there; their strides are free where the op has `strided_outputs`.
void execute_kernel(const Op& op, std::span<const Value* const> inputs, std::span<const bool> mine,
                    std::span<const Value> outputs);

}  // namespace mge
