// IndexItems: index expressions whose bounds are inputs.
#include "core/ops/indexing/items.h"
#include "core/dispatch/dispatch.h"
#include "core/kernels/cpu/copy.h"

namespace mge {
namespace {

constexpr const char* kName = "IndexItems";

// Takes the inputs after the tensor and the value one by one.
class Bounds {
 public:
  Bounds(const char* op, const Values& in, std::size_t first) : op_(op), in_(in), next_(first) {}
  const Value& array() {
    if (next_ >= in_.size()) fail_type(op_, "expected an input for each bound, got ", in_.size());
    return in_[next_++];
  }
  std::int64_t integer() {
    const Value& v = array();
    if (v.size() != 1 || !is_integer(v.dtype())) {
      fail_type(op_, "expected an integer, got ", v.dtype(), " of shape ", v.shape());
    }
    std::int64_t out = 0;
    cpu::copy({v.view().data, v.dtype(), {}, {}}, {&out, DType::int64, {}, {}});
    if (v.dtype() == DType::uint64 && out < 0) {
      fail_index(op_, "index ", static_cast<std::uint64_t>(out), " is out of range");
    }
    return out;
  }
  void check_all_used() const {
    if (next_ != in_.size()) fail_type(op_, "expected ", next_, " inputs, got ", in_.size());
  }

 private:
  const char* op_;
  const Values& in_;
  std::size_t next_;
};

}  // namespace

VecItems read_items(const char* op, const Dims& codes, bool vec, const Values& in,
                    std::size_t first, Values& arrays) {
  Bounds bounds(op, in, first);
  VecItems out;
  int removed = 0;
  for (std::int64_t item : codes) {
    const std::int64_t axis = item >> 4;
    const std::int64_t start = item & 1 ? bounds.integer() : kNoBound;
    const std::int64_t stop = item & 2 ? bounds.integer() : kNoBound;
    const std::int64_t step = item & 4 ? bounds.integer() : 1;
    if (!(item & 8)) {
      if (step == 0) fail_value(op, "slice step cannot be zero");
      out.add_slice(axis, start, stop, step);
    } else if (vec) {
      out.vec_axis.push_back(axis - removed);
      arrays.push_back(bounds.array());
    } else {
      out.add_int(axis, bounds.integer());
      ++removed;
    }
  }
  bounds.check_all_used();
  // Side by side, the arrays leave their axes in place.
  bool side_by_side = true;
  for (int i = 1; i < out.vec_axis.size(); ++i) {
    side_by_side = side_by_side && out.vec_axis[i] == out.vec_axis[i - 1] + 1;
  }
  out.at = side_by_side && !out.vec_axis.empty() ? out.vec_axis[0] : 0;
  return out;
}

namespace {

template <class Basic, class Vec>
Values run(const VecItems& items, Values head, const Values& arrays) {
  if (arrays.empty()) return call_all(Basic{items}, std::move(head));
  for (const Value& v : arrays) head.push_back(v);
  return call_all(Vec{items}, std::move(head));
}

}  // namespace

Values decompose(const IndexItems& op, const Values& in) {
  using Mode = IndexItems::Mode;
  const bool vec = op.mode >= Mode::get_vec;
  const bool get = op.mode == Mode::get || op.mode == Mode::get_vec;
  const bool set = op.mode == Mode::set || op.mode == Mode::set_vec;
  const std::size_t first = get ? 1 : 2;
  if (in.size() < first) fail_type(kName, "expected at least ", first, " inputs, got ", in.size());
  Values arrays;
  const VecItems items = read_items(kName, op.items, vec, in, first, arrays);
  if (get) return run<Subtensor, IndexingMultiAxisVec>(items, {in[0]}, arrays);
  if (set) return run<SetSubtensor, IndexingSetMultiAxisVec>(items, {in[0], in[1]}, arrays);
  return run<IncrSubtensor, IndexingIncrMultiAxisVec>(items, {in[0], in[1]}, arrays);
}
Values execute(const IndexItems& op, Values& in) {
  PauseGrad pause;
  return decompose(op, in);
}
REGISTER_OP(IndexItems);

}  // namespace mge
