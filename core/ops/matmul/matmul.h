// Matrix products, dot products and fully connected layers.
#pragma once

#include <cstdint>

#include "core/op/op.h"

namespace mge::cpu::dnn {
struct PostOps;
}

namespace mge {

// NumPy's matmul of two operands of one dtype: leading axes broadcast, a 1-d operand is a row on
// the left and a column on the right. The flags transpose the last two axes of an operand first.
// Floats keep their dtype (float16 and bfloat16 accumulate in float32); 8- and 16-bit integers give
// int32.
struct MatrixMul {
  bool transposeA = false, transposeB = false;
  static constexpr OpTraits traits{.name = "MatrixMul", .amp = Amp::low, .fuse = Fuse::contraction};
  static constexpr auto fields = field_list(field("transposeA", &MatrixMul::transposeA),
                                            field("transposeB", &MatrixMul::transposeB));
};
Specs infer(const MatrixMul& op, const Specs& in);
Values grad(const MatrixMul& op, const GradArgs& g);
Keep keep(const MatrixMul& op, std::uint32_t needs);
void kernel(const MatrixMul& op, CpuContext& context, Views in, MutViews out);
Values decompose_complex(const MatrixMul& op, const Values& in);
DECLARE_OP(MatrixMul);

// The same for operands with leading axes.
struct BatchedMatrixMul {
  bool transposeA = false, transposeB = false;
  static constexpr OpTraits traits{
      .name = "BatchedMatrixMul", .amp = Amp::low, .fuse = Fuse::contraction};
  static constexpr auto fields = field_list(field("transposeA", &BatchedMatrixMul::transposeA),
                                            field("transposeB", &BatchedMatrixMul::transposeB));
};
Specs infer(const BatchedMatrixMul& op, const Specs& in);
Values grad(const BatchedMatrixMul& op, const GradArgs& g);
Keep keep(const BatchedMatrixMul& op, std::uint32_t needs);
void kernel(const BatchedMatrixMul& op, CpuContext& context, Views in, MutViews out);
Values decompose_complex(const BatchedMatrixMul& op, const Values& in);
DECLARE_OP(BatchedMatrixMul);

// The inner product of two vectors of one length, a 0-d tensor.
struct Dot {
  static constexpr OpTraits traits{.name = "Dot", .amp = Amp::promote, .fuse = Fuse::contraction};
  static constexpr auto fields = field_list();
};
Specs infer(const Dot& op, const Specs& in);
Values grad(const Dot& op, const GradArgs& g);
Keep keep(const Dot& op, std::uint32_t needs);
void kernel(const Dot& op, CpuContext& context, Views in, MutViews out);
Values decompose_complex(const Dot& op, const Values& in);
DECLARE_OP(Dot);

// x @ weight.T (+ bias): x (..., in), weight (out, in), bias (out,).
struct Linear {
  static constexpr OpTraits traits{.name = "Linear", .amp = Amp::low, .fuse = Fuse::contraction};
  static constexpr auto fields = field_list();
};
Specs infer(const Linear& op, const Specs& in);
Values decompose(const Linear& op, const Values& in);
Values grad(const Linear& op, const GradArgs& g);
Keep keep(const Linear& op, std::uint32_t needs);
void kernel(const Linear& op, CpuContext& context, Views in, MutViews out);
Values decompose_complex(const Linear& op, const Values& in);
DECLARE_OP(Linear);

// Linear's kernel with what follows it, for weights that stay what they are: they are kept in
// oneDNN's own layout. False where oneDNN does not do the work, and nothing was written.
bool run_linear_with(const char* op, const Values& in, const cpu::dnn::PostOps& post,
                     const MutView& out);
// Whether it would for such operands.
bool linear_takes_post_ops(const Spec& x, const Spec& weight);

Value matmul(const Value& a, const Value& b, bool transpose_a = false, bool transpose_b = false);

}  // namespace mge
