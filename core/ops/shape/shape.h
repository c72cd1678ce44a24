// Ops that move elements without computing: views where strides can say it, copies where they
// cannot.
#pragma once

#include <optional>
#include <span>

#include "core/op/op.h"

namespace mge {

// The elements in row-major order under a new shape; one entry may be -1 and takes what is left.
// A view where the strides allow it, else a copy. A second input, a 1-d integer tensor, replaces
// the field.
struct Reshape {
  Dims shape;
  static constexpr OpTraits traits{.name = "Reshape", .fuse = Fuse::view, .complex = true};
  static constexpr auto fields = field_list(field("shape", &Reshape::shape));
};
Values execute(const Reshape& op, Values& in);
Values grad(const Reshape& op, const GradArgs& g);
Keep keep(const Reshape& op, std::uint32_t needs);
DECLARE_OP(Reshape);

// Axis i of the output is axis pattern[i] of the input, or a new axis of size 1 where that is -1.
// Axes of size 1 may be left out.
struct Dimshuffle {
  Dims pattern;
  static constexpr OpTraits traits{.name = "Dimshuffle", .fuse = Fuse::view, .complex = true};
  static constexpr auto fields = field_list(field("pattern", &Dimshuffle::pattern));
};
Values execute(const Dimshuffle& op, Values& in);
Values grad(const Dimshuffle& op, const GradArgs& g);
Keep keep(const Dimshuffle& op, std::uint32_t needs);
DECLARE_OP(Dimshuffle);

// NumPy's broadcast_to: a view with stride 0 where it repeats. A second input replaces the field.
struct Broadcast {
  Dims shape;
  static constexpr OpTraits traits{.name = "Broadcast", .fuse = Fuse::view, .complex = true};
  static constexpr auto fields = field_list(field("shape", &Broadcast::shape));
};
Values execute(const Broadcast& op, Values& in);
Values grad(const Broadcast& op, const GradArgs& g);
Keep keep(const Broadcast& op, std::uint32_t needs);
DECLARE_OP(Broadcast);

// New axes of size 1; `axis` counts in the output.
struct AddAxis {
  Dims axis;
  static constexpr OpTraits traits{.name = "AddAxis", .fuse = Fuse::view, .complex = true};
  static constexpr auto fields = field_list(field("axis", &AddAxis::axis));
};
Values execute(const AddAxis& op, Values& in);
Values grad(const AddAxis& op, const GradArgs& g);
Keep keep(const AddAxis& op, std::uint32_t needs);
DECLARE_OP(AddAxis);

// Takes axes of size 1 away.
struct RemoveAxis {
  Dims axis;
  static constexpr OpTraits traits{.name = "RemoveAxis", .fuse = Fuse::view, .complex = true};
  static constexpr auto fields = field_list(field("axis", &RemoveAxis::axis));
};
Values execute(const RemoveAxis& op, Values& in);
Values grad(const RemoveAxis& op, const GradArgs& g);
Keep keep(const RemoveAxis& op, std::uint32_t needs);
DECLARE_OP(RemoveAxis);

// The same elements as a value of its own; no copy.
struct Identity {
  static constexpr OpTraits traits{.name = "Identity", .fuse = Fuse::view, .complex = true};
  static constexpr auto fields = field_list();
};
Values execute(const Identity& op, Values& in);
Values grad(const Identity& op, const GradArgs& g);
Keep keep(const Identity& op, std::uint32_t needs);
DECLARE_OP(Identity);

// A new buffer with the same elements, dense, in the memory format of the input.
struct Copy {
  std::optional<Device> comp_node{};
  static constexpr OpTraits traits{.name = "Copy", .complex = true};
  static constexpr auto fields = field_list(field("comp_node", &Copy::comp_node));
};
Values execute(const Copy& op, Values& in);
Values grad(const Copy& op, const GradArgs& g);
Keep keep(const Copy& op, std::uint32_t needs);
DECLARE_OP(Copy);

// The same elements with row-major strides: a copy only where they are not.
struct Contiguous {
  static constexpr OpTraits traits{.name = "Contiguous", .fuse = Fuse::view, .complex = true};
  static constexpr auto fields = field_list();
};
Values execute(const Contiguous& op, Values& in);
Values grad(const Contiguous& op, const GradArgs& g);
Keep keep(const Contiguous& op, std::uint32_t needs);
DECLARE_OP(Contiguous);

// Joins tensors of one dtype along an axis that they have. Channels-last where all inputs are.
struct Concat {
  std::int64_t axis = 0;
  std::optional<Device> comp_node{};
  static constexpr OpTraits traits{.name = "Concat", .amp = Amp::promote, .complex = true};
  static constexpr auto fields =
      field_list(field("axis", &Concat::axis), field("comp_node", &Concat::comp_node));
};
Specs infer(const Concat& op, const Specs& in);
Values grad(const Concat& op, const GradArgs& g);
Keep keep(const Concat& op, std::uint32_t needs);
void kernel(const Concat& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(Concat);

// Joins tensors of one shape and dtype along a new axis.
struct Stack {
  std::int64_t axis = 0;
  std::optional<Device> comp_node{};
  static constexpr OpTraits traits{.name = "Stack", .amp = Amp::promote, .complex = true};
  static constexpr auto fields =
      field_list(field("axis", &Stack::axis), field("comp_node", &Stack::comp_node));
};
Specs infer(const Stack& op, const Specs& in);
Values grad(const Stack& op, const GradArgs& g);
Keep keep(const Stack& op, std::uint32_t needs);
void kernel(const Stack& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(Stack);

// Cuts an axis into views: `nsections` of equal size, or of the sizes in `sizes` where that is
// given.
struct Split {
  std::int64_t axis = 0;
  std::int64_t nsections = 0;
  Dims sizes{};
  static constexpr OpTraits traits{.name = "Split", .fuse = Fuse::view, .complex = true};
  static constexpr auto fields =
      field_list(field("axis", &Split::axis), field("nsections", &Split::nsections),
                 field("sizes", &Split::sizes));
};
Values execute(const Split& op, Values& in);
Values grad(const Split& op, const GradArgs& g);
Keep keep(const Split& op, std::uint32_t needs);
DECLARE_OP(Split);

// The k-th diagonal of a matrix, as a view; or the square matrix with a vector on its k-th
// diagonal.
struct Diag {
  std::int64_t k = 0;
  static constexpr OpTraits traits{.name = "Diag", .complex = true};
  static constexpr auto fields = field_list(field("k", &Diag::k));
};
Values execute(const Diag& op, Values& in);
Values grad(const Diag& op, const GradArgs& g);
Keep keep(const Diag& op, std::uint32_t needs);
DECLARE_OP(Diag);

// ---- the ops as functions, for gradient rules and decompositions -------------------------------
// Each returns its argument where nothing would change.

Value reshape(const Value& x, const Shape& shape);  // one entry may be -1
Value flatten(const Value& x);
Value transpose(const Value& x, const Dims& perm);
Value swapaxes(const Value& x, std::int64_t a, std::int64_t b);
Value broadcast_to(const Value& x, const Shape& shape);
// Undoes a broadcast: sums over the axes along which something of `shape` was repeated to x's
// shape.
Value sum_to(const Value& x, const Shape& shape);
Value expand_dims(const Value& x, const Dims& axes);
Value squeeze(const Value& x, const Dims& axes);
Value contiguous(const Value& x);
// The same tensor under the name of another device of this machine.
Value on_device(const Value& x, const Device& device);
Value concat(Values inputs, std::int64_t axis);
Value stack(Values inputs, std::int64_t axis);
// Any number of parts, whose sizes add up to the axis.
Values split(const Value& x, std::int64_t axis, std::span<const std::int64_t> sizes);

// Strides with which the row-major elements of (shape, strides) read as `to`, which has as many
// elements; nullopt where only a copy can do it.
std::optional<Strides> reshape_strides(const Shape& shape, const Strides& strides, const Shape& to);

}  // namespace mge
