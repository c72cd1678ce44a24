// What the indexing ops share: the part of a tensor that basic indices name, and writing to it.
#pragma once

#include "core/ops/indexing/indexing.h"

namespace mge {

// The part as a view: its shape, strides and first element, and which axes of the tensor are left.
struct BasicPart {
  Shape shape;
  Strides strides;
  std::int64_t offset = 0;
  Dims axes;
};
BasicPart basic_part(const char* op, const BasicItems& items, const Shape& shape,
                     const Strides& strides);

// Raises where a value of this shape does not broadcast to the part (leading ones may be more).
void check_assignable(const char* op, const Shape& value, const Shape& part);
// The value without leading ones beyond `ndim` axes.
View as_assigned(const View& v, int ndim);
// A dense tensor with the contents of x, of which `written` distinct elements are about to be
// replaced: in x's buffer where nobody else holds it, else in a new one of x's memory format.
Value writable(Value& x, std::int64_t written);
// The gradient of a written value from the gradient of the part.
Value take_back(const Value& dy, const Spec& v);

}  // namespace mge
