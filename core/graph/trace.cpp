#include "core/graph/trace.h"

#include <algorithm>

#include "core/dispatch/dispatch.h"

namespace mge {
namespace {

constexpr ValueId kNone = ~ValueId{0};

// Ops that run inside another op's execution are not the function's own.
class Suspend {
 public:
  Suspend() : session_(dispatch_state().trace) { dispatch_state().trace = nullptr; }
  ~Suspend() { dispatch_state().trace = session_; }
  Suspend(const Suspend&) = delete;
  Suspend& operator=(const Suspend&) = delete;

 private:
  TraceSession* session_;
};

bool same_spec(const Spec& a, const Spec& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.strides == b.strides && a.device == b.device;
}

}  // namespace

// The session of this thread, also while exclude_from_trace() suspends it.
static thread_local TraceSession* current_session = nullptr;

void materialize(const ValueImpl& v) {
  if (current_session && current_session->made(v)) current_session->flush();
  if (!v.storage) {
    fail_runtime("trace",
                 "expected a value that was computed: the call that should have computed "
                 "this one failed, or runs on another thread");
  }
}

void flush_trace() {
  if (current_session) current_session->flush();
}

std::vector<TracedFunction::Way*> TracedFunction::ways() const {
  const std::lock_guard guard(lock_);
  std::vector<Way*> out;
  for (const auto& way : ways_) out.push_back(way.get());
  return out;
}

bool TracedFunction::full() const {
  const std::lock_guard guard(lock_);
  return ways_.size() >= kMostWays;
}

void TracedFunction::add(std::unique_ptr<Way> way) {
  const std::lock_guard guard(lock_);
  if (ways_.size() < kMostWays) ways_.push_back(std::move(way));
}

const Program& TracedFunction::program(Way& way, std::size_t begin, std::size_t end,
                                       const std::vector<ValueId>& live) {
  const std::lock_guard guard(lock_);
  for (const auto& s : way.stretches) {
    if (s->begin == begin && s->end == end && s->live == live) return s->program;
  }
  way.stretches.push_back(std::make_unique<const Stretch>(
      Stretch{begin, end, live, Program(way.graph.part(begin, end, live))}));
  return way.stretches.back()->program;
}

TraceSession::TraceSession(TracedFunction& function)
    : function_(function), serial_(next_track_serial()) {
  const auto ways = function.ways();
  if (ways.empty()) {
    mode_ = Mode::record;
    recorded_ = std::make_unique<TracedFunction::Way>();
  } else {
    mode_ = Mode::replay;
    way_ = ways.front();
    env_.resize(way_->graph.values.size());
    bound_.resize(way_->graph.values.size());
  }
  dispatch_state().trace = current_session = this;
}

TraceSession::~TraceSession() {
  if (current_session == this) dispatch_state().trace = current_session = nullptr;
}

Values TraceSession::execute(const OpRef& op, Values& inputs) {
  switch (mode_) {
    case Mode::replay:
      return replay(op, inputs);
    case Mode::record:
      return record(op, inputs);
    default: {
      Suspend suspend;
      return execute_now(op, inputs);
    }
  }
}

ValueId TraceSession::id_of(const Value& v) const {
  const ValueImpl& impl = *v.impl();
  return made(impl) ? impl.trace.slot : kNone;
}

// ---- recording
// -----------------------------------------------------------------------------------

ValueId TraceSession::bind_new(const Value& v) {
  const ValueId id = recorded_->graph.add_value(v.spec(), true);
  v.impl()->trace = {serial_, id};
  if (keep_externals_) {
    externals_.resize(id + 1);
    externals_[id] = v;
  }
  return id;
}

const Graph& TraceSession::graph() const {
  if (!recorded_) fail_runtime("trace", "this call is not recorded");
  return recorded_->graph;
}

ValueId TraceSession::bind(const Value& v) {
  if (!recorded_) fail_runtime("trace", "this call is not recorded");
  const ValueId id = id_of(v);
  return id == kNone ? bind_new(v) : id;
}

void TraceSession::add_node(const OpRef& op, SmallVector<ValueId, 4> in, Values& outputs) {
  Graph& graph = recorded_->graph;
  Graph::Node& node = graph.nodes.emplace_back();
  node.op = op;
  node.in = std::move(in);
  for (Value& v : outputs) {
    // A view of everything may be its input itself; here it needs an identity of its own.
    if (id_of(v) != kNone) v = v.detached();
    const ValueId id = graph.add_value(v.spec(), false);
    v.impl()->trace = {serial_, id};
    node.out.push_back(id);
  }
}

Values TraceSession::record(const OpRef& op, Values& inputs) {
  SmallVector<ValueId, 4> in;
  for (const Value& v : inputs) in.push_back(bind(v));
  Values outputs;
  {
    Suspend suspend;
    outputs = execute_now(op, inputs);
  }
  add_node(op, std::move(in), outputs);
  return outputs;
}

// ---- replaying
// -----------------------------------------------------------------------------------

// Whether the call is that of the next node. Inputs from outside are bound to the ids that the
// record gave them.
bool TraceSession::matches(const OpRef& op, const Values& inputs) {
  const Graph& graph = way_->graph;
  if (next_ >= graph.nodes.size()) return false;
  const Graph::Node& node = graph.nodes[next_];
  if (inputs.size() != node.in.size() || !same_op(op, node.op)) return false;
  std::size_t i = 0;
  SmallVector<std::size_t, 4> fresh;
  for (; i < inputs.size(); ++i) {
    const ValueId id = id_of(inputs[i]), want = node.in[i];
    if (id == want) continue;
    const bool takes_it = id == kNone && graph.values[want].external && !bound_[want] &&
                          same_spec(inputs[i].spec(), graph.values[want].spec);
    if (!takes_it) break;
    inputs[i].impl()->trace = {serial_, want};
    bound_[want] = true;
    fresh.push_back(i);
  }
  if (i == inputs.size()) return true;
  for (const std::size_t j : fresh) {
    bound_[node.in[j]] = false;
    inputs[j].impl()->trace = {};
  }
  return false;
}

// Looks for a way that began like this one and goes on with this call.
bool TraceSession::step_onto_other_way(const OpRef& op, const Values& inputs) {
  TracedFunction::Way* before = way_;
  for (TracedFunction::Way* other : function_.ways()) {
    if (other == before || !other->graph.begins_like(before->graph, next_)) continue;
    way_ = other;
    bound_.resize(std::max(bound_.size(), way_->graph.values.size()));
    if (!matches(op, inputs)) continue;
    env_.resize(std::max(env_.size(), way_->graph.values.size()));
    return true;
  }
  way_ = before;
  return false;
}

// From here on the call goes a way of its own.
void TraceSession::leave_the_record() {
  flush();
  if (function_.full()) {
    mode_ = Mode::off;
    return;
  }
  mode_ = Mode::record;
  recorded_ = std::make_unique<TracedFunction::Way>();
  recorded_->graph = way_->graph.prefix(next_);
}

Values TraceSession::replay(const OpRef& op, Values& inputs) {
  if (!matches(op, inputs) && !step_onto_other_way(op, inputs)) {
    leave_the_record();
    return execute(op, inputs);
  }
  const Graph& graph = way_->graph;
  const Graph::Node& node = graph.nodes[next_];
  Values outputs(node.out.size());
  if (op->type->traits.by_contents) {  // nothing can follow before its shapes are known
    flush();
    {
      Suspend suspend;
      outputs = execute_now(op, inputs);
    }
    bool as_before = outputs.size() == node.out.size();
    for (std::size_t i = 0; as_before && i < outputs.size(); ++i) {
      as_before = same_spec(outputs[i].spec(), graph.values[node.out[i]].spec);
    }
    if (!as_before) {
      SmallVector<ValueId, 4> in = node.in;
      leave_the_record();
      if (mode_ == Mode::record) add_node(op, std::move(in), outputs);
      return outputs;
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      outputs[i] = outputs[i].detached();
      outputs[i].impl()->trace = {serial_, node.out[i]};
    }
    begin_ = ++next_;
    return outputs;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) env_[node.in[i]] = inputs[i];
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ValueId id = node.out[i];
    outputs[i] = Value::pending(graph.values[id].spec);
    outputs[i].impl()->trace = {serial_, id};
    env_[id] = outputs[i];
  }
  ++next_;
  return outputs;
}

void TraceSession::flush() {
  if (mode_ != Mode::replay || begin_ == next_) return;
  Suspend suspend;
  const std::size_t begin = begin_;
  const Graph& graph = way_->graph;
  // What is held by others than env_ is wanted.
  std::vector<ValueId> live;
  for (std::size_t n = begin; n < next_; ++n) {
    for (const ValueId id : graph.nodes[n].out) {
      if (!env_[id].impl()->unique()) live.push_back(id);
    }
  }
  const Program& program = function_.program(*way_, begin, next_, live);
  begin_ = next_;  // also where it fails: what was pending is lost then
  // Taken out, so that nothing but the program holds on to what it uses.
  std::vector<Value> env(env_.size());
  std::swap(env, env_);
  const std::vector<Value> results = program.run(env);
  for (std::size_t i = 0; i < live.size(); ++i) {
    ValueImpl& pending = *env[live[i]].impl();
    const ValueImpl& made = *results[i].impl();
    if (made.spec.shape != pending.spec.shape || made.spec.dtype != pending.spec.dtype) {
      fail_runtime("trace", "expected a result of shape ", pending.spec.shape, ", got ",
                   made.spec.shape, ": an op's shape depends on contents and does not say so");
    }
    pending.spec.strides = made.spec.strides;
    pending.data = made.data;
    pending.storage = made.storage;
  }
}

void TraceSession::finish(bool keep) {
  struct End {
    TraceSession& session;
    ~End() {
      session.mode_ = Mode::off;
      session.env_.clear();
      dispatch_state().trace = current_session = nullptr;
    }
  } end{*this};
  flush();
  if (keep && mode_ == Mode::record) function_.add(std::move(recorded_));
}

}  // namespace mge
