// Chains of elementwise functions in one pass over memory: a block of elements goes through the
// whole chain, step by step, while it lies in the first cache. The steps are the loops that single
// functions run (elementwise.h), so that results are the same bit for bit.
//
// Steps do not compute in 16-bit floats, though they choose (WHERE) and convert them: to widen and
// to round at each step takes as long as the passes over memory that are saved (measured: 0.6 to
// 1.5 times the time of single functions).
#pragma once

#include <array>
#include <vector>

#include "core/kernels/cpu/elementwise.h"
#include "core/tensor/small_vector.h"

namespace mge::cpu {

inline constexpr std::size_t kMaxProgramOperands = 16;  // inputs and outputs together
inline constexpr std::size_t kMaxProgramSteps = 32;

// One function of operands that come before it: operand i is input i of the program, or the result
// of step i - inputs.
struct ElementStep {
  bool converts = false;  // to `to`, in place of a mode
  ElementMode mode{};     //
  DType from{}, to{};     // of the operands (of WHERE: of what is chosen), of the result
  SmallVector<std::uint8_t, 4> in;
};

struct ElementProgram {
  std::vector<DType> inputs;
  std::vector<ElementStep> steps;
  std::vector<std::uint8_t> outputs;  // steps, each once

  // What follows from these; set by prepare().
  std::vector<std::uint8_t> slot;      // by step: the buffer that holds its result
  std::vector<std::uint8_t> last_use;  // by operand: the last step that reads it
  int slots = 0;
  std::int64_t size = 1;   // the largest element, bytes
  std::int64_t grain = 1;  // fewer elements than this are not worth a thread
  void prepare();

  const ElementStep& made_by(std::size_t output) const { return steps[outputs[output]]; }
};

// All outputs have one shape, and the inputs, of any strides, broadcast to it. An output may share
// its buffer with an input of the very same layout.
void run_program(const ElementProgram& program, Views in, MutViews out);

}  // namespace mge::cpu
