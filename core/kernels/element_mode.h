// The elementwise functions: the names that ops and kernels share.
#pragma once

#include <cstdint>

namespace mge {

// The names are the reference's (builtin.Elemwise.Mode); what follows the comment is ours.
// clang-format off: it shifts such a list further at each run.
#define MGE_ELEMWISE_MODES(X)                                                                    \
  X(RELU) X(ABS) X(ACOS) X(ASIN) X(CEIL) X(COS) X(EXP) X(EXPM1) X(FLOOR) X(LOG) X(LOG1P)         \
  X(NEGATE) X(SIGMOID) X(SIN) X(TANH) X(ABS_GRAD) X(ADD) X(FLOOR_DIV) X(MAX) X(MIN) X(MOD)       \
  X(MUL) X(POW) X(SIGMOID_GRAD) X(SUB) X(SWITCH_GT0) X(TANH_GRAD) X(TRUE_DIV) X(LOG_SUM_EXP)     \
  X(LT) X(LEQ) X(EQ) X(SHL) X(SHR) X(FUSE_MUL_ADD3) X(FUSE_MUL_ADD4) X(FUSE_ADD_RELU)            \
  X(FUSE_ADD_SIGMOID) X(FUSE_ADD_TANH) X(FAST_TANH) X(FAST_TANH_GRAD) X(ROUND) X(RMULH) X(ATAN2) \
  X(ERF) X(ERFINV) X(ERFC) X(ERFCINV) X(H_SWISH) X(H_SWISH_GRAD) X(FUSE_ADD_H_SWISH) X(NOT)      \
  X(AND) X(OR) X(XOR) X(SILU) X(SILU_GRAD) X(GELU) X(GELU_GRAD) X(COND_LEQ_MOV) X(COND_LT_MOV)   \
  X(NEQ) X(ISNAN) X(ISINF) X(SINH) X(COSH) X(ASINH) X(ACOSH) X(ATANH) X(TAN) X(ASINH_GRAD)       \
  X(ACOSH_GRAD) X(ATANH_GRAD) X(PRELU) X(CLIP) X(PRELU_GRAD) X(SOFTPLUS) X(SOFTPLUS_GRAD)        \
  X(RELU6) X(RELU6_GRAD) X(HSIGMOID) X(HSIGMOID_GRAD) X(LOGSIGMOID) X(SQRT) X(SQUARE) X(SIGN)    \
  /* ours; FAST_GELU is exact to 2^-22 of its operand, as its slope is */                        \
  X(ATAN) X(RSQRT) X(WHERE) X(FAST_GELU) X(FAST_GELU_GRAD)
// clang-format on

enum class ElementMode : std::uint8_t {
#define MGE_X(name) name,
  MGE_ELEMWISE_MODES(MGE_X)
#undef MGE_X
};
#define MGE_X(name) +1
inline constexpr int kElementModes = 0 MGE_ELEMWISE_MODES(MGE_X);
#undef MGE_X

}  // namespace mge
