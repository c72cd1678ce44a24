// Reading and writing at every combination of positions along several axes: x[np.ix_(i, j)].
//
// Inputs are as those of IndexItems: the tensor, for a write the value, then the bounds of the
// items in order. An index array is a vector and its axis stays in its place, as long as the array.
// With `batched`, axis 0 is a batch, the arrays are (batch, n), and each row addresses its own part
// of the batch.
#pragma once

#include <array>

#include "core/op/op.h"

namespace mge {

struct MeshItems {
  enum class Mode : std::uint8_t { get, set, incr };
  Mode mode = Mode::get;
  bool batched = false;
  Dims items{};
  static constexpr OpTraits traits{.name = "MeshItems", .by_contents = true};
  static constexpr auto fields =
      field_list(field("mode", &MeshItems::mode), field("batched", &MeshItems::batched),
                 field("items", &MeshItems::items));
};
template <>
struct EnumNames<MeshItems::Mode> {
  static constexpr std::array<const char*, 3> names = {"get", "set", "incr"};
};
Values execute(const MeshItems& op, Values& in);
Values decompose(const MeshItems& op, const Values& in);
DECLARE_OP(MeshItems);

}  // namespace mge
