// Reverse-mode differentiation. A tape records the ops that lead from watched values; backward
// walks it once, from the end, and frees each node's memory as it goes.
#pragma once

#include <functional>
#include <vector>

#include "core/op/op.h"

namespace mge {

class Tape {
 public:
  // The gradients of a node's inputs from those of its outputs; undefined Values where there is
  // none.
  using Backward = std::function<Values(const Values& dy, std::uint32_t needs)>;

  Tape();
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // Recording on this thread starts and ends.
  void enter();
  void exit();
  bool recording() const { return recording_; }

  // Asks for the gradient of a value, which may already have been computed from others on this
  // tape. Returns its place in the result of backward().
  std::size_t watch(const Value& v);
  bool follows(const Value& v) const { return slot_of(v) != kNoSlot; }

  void record(const OpRef& op, const Values& inputs, Values& outputs);
  // A node whose gradient is the caller's own function (autodiff.Function).
  void record(const char* name, const Values& inputs, Values& outputs, Backward backward);

  // Called with a watched value's place and its gradient, as soon as nothing is added to it any
  // more.
  using Ready = std::function<void(std::size_t place, const Value& gradient)>;

  // d(sum of ys[i] * dys[i]) / d(watched value), for each watched value in order; undefined where
  // ys do not depend on it. An undefined dys[i] stands for ones. Ends the recording.
  std::vector<Value> backward(const std::vector<Value>& ys, const std::vector<Value>& dys,
                              const Ready& ready = {});
  void clear();

 private:
  static constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};
  struct Node {
    OpRef op;
    Backward custom;
    const char* name = nullptr;
    SmallVector<std::uint32_t, 4> in, out;  // slots
    Values inputs, outputs;                 // what the rule asked to keep
    Specs in_specs, out_specs;
  };

  std::uint32_t slot_of(const Value& v) const {
    const ValueImpl& impl = *v.impl();
    if (impl.track.tape == serial_) return impl.track.slot;
    return impl.more_tracks ? slot_among_more(impl) : kNoSlot;
  }
  std::uint32_t slot_among_more(const ValueImpl& impl) const;
  void set_slot(const Value& v, std::uint32_t slot) const;
  std::uint32_t new_slot() {
    watched_slot_.push_back(false);
    return slots_++;
  }
  Node& add_node(const Values& inputs, Values& outputs);
  void accumulate(const Node& node, std::size_t input, Value gradient);
  Values gradients_of(Node& node);
  // For each node, the places of the watched values whose gradients are whole once it has run.
  std::vector<std::vector<std::size_t>> places_done() const;

  std::uint64_t serial_;
  bool recording_ = false;
  std::vector<Node> nodes_;
  std::uint32_t slots_ = 0;
  std::vector<bool> watched_slot_;      // by slot
  std::vector<std::uint32_t> watched_;  // slots, in the order of watch()
  std::vector<Value> gradients_;        // by slot, during backward
};

}  // namespace mge
