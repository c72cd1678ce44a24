#include "core/kernels/cpu/gemm.h"

namespace mge::cpu {

void gemm(DType dtype, const Gemm& g) {
  switch (dtype) {
    case DType::float32:
      return MGE_DISPATCH(gemm_float32)(g);
    case DType::float64:
      return MGE_DISPATCH(gemm_float64)(g);
    case DType::int32:
    case DType::uint32:  // products and sums have the same bits
      return MGE_DISPATCH(gemm_int32)(g);
    case DType::int64:
    case DType::uint64:
      return MGE_DISPATCH(gemm_int64)(g);
    default:
      fail_type("MatrixMul", "unsupported dtype ", dtype);
  }
}

}  // namespace mge::cpu
