// Chains of elementwise ops as one op, made by the graph compiler (core/graph/passes).
#pragma once

#include <memory>

#include "core/kernels/cpu/element_program.h"
#include "core/op/op.h"

namespace mge {

// (x0, x1, ...) -> outputs, all of the shape that the inputs broadcast to, in the memory format of
// the first input that has it. The program says what is computed, each step as the op of that name
// does, bit for bit; a step with the name of a dtype converts:
//
//   float32 x0, float32 x1: t0 = MUL(x0, x1); t1 = TANH(t0); t2 = float16(t0) -> t1, t2
struct FusedElementwise {
  std::string program;
  static constexpr OpTraits traits{.name = "FusedElementwise", .fuse = Fuse::elementwise};
  static constexpr auto fields = field_list(field("program", &FusedElementwise::program));
};
Specs infer(const FusedElementwise& op, const Specs& in);
Values decompose(const FusedElementwise& op, const Values& in);
void kernel(const FusedElementwise& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(FusedElementwise);

// The text of a program, and the program of a text. Those used last are kept, so that a text is
// parsed once.
std::string text_of(const cpu::ElementProgram& program);
std::shared_ptr<const cpu::ElementProgram> program_of(const FusedElementwise& op);

}  // namespace mge
