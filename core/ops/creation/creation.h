// Tensors made from numbers alone.
#pragma once

#include "core/op/op.h"

namespace mge {

// A tensor in which every element is `value`. An input, a 1-d integer tensor, replaces the shape.
struct Fill {
  Dims shape{};
  double value = 0;
  DType dtype = DType::float32;
  Device comp_node{};
  static constexpr OpTraits traits{.name = "Fill", .differentiable = false, .complex = true};
  static constexpr auto fields =
      field_list(field("value", &Fill::value), field("dtype", &Fill::dtype),
                 field("comp_node", &Fill::comp_node), field("shape", &Fill::shape));
};
// Nothing where an input has the shape: its contents say it.
Specs infer(const Fill& op, const Specs& in);
Values execute(const Fill& op, Values& in);
DECLARE_OP(Fill);

// As its input in everything but the contents.
struct FillLike {
  double value = 0;
  static constexpr OpTraits traits{.name = "FillLike", .differentiable = false, .complex = true};
  static constexpr auto fields = field_list(field("value", &FillLike::value));
};
Specs infer(const FillLike& op, const Specs& in);
Values execute(const FillLike& op, Values& in);
DECLARE_OP(FillLike);

// `num` numbers from start to stop, both included, computed in float64.
struct Linspace {
  double start = 0, stop = 0;
  std::int64_t num = 0;
  DType dtype = DType::float32;
  Device comp_node{};
  static constexpr OpTraits traits{.name = "Linspace", .differentiable = false, .complex = true};
  static constexpr auto fields =
      field_list(field("start", &Linspace::start), field("stop", &Linspace::stop),
                 field("num", &Linspace::num), field("dtype", &Linspace::dtype),
                 field("comp_node", &Linspace::comp_node));
};
Specs infer(const Linspace& op, const Specs& in);
void kernel(const Linspace& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(Linspace);

// start + i * step for i in [0, num), computed in float64 (in int64 where start and step are
// whole).
struct Arange {
  double start = 0, step = 1;
  std::int64_t num = 0;
  DType dtype = DType::float32;
  Device comp_node{};
  static constexpr OpTraits traits{.name = "Arange", .differentiable = false, .complex = true};
  static constexpr auto fields = field_list(
      field("start", &Arange::start), field("step", &Arange::step), field("num", &Arange::num),
      field("dtype", &Arange::dtype), field("comp_node", &Arange::comp_node));
};
Specs infer(const Arange& op, const Specs& in);
void kernel(const Arange& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(Arange);

// Ones on the k-th diagonal of a matrix, zeros elsewhere.
struct Eye {
  std::int64_t k = 0;
  std::int64_t rows = 0, columns = 0;
  DType dtype = DType::float32;
  Device comp_node{};
  static constexpr OpTraits traits{.name = "Eye", .differentiable = false, .complex = true};
  static constexpr auto fields = field_list(
      field("k", &Eye::k), field("dtype", &Eye::dtype), field("comp_node", &Eye::comp_node),
      field("rows", &Eye::rows), field("columns", &Eye::columns));
};
Specs infer(const Eye& op, const Specs& in);
void kernel(const Eye& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(Eye);

// ---- as functions -------------------------------------------------------------------------------

// Dense, in the memory format of the spec; nobody else holds the result.
Value filled(const Spec& spec, double value);
inline Value zeros(const Spec& spec) { return filled(spec, 0); }
// 0, 1, ..., n - 1.
Value arange(std::int64_t n, DType dtype, const Device& device);

}  // namespace mge
