#include "core/graph/trace.h"

#include <algorithm>

#include "core/dispatch/dispatch.h"
#include "core/ops/optimizer_step/optimizer_step.h"

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

// Gives a pending value its contents.
void fill(const Value& pending, const Value& made) {
  ValueImpl& to = *pending.impl();
  to.spec.strides = made.strides();
  to.data = made.impl()->data;
  to.storage = made.impl()->storage;
}

bool has_contents(const Value& v) { return v && v.impl()->storage; }

// After an op has raised. Parameters and the state of optimizers hold pending values for steps that
// did not run: they become what they were before, since an error must not cost the network.
// `env` is what the run has left.
void undo_steps(const Graph& graph, std::size_t begin, std::size_t end, std::vector<Value>& env,
                const std::vector<ValueId>& live, const std::vector<Value>& waiting) {
  for (std::size_t n = begin; n < end; ++n) {
    const Graph::Node& node = graph.nodes[n];
    if (node.op->type != &op_type<OptimizerStep>()) continue;
    for (std::size_t i = 0; i < node.out.size(); ++i) {
      const ValueId id = node.out[i];
      if (!has_contents(env[id])) env[id] = env[node.in[kFirstStepped + i]];
      const auto at = std::lower_bound(live.begin(), live.end(), id);
      if (at == live.end() || *at != id || !has_contents(env[id])) continue;
      fill(waiting[static_cast<std::size_t>(at - live.begin())], env[id]);
    }
  }
}

}  // namespace

static thread_local TraceSession* current_session = nullptr;
static TraceHost trace_host;

TraceSession* TraceSession::current() { return current_session; }

void set_trace_host(const TraceHost& host) { trace_host = host; }

const char* caller_place() { return trace_host.place ? trace_host.place() : nullptr; }

void materialize(const ValueImpl& v) {
  if (current_session && current_session->made(v)) current_session->flush();
  if (!v.storage) {
    if (v.companion) {
      fail_runtime(
          "Network",
          "this value of a graph that is edited has no contents; dump the graph and run it");
    }
    throw TraceError(
        "trace: expected a value that was computed: the call that should have computed this one "
        "failed, or runs on another thread; there, read it before it is handed on");
  }
}

void flush_trace() {
  if (current_session) current_session->flush();
}

// ---- what is kept of a function
// -----------------------------------------------------------------------------------

std::vector<std::shared_ptr<TracedFunction::Way>> TracedFunction::ways() const {
  const std::lock_guard guard(lock_);
  return ways_;
}

std::vector<std::shared_ptr<const TracedFunction::Stretch>> TracedFunction::stretches() const {
  const std::lock_guard guard(lock_);
  std::vector<std::shared_ptr<const Stretch>> out;
  for (const auto& way : ways_) {
    out.insert(out.end(), way->stretches.begin(), way->stretches.end());
  }
  return out;
}

std::shared_ptr<TracedFunction::Way> TracedFunction::last_way() const {
  const std::lock_guard guard(lock_);
  return ways_.empty() ? nullptr : ways_.front();
}

// To the front of the list; the last one goes where there are too many.
template <class T>
static void use(std::vector<std::shared_ptr<T>>& list, const std::shared_ptr<T>& item,
                std::size_t most) {
  if (!list.empty() && list.front() == item) return;
  auto at = std::find(list.begin(), list.end(), item);
  if (at == list.end()) {
    if (list.size() >= most) list.pop_back();
    list.push_back(item);
    at = std::prev(list.end());
  }
  std::rotate(list.begin(), at, std::next(at));
}

void TracedFunction::was_taken(const std::shared_ptr<Way>& way) {
  const std::lock_guard guard(lock_);
  use(ways_, way, kMostWays);
}

std::shared_ptr<const TracedFunction::Stretch> TracedFunction::stretch(Way& way, std::size_t begin,
                                                                       std::size_t end,
                                                                       std::vector<ValueId> live) {
  const std::lock_guard guard(lock_);
  const std::size_t most = kMostStretches + way.graph.nodes.size();
  for (const auto& s : way.stretches) {
    if (s->begin == begin && s->end == end && s->live == live) {
      const auto found = s;
      use(way.stretches, found, most);
      return found;
    }
  }
  // With ids of its own: a way of many stretches would keep all of its values in each.
  std::vector<ValueId> to;
  Graph part = way.graph.part(begin, end, live).renumbered({}, to);
  std::vector<ValueId> ids(part.values.size());
  for (ValueId id = 0; id < to.size(); ++id) {
    if (to[id] != kNoValue) ids[to[id]] = id;
  }
  std::vector<SpecializingProgram::Seen> seen(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < way.seen.size()) seen[i] = way.seen[ids[i]];
  }
  const auto made = std::make_shared<const Stretch>(begin, end, std::move(live), std::move(ids),
                                                    std::move(part), seen);
  use(way.stretches, made, most);
  return made;
}

std::shared_ptr<TracedFunction> TracedFunctions::find(const std::string& signature) {
  const std::lock_guard guard(lock_);
  if (!entries_.empty() && entries_.front().signature == signature) {
    return entries_.front().function;
  }
  const auto known = by_signature_.find(signature);
  if (known != by_signature_.end()) {
    entries_.splice(entries_.begin(), entries_, known->second);
    return entries_.front().function;
  }
  if (entries_.size() >= kMost) {
    by_signature_.erase(entries_.back().signature);
    entries_.pop_back();
  }
  entries_.push_front({signature, std::make_shared<TracedFunction>()});
  by_signature_.emplace(entries_.front().signature, entries_.begin());
  return entries_.front().function;
}

std::vector<std::shared_ptr<TracedFunction>> TracedFunctions::all() const {
  const std::lock_guard guard(lock_);
  std::vector<std::shared_ptr<TracedFunction>> out;
  for (const Entry& entry : entries_) out.push_back(entry.function);
  return out;
}

void TracedFunctions::clear() {
  const std::lock_guard guard(lock_);
  by_signature_.clear();
  entries_.clear();
}

// ---- a call
// -----------------------------------------------------------------------------------

TraceSession::TraceSession(TracedFunction& function, Profile* profile)
    : function_(function),
      profile_(profile),
      serial_(next_track_serial()),
      way_(function.last_way()) {
  if (current_session) {
    throw TraceError("trace: a traced call runs on this thread already; call this outside of it");
  }
  if (way_) {
    mode_ = Mode::replay;
    env_.resize(way_->graph.values.size());
    bound_.resize(way_->graph.values.size());
  } else {
    mode_ = Mode::record;
    recorded_ = std::make_shared<TracedFunction::Way>();
  }
  dispatch_state().trace = current_session = this;
  if (profile_) profile_->begin();
  // Beside a profile of its own a function is not part of that of everything.
  if (!profile_) profile_ = Profile::of_everything();
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
    default:
      return run_now(op, inputs);
  }
}

Values TraceSession::run_now(const OpRef& op, Values& inputs) {
  Suspend suspend;
  return profile_ ? execute_profiled(op, inputs, *profile_) : execute_now(op, inputs);
}

void TraceSession::note_read(const Value& v) {
  if (keep_externals_ && id_of(v) != kNone) reads_.push_back(id_of(v));
}

ValueId TraceSession::id_of(const Value& v) const {
  const ValueImpl& impl = *v.impl();
  return made(impl) ? impl.trace.slot : kNone;
}

// ---- recording
// -----------------------------------------------------------------------------------

ValueId TraceSession::bind_new(const Value& v) {
  const ValueId id = recorded_->graph.add_value(v.spec(), true);
  recorded_->graph.values[id].captured =
      std::find(arguments_.begin(), arguments_.end(), v.impl()) == arguments_.end();
  v.impl()->trace = {serial_, id};
  if (recorded_->graph.values[id].captured) {
    recorded_->seen.resize(id + 1);
    recorded_->seen[id] = SpecializingProgram::seen(v);
  }
  if (keep_externals_) {
    externals_.resize(id + 1);
    externals_[id] = v;
  }
  return id;
}

const Graph& TraceSession::graph() const {
  if (!recorded_) throw TraceError("trace: this call is not recorded");
  return recorded_->graph;
}

ValueId TraceSession::bind(const Value& v) {
  if (!recorded_) throw TraceError("trace: this call is not recorded");
  const ValueId id = id_of(v);
  return id == kNone ? bind_new(v) : id;
}

ValueId TraceSession::id_in_record(const Value& v) const {
  const ValueId id = id_of(v);
  return id == kNone ? kNoValue : id;
}

void TraceSession::add_node(const OpRef& op, SmallVector<ValueId, 4> in, Values& outputs) {
  Graph& graph = recorded_->graph;
  Graph::Node& node = graph.nodes.emplace_back();
  node.op = op;
  node.in = std::move(in);
  node.place = caller_place();
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
  Values outputs = run_now(op, inputs);
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
  const auto before = way_;
  for (const auto& other : function_.ways()) {
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
  mode_ = Mode::record;
  recorded_ = std::make_shared<TracedFunction::Way>();
  recorded_->graph = way_->graph.prefix(next_);
  recorded_->seen = way_->seen;
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
    const Values given = inputs;
    outputs = run_now(op, inputs);
    bool as_before = outputs.size() == node.out.size();
    for (std::size_t i = 0; as_before && i < outputs.size(); ++i) {
      as_before = same_spec(outputs[i].spec(), graph.values[node.out[i]].spec);
    }
    if (!as_before) {
      leave_the_record();
      SmallVector<ValueId, 4> in;
      for (const Value& v : given) {
        // What comes from outside with this node is not in the part of the record that is kept.
        if (made(*v.impl()) && v.impl()->trace.slot >= recorded_->graph.values.size())
          v.impl()->trace = {};
        in.push_back(bind(v));
      }
      add_node(op, std::move(in), outputs);
      return outputs;
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      outputs[i] = outputs[i].detached();
      outputs[i].impl()->trace = {serial_, node.out[i]};
    }
    begin_ = ++next_;
    return outputs;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Value& slot = env_[node.in[i]];
    if (!slot) slot = inputs[i];
  }
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
  const auto stretch = function_.stretch(*way_, begin, next_, std::move(live));
  const std::vector<ValueId>& wanted = stretch->live;
  begin_ = next_;  // also where it fails: what was pending is lost then
  std::vector<Value> waiting;
  waiting.reserve(wanted.size());
  for (const ValueId id : wanted) waiting.push_back(env_[id]);
  // Taken out, so that nothing but the program holds on to what it uses.
  std::vector<Value> env(stretch->ids.size());
  for (std::size_t i = 0; i < env.size(); ++i) env[i] = std::move(env_[stretch->ids[i]]);
  std::vector<Value> results;
  const auto run = [&] { results = stretch->program.run(env, profile_); };
  try {
    if (trace_host.unlocked && stretch->program.is_long()) {
      trace_host.unlocked(run);
    } else {
      run();
    }
  } catch (...) {
    std::vector<Value> left(env_.size());
    for (std::size_t i = 0; i < stretch->ids.size(); ++i) left[stretch->ids[i]] = env[i];
    undo_steps(graph, begin, next_, left, wanted, waiting);
    throw;
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (results[i] == waiting[i]) continue;  // it got its contents itself
    const ValueImpl& pending = *waiting[i].impl();
    const ValueImpl& made = *results[i].impl();
    if (made.spec.shape != pending.spec.shape || made.spec.dtype != pending.spec.dtype) {
      fail_runtime("trace", "expected a result of shape ", pending.spec.shape, ", got ",
                   made.spec.shape, ": an op's shape depends on contents and does not say so");
    }
    fill(waiting[i], results[i]);
  }
}

void TraceSession::finish(bool keep) {
  struct End {
    TraceSession& session;
    ~End() {
      session.mode_ = Mode::over;
      session.env_.clear();
      dispatch_state().trace = current_session = nullptr;
    }
  } end{*this};
  flush();
  if (mode_ == Mode::replay) function_.was_taken(way_);
  if (keep && mode_ == Mode::record) function_.was_taken(recorded_);
}

}  // namespace mge
