#include "core/autodiff/tape.h"

#include <algorithm>

#include "core/dispatch/dispatch.h"
#include "core/ops/creation/creation.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/shape/shape.h"
#include "core/tensor/fill.h"

namespace mge {
namespace {

// Bit i: input i is followed. Those past the 32nd count as needed and kept.
std::uint32_t needs_of(std::span<const std::uint32_t> slots, std::uint32_t none) {
  std::uint32_t needs = 0;
  for (std::size_t i = 0; i < slots.size() && i < 32; ++i) {
    if (slots[i] != none) needs |= 1u << i;
  }
  return needs;
}
// A gradient that the user passed, in the shape and dtype of its output.
Value upstream(const Value& dy, const Value& y) {
  const Value g = cast(dy, y.dtype());
  if (g.shape() == y.shape()) return g;
  if (g.size() == y.size()) return reshape(g, y.shape());
  if (broadcast("backward", g.shape(), y.shape()) != y.shape()) {
    fail_value("backward", "gradient of shape ", dy.shape(), " does not fit an output of shape ",
               y.shape());
  }
  return broadcast_to(g, y.shape());
}

bool in_mask(std::uint32_t mask, std::size_t i) { return i >= 32 || (mask >> i & 1u); }

}  // namespace

Value GradArgs::dy_or_zeros(std::size_t i) const { return dy[i] ? dy[i] : zeros(out_specs[i]); }

Tape::Tape() : serial_(next_track_serial()) {}
Tape::~Tape() { exit(); }

void Tape::enter() {
  auto& tapes = dispatch_state().tapes;
  if (std::find(tapes.begin(), tapes.end(), this) == tapes.end()) tapes.push_back(this);
  recording_ = true;
}

void Tape::exit() {
  std::erase(dispatch_state().tapes, this);
  recording_ = false;
}

std::uint32_t Tape::slot_among_more(const ValueImpl& impl) const {
  for (const TrackRef& t : *impl.more_tracks) {
    if (t.tape == serial_) return t.slot;
  }
  return kNoSlot;
}

void Tape::set_slot(const Value& v, std::uint32_t slot) const {
  ValueImpl& impl = *v.impl();
  const auto& tapes = dispatch_state().tapes;
  const auto alive = [&](const TrackRef& t) {
    return std::any_of(tapes.begin(), tapes.end(),
                       [&](const Tape* p) { return p->serial_ == t.tape; });
  };
  if (impl.track.tape == 0 || impl.track.tape == serial_ || !alive(impl.track)) {
    impl.track = {serial_, slot};
    return;
  }
  if (!impl.more_tracks) impl.more_tracks = std::make_unique<std::vector<TrackRef>>();
  std::erase_if(*impl.more_tracks, [&](const TrackRef& t) { return !alive(t); });
  impl.more_tracks->push_back({serial_, slot});
}

std::size_t Tape::watch(const Value& v) {
  std::uint32_t slot = slot_of(v);
  if (slot == kNoSlot) {
    slot = new_slot();
    set_slot(v, slot);
  }
  watched_slot_[slot] = true;
  watched_.push_back(slot);
  return watched_.size() - 1;
}

Tape::Node& Tape::add_node(const Values& inputs, Values& outputs) {
  Node& node = nodes_.emplace_back();
  node.in.reserve(inputs.size());
  node.in_specs.reserve(inputs.size());
  for (const Value& v : inputs) {
    node.in.push_back(slot_of(v));
    node.in_specs.push_back(v.spec());
  }
  node.out.reserve(outputs.size());
  node.out_specs.reserve(outputs.size());
  for (const Value& v : outputs) {
    const std::uint32_t slot = new_slot();
    node.out.push_back(slot);
    node.out_specs.push_back(v.spec());
    set_slot(v, slot);
  }
  return node;
}

void Tape::record(const OpRef& op, const Values& inputs, Values& outputs) {
  Node& node = add_node(inputs, outputs);
  node.op = op;
  node.name = op->name();
  const Keep keep = op->type->keep ? op->type->keep(*op, needs_of(node.in, kNoSlot)) : Keep{};
  node.inputs = Values(inputs.size());
  node.outputs = Values(outputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (in_mask(keep.inputs, i)) node.inputs[i] = inputs[i];
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (in_mask(keep.outputs, i)) node.outputs[i] = outputs[i];
  }
}

void Tape::record(const char* name, const Values& inputs, Values& outputs, Backward backward) {
  Node& node = add_node(inputs, outputs);
  node.custom = std::move(backward);
  node.name = name;
}

void Tape::accumulate(const Node& node, std::size_t input, Value gradient) {
  const Spec& spec = node.in_specs[input];
  if (gradient.shape() != spec.shape || gradient.dtype() != spec.dtype) {
    fail_runtime(node.name, "gradient of input ", input, " should be ", spec.dtype, " of shape ",
                 spec.shape, ", the backward rule gave ", gradient.dtype(), " of shape ",
                 gradient.shape());
  }
  if (gradient.device() != spec.device) {
    // One place under another name: the gradient has its tensor's.
    gradient = on_device(gradient, spec.device);
  }
  Value& sum = gradients_[node.in[input]];
  if (!sum) {
    sum = std::move(gradient);
    return;
  }
  // Moved in, so that a buffer which only this sum holds is added to in place.
  Values both(2);
  both[0] = std::move(sum);
  both[1] = std::move(gradient);
  sum = std::move(apply(elemwise_op(Elemwise::Mode::ADD), std::move(both))[0]);
}

Values Tape::gradients_of(Node& node) {
  Values dy(node.out.size());
  bool any = false;
  for (std::size_t i = 0; i < node.out.size(); ++i) {
    Value& g = gradients_[node.out[i]];
    any |= static_cast<bool>(g);
    // A watched value that this node made is asked for: its gradient stays.
    dy[i] = watched_slot_[node.out[i]] ? g : std::move(g);
  }
  if (!any) return {};
  // A rule knows needs only for its first 32 inputs (concatenation has more, and gives all).
  const std::uint32_t needs = needs_of(node.in, kNoSlot);
  if (node.custom) return node.custom(dy, needs);
  const GradArgs args{node.inputs, node.outputs, dy, node.in_specs, node.out_specs, needs};
  return node.op->type->grad(*node.op, args);
}

std::vector<std::vector<std::size_t>> Tape::places_done() const {
  // The walk goes from the last node to the first: the first one that uses a value adds last.
  std::vector<std::size_t> last(slots_, nodes_.size());
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    for (const std::uint32_t slot : nodes_[i].in) {
      if (slot != kNoSlot) last[slot] = i;
    }
  }
  std::vector<std::vector<std::size_t>> places(nodes_.size());
  for (std::size_t place = 0; place < watched_.size(); ++place) {
    const std::size_t node = last[watched_[place]];
    if (node < nodes_.size()) places[node].push_back(place);
  }
  return places;
}

std::vector<Value> Tape::backward(const std::vector<Value>& ys, const std::vector<Value>& dys,
                                  const Ready& ready) {
  struct Finish {
    Tape& tape;
    Layer* amp = dispatch_state().amp;
    ~Finish() {
      dispatch_state().amp = amp;
      tape.clear();
    }
  } finish{*this};
  recording_ = false;              // outer tapes record the gradient ops, this one does not
  dispatch_state().amp = nullptr;  // rules run in the dtypes that the forward ops had

  gradients_.assign(slots_, Value{});
  for (std::size_t i = 0; i < ys.size(); ++i) {
    const std::uint32_t slot = slot_of(ys[i]);
    if (slot == kNoSlot) continue;
    if (!dys[i] && is_complex(ys[i].dtype())) {
      fail_type("backward", "expected a real output, got ", ys[i].dtype(),
                "; take F.real, F.imag or F.abs of it, or pass its gradient");
    }
    Value dy = dys[i] ? upstream(dys[i], ys[i]) : full(ys[i].spec(), 1.0);
    Value& sum = gradients_[slot];
    sum = sum ? add(sum, dy) : std::move(dy);
  }
  std::vector<bool> told(ready ? watched_.size() : 0, false);
  const auto tell = [&](std::size_t place) {
    const Value gradient = gradients_[watched_[place]];
    if (!gradient || told[place]) return;
    told[place] = true;
    ready(place, gradient);
  };
  std::vector<std::vector<std::size_t>> done;
  if (ready) done = places_done();
  while (!nodes_.empty()) {
    Node node = std::move(nodes_.back());
    nodes_.pop_back();
    Values dx = gradients_of(node);
    for (std::size_t i = 0; i < dx.size(); ++i) {
      if (dx[i] && node.in[i] != kNoSlot) accumulate(node, i, std::move(dx[i]));
    }
    if (ready) {
      for (const std::size_t place : done[nodes_.size()]) tell(place);
    }
  }
  if (ready) {  // outputs that nothing on the tape uses
    for (std::size_t place = 0; place < watched_.size(); ++place) tell(place);
  }
  std::vector<Value> out;
  out.reserve(watched_.size());
  for (const std::uint32_t slot : watched_) out.push_back(gradients_[slot]);
  return out;
}

void Tape::clear() {
  exit();
  nodes_.clear();
  gradients_.clear();
  watched_.clear();
  watched_slot_.clear();
  slots_ = 0;
  serial_ = next_track_serial();
}

}  // namespace mge
