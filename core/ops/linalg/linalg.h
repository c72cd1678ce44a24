// Linear algebra of matrices in the last two axes; all other axes are a batch.
#pragma once

#include "core/op/op.h"

namespace mge {

// The inverse of square matrices, by LU decomposition with row pivoting; raises ValueError where a
// pivot is exactly 0. Float dtypes; 16-bit ones compute in float32.
struct MatrixInverse {
  static constexpr OpTraits traits{.name = "MatrixInverse"};
  static constexpr auto fields = field_list();
};
Specs infer(const MatrixInverse& op, const Specs& in);
Values grad(const MatrixInverse& op, const GradArgs& g);
Keep keep(const MatrixInverse& op, std::uint32_t needs);
void kernel(const MatrixInverse& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(MatrixInverse);

// x = U diag(s) V: U has orthonormal columns, V orthonormal rows, and s is descending, of k =
// min(m, n) numbers. U is (m, k) and V (k, n), or (m, m) and (n, n) with full_matrices. The only
// output is s where compute_uv is false. Raises ValueError for a matrix that is not finite.
struct SVD {
  bool full_matrices = false;
  bool compute_uv = true;
  static constexpr OpTraits traits{.name = "SVD", .amp = Amp::high};
  static constexpr auto fields = field_list(field("full_matrices", &SVD::full_matrices),
                                            field("compute_uv", &SVD::compute_uv));
};
Specs infer(const SVD& op, const Specs& in);
Values grad(const SVD& op, const GradArgs& g);
Keep keep(const SVD& op, std::uint32_t needs);
void kernel(const SVD& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(SVD);

// The vector product along the last axis, which is 3 long in both inputs; the others broadcast.
// Number dtypes; integers wrap.
struct CrossProduct {
  static constexpr OpTraits traits{.name = "CrossProduct", .amp = Amp::promote};
  static constexpr auto fields = field_list();
};
Specs infer(const CrossProduct& op, const Specs& in);
Values grad(const CrossProduct& op, const GradArgs& g);
Keep keep(const CrossProduct& op, std::uint32_t needs);
void kernel(const CrossProduct& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(CrossProduct);

}  // namespace mge
