// Reading and writing parts of a tensor. Writes are functional: they give the new tensor, in the
// buffer of the old one where nobody else holds that.
//
// Positions count from the end where they are negative; one that is out of range raises IndexError,
// before anything is written. Written values are cast to the dtype of the tensor.
#pragma once

#include <array>
#include <limits>

#include "core/op/op.h"

namespace mge {

// What stands for an omitted bound of a slice.
inline constexpr std::int64_t kNoBound = std::numeric_limits<std::int64_t>::min();

// Basic indices: axis[i] is cut by start[i]:stop[i]:step[i], or, where step[i] is 0, reduced to its
// element start[i] and removed. Axes count in the tensor; those not named stay whole.
struct BasicItems {
  Dims axis{}, start{}, stop{}, step{};

  void add_slice(std::int64_t a, std::int64_t from, std::int64_t to, std::int64_t by);
  void add_int(std::int64_t a, std::int64_t at);
};

// Index arrays beside basic indices: the arrays address axes `vec_axis`, counted after the basic
// indices are applied; the axes of the arrays stand in front of axis `at` of those that are left.
struct VecItems : BasicItems {
  Dims vec_axis{};
  std::int64_t at = 0;
};

#define MGE_BASIC_FIELDS(T)                                                    \
  field("axis", &T::axis), field("start", &T::start), field("stop", &T::stop), \
      field("step", &T::step)
#define MGE_VEC_FIELDS(T) MGE_BASIC_FIELDS(T), field("vec_axis", &T::vec_axis), field("at", &T::at)

// A view.
struct Subtensor : BasicItems {
  static constexpr OpTraits traits{.name = "Subtensor", .fuse = Fuse::view, .complex = true};
  static constexpr auto fields = field_list(MGE_BASIC_FIELDS(Subtensor));
};
Values execute(const Subtensor& op, Values& in);
Values grad(const Subtensor& op, const GradArgs& g);
Keep keep(const Subtensor& op, std::uint32_t needs);
DECLARE_OP(Subtensor);

// (x, v): x with the part replaced by v, which broadcasts to it.
struct SetSubtensor : BasicItems {
  static constexpr OpTraits traits{.name = "SetSubtensor", .complex = true};
  static constexpr auto fields = field_list(MGE_BASIC_FIELDS(SetSubtensor));
};
Values execute(const SetSubtensor& op, Values& in);
Values grad(const SetSubtensor& op, const GradArgs& g);
Keep keep(const SetSubtensor& op, std::uint32_t needs);
DECLARE_OP(SetSubtensor);

// (x, v): x with v added to the part.
struct IncrSubtensor : BasicItems {
  static constexpr OpTraits traits{.name = "IncrSubtensor", .complex = true};
  static constexpr auto fields = field_list(MGE_BASIC_FIELDS(IncrSubtensor));
};
Values execute(const IncrSubtensor& op, Values& in);
Values grad(const IncrSubtensor& op, const GradArgs& g);
Keep keep(const IncrSubtensor& op, std::uint32_t needs);
DECLARE_OP(IncrSubtensor);

// (x, index, index, ...): integer arrays that broadcast together, as NumPy's x[index, index].
struct IndexingMultiAxisVec : VecItems {
  static constexpr OpTraits traits{.name = "IndexingMultiAxisVec", .complex = true};
  static constexpr auto fields = field_list(MGE_VEC_FIELDS(IndexingMultiAxisVec));
};
Specs infer(const IndexingMultiAxisVec& op, const Specs& in);
Values grad(const IndexingMultiAxisVec& op, const GradArgs& g);
Keep keep(const IndexingMultiAxisVec& op, std::uint32_t needs);
void kernel(const IndexingMultiAxisVec& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(IndexingMultiAxisVec);

// (x, v, index, ...): of repeated positions the last write wins, and alone gets a gradient.
struct IndexingSetMultiAxisVec : VecItems {
  static constexpr OpTraits traits{.name = "IndexingSetMultiAxisVec", .complex = true};
  static constexpr auto fields = field_list(MGE_VEC_FIELDS(IndexingSetMultiAxisVec));
};
Values execute(const IndexingSetMultiAxisVec& op, Values& in);
Values grad(const IndexingSetMultiAxisVec& op, const GradArgs& g);
Keep keep(const IndexingSetMultiAxisVec& op, std::uint32_t needs);
DECLARE_OP(IndexingSetMultiAxisVec);

// (x, v, index, ...): repeated positions add up.
struct IndexingIncrMultiAxisVec : VecItems {
  static constexpr OpTraits traits{.name = "IndexingIncrMultiAxisVec"};
  static constexpr auto fields = field_list(MGE_VEC_FIELDS(IndexingIncrMultiAxisVec));
};
Values execute(const IndexingIncrMultiAxisVec& op, Values& in);
Values grad(const IndexingIncrMultiAxisVec& op, const GradArgs& g);
Keep keep(const IndexingIncrMultiAxisVec& op, std::uint32_t needs);
Values decompose_complex(const IndexingIncrMultiAxisVec& op, const Values& in);
DECLARE_OP(IndexingIncrMultiAxisVec);

// (x, index): out[i][j] = x[index[i][j]][j] for axis 0. The other sizes of index may be smaller
// than x's.
struct Gather {
  std::int64_t axis = 0;
  static constexpr OpTraits traits{.name = "Gather", .complex = true};
  static constexpr auto fields = field_list(field("axis", &Gather::axis));
};
Specs infer(const Gather& op, const Specs& in);
Values grad(const Gather& op, const GradArgs& g);
Keep keep(const Gather& op, std::uint32_t needs);
void kernel(const Gather& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(Gather);

// (x, index, v): x with x[index[i][j]][j] = v[i][j]; of repeated positions the last wins.
struct Scatter {
  std::int64_t axis = 0;
  static constexpr OpTraits traits{.name = "Scatter", .complex = true};
  static constexpr auto fields = field_list(field("axis", &Scatter::axis));
};
Values execute(const Scatter& op, Values& in);
Values grad(const Scatter& op, const GradArgs& g);
Keep keep(const Scatter& op, std::uint32_t needs);
DECLARE_OP(Scatter);

// (x, index, v): x with x[index[i][j]][j] += v[i][j].
struct ScatterAdd {
  std::int64_t axis = 0;
  static constexpr OpTraits traits{.name = "ScatterAdd"};
  static constexpr auto fields = field_list(field("axis", &ScatterAdd::axis));
};
Values execute(const ScatterAdd& op, Values& in);
Values grad(const ScatterAdd& op, const GradArgs& g);
Keep keep(const ScatterAdd& op, std::uint32_t needs);
Values decompose_complex(const ScatterAdd& op, const Values& in);
DECLARE_OP(ScatterAdd);

// (x, index): the elements of x along `axis` that index, which lacks that axis, names; the axis
// stays, with size 1. A negative index is out of range here.
struct IndexingOneHot {
  std::int64_t axis = 0;
  std::int64_t ndim = 0;  // of the reference's op; not needed
  static constexpr OpTraits traits{.name = "IndexingOneHot", .complex = true};
  static constexpr auto fields =
      field_list(field("axis", &IndexingOneHot::axis), field("ndim", &IndexingOneHot::ndim));
};
Specs infer(const IndexingOneHot& op, const Specs& in);
Values decompose(const IndexingOneHot& op, const Values& in);
void kernel(const IndexingOneHot& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(IndexingOneHot);

// (x, index, v): x with those elements replaced by v, which has size 1 on the axis.
struct IndexingSetOneHot {
  std::int64_t axis = 0;
  std::int64_t ndim = 0;
  static constexpr OpTraits traits{.name = "IndexingSetOneHot", .complex = true};
  static constexpr auto fields =
      field_list(field("axis", &IndexingSetOneHot::axis), field("ndim", &IndexingSetOneHot::ndim));
};
Values execute(const IndexingSetOneHot& op, Values& in);
Values decompose(const IndexingSetOneHot& op, const Values& in);
DECLARE_OP(IndexingSetOneHot);

// The indexing ops as the reference's builtin.Subtensor(items=...) and its kin take them: bounds
// and positions are further inputs. An item is axis * 16 + 1 (has a start) + 2 (a stop) + 4 (a
// step) + 8 (a position or, for the *_vec modes, an index array); the inputs come in that order.
struct IndexItems {
  enum class Mode : std::uint8_t { get, set, incr, get_vec, set_vec, incr_vec };
  Mode mode = Mode::get;
  Dims items{};
  static constexpr OpTraits traits{.name = "IndexItems", .by_contents = true, .complex = true};
  static constexpr auto fields =
      field_list(field("mode", &IndexItems::mode), field("items", &IndexItems::items));
};
template <>
struct EnumNames<IndexItems::Mode> {
  static constexpr std::array<const char*, 6> names = {"get",     "set",     "incr",
                                                       "get_vec", "set_vec", "incr_vec"};
};
Values execute(const IndexItems& op, Values& in);
Values decompose(const IndexItems& op, const Values& in);
DECLARE_OP(IndexItems);

// The positions of the true elements of a mask: an integer vector for each axis, in row-major
// order.
struct NonZero {
  static constexpr OpTraits traits{.name = "NonZero", .differentiable = false, .by_contents = true};
  static constexpr auto fields = field_list();
};
Values execute(const NonZero& op, Values& in);
DECLARE_OP(NonZero);

// (mask, x) -> the elements of x where mask, of x's shape, is true, and their row-major positions.
struct CondTake {
  static constexpr OpTraits traits{.name = "CondTake", .by_contents = true, .complex = true};
  static constexpr auto fields = field_list();
};
Values execute(const CondTake& op, Values& in);
Values grad(const CondTake& op, const GradArgs& g);
Keep keep(const CondTake& op, std::uint32_t needs);
DECLARE_OP(CondTake);

// ---- as functions -------------------------------------------------------------------------------

// x[..., begin:end, ...] on one axis.
Value slice(const Value& x, std::int64_t axis, std::int64_t begin, std::int64_t end,
            std::int64_t step = 1);
// x with its axes reversed.
Value flip(const Value& x, const Dims& axes);
// Rows of x along `axis` at the positions in an integer tensor of any shape.
Value take(const Value& x, const Value& index, std::int64_t axis = 0);
Value gather(const Value& x, std::int64_t axis, const Value& index);
Value scatter(Value x, std::int64_t axis, const Value& index, const Value& v);
Value scatter_add(Value x, std::int64_t axis, const Value& index, const Value& v);
Value indexing_one_hot(const Value& x, const Value& index, std::int64_t axis);

#undef MGE_BASIC_FIELDS
#undef MGE_VEC_FIELDS

}  // namespace mge
