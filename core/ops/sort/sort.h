// Sorting along the last axis.
#pragma once

#include <array>

#include "core/op/op.h"

namespace mge {

// x -> (values, int32 positions), both sorted along the last axis. Equal elements keep their order;
// NaN is larger than every number, as in NumPy.
struct Argsort {
  enum class Order : std::uint8_t { ASCENDING, DESCENDING };
  Order order = Order::ASCENDING;
  static constexpr OpTraits traits{.name = "Argsort"};
  static constexpr auto fields = field_list(field("order", &Argsort::order));
};
template <>
struct EnumNames<Argsort::Order> {
  static constexpr auto names = std::to_array<const char*>({"ASCENDING", "DESCENDING"});
};
Specs infer(const Argsort& op, const Specs& in);
Values grad(const Argsort& op, const GradArgs& g);
Keep keep(const Argsort& op, std::uint32_t needs);
void kernel(const Argsort& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(Argsort);

// ---- shared with TopK
// ----------------------------------------------------------------------------

// Raises unless x can be ordered along its last axis.
void check_sortable(const char* op, const Specs& in);
// The gradient of elements that were picked along the last axis of a tensor like `in`.
Value picked_grad(const Spec& in, const Value& index, const Value& dy);

}  // namespace mge
