// Borders around a tensor.
#pragma once

#include "core/op/op.h"

namespace mge {

enum class PaddingMode : std::uint8_t { CONSTANT, REFLECT, REPLICATE };
template <>
struct EnumNames<PaddingMode> {
  static constexpr auto names = std::to_array<const char*>({"CONSTANT", "REFLECT", "REPLICATE"});
};

#define MGE_PADDING_MEMBERS                                  \
  std::int64_t front_offset_dim0 = 0, front_offset_dim1 = 0; \
  std::int64_t front_offset_dim2 = 0, front_offset_dim3 = 0; \
  std::int64_t front_offset_dim4 = 0, front_offset_dim5 = 0; \
  std::int64_t front_offset_dim6 = 0, front_offset_dim7 = 0; \
  std::int64_t back_offset_dim0 = 0, back_offset_dim1 = 0;   \
  std::int64_t back_offset_dim2 = 0, back_offset_dim3 = 0;   \
  std::int64_t back_offset_dim4 = 0, back_offset_dim5 = 0;   \
  std::int64_t back_offset_dim6 = 0, back_offset_dim7 = 0;   \
  double padding_val = 0;                                    \
  PaddingMode padding_mode = PaddingMode::CONSTANT;
#define MGE_PADDING_FIELDS(T)                                   \
  field_list(field("front_offset_dim0", &T::front_offset_dim0), \
             field("front_offset_dim1", &T::front_offset_dim1), \
             field("front_offset_dim2", &T::front_offset_dim2), \
             field("front_offset_dim3", &T::front_offset_dim3), \
             field("front_offset_dim4", &T::front_offset_dim4), \
             field("front_offset_dim5", &T::front_offset_dim5), \
             field("front_offset_dim6", &T::front_offset_dim6), \
             field("front_offset_dim7", &T::front_offset_dim7), \
             field("back_offset_dim0", &T::back_offset_dim0),   \
             field("back_offset_dim1", &T::back_offset_dim1),   \
             field("back_offset_dim2", &T::back_offset_dim2),   \
             field("back_offset_dim3", &T::back_offset_dim3),   \
             field("back_offset_dim4", &T::back_offset_dim4),   \
             field("back_offset_dim5", &T::back_offset_dim5),   \
             field("back_offset_dim6", &T::back_offset_dim6),   \
             field("back_offset_dim7", &T::back_offset_dim7),   \
             field("padding_val", &T::padding_val), field("padding_mode", &T::padding_mode))

// (x) -> x with front_offset_dim{i} elements more before axis i and back_offset_dim{i} after it:
// padding_val, the mirrored elements (without the edge itself) or the edge repeated. The memory
// format stays.
struct Padding {
  MGE_PADDING_MEMBERS
  static constexpr OpTraits traits{.name = "Padding"};
  static constexpr auto fields = MGE_PADDING_FIELDS(Padding);
};
Specs infer(const Padding& op, const Specs& in);
Values grad(const Padding& op, const GradArgs& g);
Keep keep(const Padding& op, std::uint32_t needs);
void kernel(const Padding& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(Padding);

// (dy) -> dx: the sums over where each element went. Float dtypes.
struct PaddingBackward {
  MGE_PADDING_MEMBERS
  static constexpr OpTraits traits{.name = "PaddingBackward"};
  static constexpr auto fields = MGE_PADDING_FIELDS(PaddingBackward);
};
Specs infer(const PaddingBackward& op, const Specs& in);
Values grad(const PaddingBackward& op, const GradArgs& g);
Keep keep(const PaddingBackward& op, std::uint32_t needs);
void kernel(const PaddingBackward& op, CpuContext& context, Views in, MutViews out);
DECLARE_OP(PaddingBackward);

// The widths as lists, one entry for each axis.
struct PaddingWidths {
  Dims front, back;
};
template <class T>
PaddingWidths padding_widths(const T& op, int ndim) {
  const Dims front{op.front_offset_dim0, op.front_offset_dim1, op.front_offset_dim2,
                   op.front_offset_dim3, op.front_offset_dim4, op.front_offset_dim5,
                   op.front_offset_dim6, op.front_offset_dim7};
  const Dims back{op.back_offset_dim0, op.back_offset_dim1, op.back_offset_dim2,
                  op.back_offset_dim3, op.back_offset_dim4, op.back_offset_dim5,
                  op.back_offset_dim6, op.back_offset_dim7};
  PaddingWidths out{front, back};
  out.front.resize(ndim);
  out.back.resize(ndim);
  return out;
}

// out, which is dense and not empty, = x with `value` around it.
void pad_constant(const View& x, const PaddingWidths& widths, double value, const MutView& out);

}  // namespace mge
