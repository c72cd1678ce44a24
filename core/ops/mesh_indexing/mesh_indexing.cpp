#include "core/ops/mesh_indexing/mesh_indexing.h"

#include <algorithm>

#include "core/dispatch/dispatch.h"
#include "core/ops/creation/creation.h"
#include "core/ops/indexing/basic.h"
#include "core/ops/indexing/items.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

constexpr const char* kName = "MeshItems";

// The items as one access with index arrays that broadcast against each other, whose axes come in
// front of the others.
struct Mesh {
  VecItems items;
  Values arrays;
  Shape shape;  // of the result, with the axes in their places
  Dims places;  // axis i of the result is axis places[i] of what the access gives
};

// Raises unless the array is a vector (with `batched`, one for each of `batch`); its length.
std::int64_t checked_length(const Value& array, bool batched, std::int64_t batch) {
  if (!is_integer(array.dtype())) {
    fail_type(kName, "expected integer index arrays, got ", array.dtype());
  }
  if (!batched && array.ndim() > 1) {
    fail_value(kName, "expected vectors as index arrays, got shape ", array.shape());
  }
  if (batched && (array.ndim() != 2 || array.shape()[0] != batch)) {
    fail_value(kName, "expected index arrays of shape (", batch, ", n), got ", array.shape());
  }
  return array.ndim() == 0 ? 1 : array.shape().back();
}

// The array along axis `place` of `ndim` axes (and, batched, axis 0).
Value spread(const Value& array, int ndim, int place, bool batched, std::int64_t length) {
  Shape shape = Dims::filled(ndim, 1);
  shape[place] = length;
  if (batched) shape[0] = array.shape()[0];
  return reshape(array, shape);
}

Mesh read_mesh(const MeshItems& op, const Values& in, std::size_t first) {
  Mesh mesh;
  Values given;
  mesh.items = read_items(kName, op.items, true, in, first, given);
  const BasicPart part = basic_part(kName, mesh.items, in[0].shape(), in[0].strides());
  mesh.shape = part.shape;
  if (given.empty()) return mesh;
  const Dims named = mesh.items.vec_axis;
  const int lead = op.batched ? 1 : 0, ndim = named.size() + lead;
  Dims& axes = mesh.items.vec_axis;
  if (op.batched) {
    if (part.shape.empty()) fail_value(kName, "expected a tensor with a batch axis");
    axes.insert(0, 0);
    const std::int64_t batch = part.shape[0];
    mesh.arrays.push_back(reshape(arange(batch, DType::int32, in[0].device()), [&] {
      Shape shape = Dims::filled(ndim, 1);
      shape[0] = batch;
      return shape;
    }()));
  }
  for (int i = 0; i < named.size(); ++i) {
    const std::int64_t axis = named[i];
    if (axis < 0 || axis >= part.shape.size()) {
      fail_index(kName, "an index array for axis ", axis, " of ", part.shape.size(), " dimensions");
    }
    if (op.batched && axis == 0) fail_value(kName, "axis 0 is the batch, and takes no index array");
    if (std::count(named.begin(), named.end(), axis) > 1) {
      fail_value(kName, "axis ", axis, " appears twice in ", named);
    }
    const Value& array = given[static_cast<std::size_t>(i)];
    const std::int64_t length = checked_length(array, op.batched, part.shape[0]);
    mesh.arrays.push_back(spread(array, ndim, i + lead, op.batched, length));
    mesh.shape[static_cast<int>(axis)] = length;
  }
  mesh.items.at = 0;
  int others = axes.size();
  for (int axis = 0; axis < part.shape.size(); ++axis) {
    const auto* found = std::find(axes.begin(), axes.end(), axis);
    mesh.places.push_back(found != axes.end() ? found - axes.begin() : others++);
  }
  return mesh;
}

Dims inverse(const Dims& permutation) {
  Dims out = permutation;
  for (int i = 0; i < permutation.size(); ++i) out[static_cast<int>(permutation[i])] = i;
  return out;
}

template <class Op>
Value access(const Mesh& mesh, Values head) {
  for (const Value& v : mesh.arrays) head.push_back(v);
  return std::move(call_all(Op{mesh.items}, std::move(head))[0]);
}

// A value to write, of the shape of a read, with its axes as the access has them.
Value arranged(const Mesh& mesh, const Value& v) {
  check_assignable(kName, v.shape(), mesh.shape);
  const Value whole = v.shape() == mesh.shape ? v : broadcast_to(v, mesh.shape);
  return transpose(whole, inverse(mesh.places));
}

}  // namespace

Values decompose(const MeshItems& op, const Values& in) {
  using Mode = MeshItems::Mode;
  const std::size_t first = op.mode == Mode::get ? 1 : 2;
  if (in.size() < first) fail_type(kName, "expected at least ", first, " inputs, got ", in.size());
  const Mesh mesh = read_mesh(op, in, first);
  if (mesh.arrays.empty()) {
    if (op.mode == Mode::get) return call_all(Subtensor{mesh.items}, {in[0]});
    if (op.mode == Mode::set) return call_all(SetSubtensor{mesh.items}, {in[0], in[1]});
    return call_all(IncrSubtensor{mesh.items}, {in[0], in[1]});
  }
  if (op.mode == Mode::get) {
    return {transpose(access<IndexingMultiAxisVec>(mesh, {in[0]}), mesh.places)};
  }
  const Value v = arranged(mesh, in[1]);
  if (op.mode == Mode::set) return {access<IndexingSetMultiAxisVec>(mesh, {in[0], v})};
  return {access<IndexingIncrMultiAxisVec>(mesh, {in[0], v})};
}
Values execute(const MeshItems& op, Values& in) {
  PauseGrad pause;
  return decompose(op, in);
}
REGISTER_OP(MeshItems);

}  // namespace mge
