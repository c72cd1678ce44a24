// Tracing: the first call of a function is recorded while it runs; in later calls its ops are only
// compared with the record, and what they compute runs in one go when somebody looks at a result,
// or when the call ends.
//
// A later call therefore runs the user's Python code, but no kernel until a result is read. Its ops
// give pending values: shape, dtype and strides are known, the contents are not there yet. Reading
// the contents of one (Value::view() and its kin) runs all that was called so far. Where the call
// takes another way than the record (a branch, another shape), what was called so far runs, and the
// rest of the call is recorded as another way that the function can take.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/profile.h"
#include "core/graph/specializing.h"

namespace mge {

// A call cannot be traced, or a value of one cannot be had.
class TraceError : public Error {
 public:
  explicit TraceError(const std::string& message) : Error(ErrorKind::runtime, message) {}
};

// What tracing asks of the language that calls. Unset, it does without.
struct TraceHost {
  // Runs a function while other threads of the language go on.
  void (*unlocked)(const std::function<void()>& run) = nullptr;
  // Where the user's code is now; the text is kept for good. Null where that is unknown.
  const char* (*place)() = nullptr;
};
void set_trace_host(const TraceHost& host);
// Where the user's code is now, or null.
const char* caller_place();

// The ways that a function took with arguments of certain shapes and dtypes.
class TracedFunction {
 public:
  TracedFunction() = default;
  TracedFunction(const TracedFunction&) = delete;
  TracedFunction& operator=(const TracedFunction&) = delete;

  // Of more than these, those go that were used the longest ago.
  static constexpr std::size_t kMostWays = 16;
  // Of one way, beside one for each of its nodes: a call may look at a value after every op.
  static constexpr std::size_t kMostStretches = 16;

  // Nodes begin ... end - 1 of a way, run for the values in `live`, sorted.
  struct Stretch {
    std::size_t begin, end;
    std::vector<ValueId> live;
    std::vector<ValueId> ids;  // by id in the program, the one in the way
    SpecializingProgram program;
    Stretch(std::size_t from, std::size_t to, std::vector<ValueId> wanted,
            std::vector<ValueId> in_way, Graph part,
            const std::vector<SpecializingProgram::Seen>& seen)
        : begin(from),
          end(to),
          live(std::move(wanted)),
          ids(std::move(in_way)),
          program(std::move(part), seen) {}
  };
  struct Way {
    Graph graph;
    std::vector<SpecializingProgram::Seen> seen;  // of values from outside, as they were recorded
    std::vector<std::shared_ptr<const Stretch>> stretches;  // that ran, the last one first
  };
  // The last one that was taken comes first.
  std::vector<std::shared_ptr<Way>> ways() const;
  std::vector<std::shared_ptr<const Stretch>> stretches() const;

 private:
  friend class TraceSession;
  std::shared_ptr<Way> last_way() const;
  std::shared_ptr<const Stretch> stretch(Way& way, std::size_t begin, std::size_t end,
                                         std::vector<ValueId> live);
  void was_taken(const std::shared_ptr<Way>& way);

  mutable std::mutex lock_;  // of the lists: calls on several threads share them
  std::vector<std::shared_ptr<Way>> ways_;
};

// What a function did, by a text that says which shapes and dtypes its arguments have.
class TracedFunctions {
 public:
  // Of more than these, those go that were used the longest ago.
  static constexpr std::size_t kMost = 64;

  // Makes a new one where there is none.
  std::shared_ptr<TracedFunction> find(const std::string& signature);
  // The last one that was used comes first.
  std::vector<std::shared_ptr<TracedFunction>> all() const;
  void clear();

 private:
  struct Entry {
    std::string signature;
    std::shared_ptr<TracedFunction> function;
  };
  mutable std::mutex lock_;
  std::list<Entry> entries_;  // the last one that was used comes first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_signature_;
};

// One call of a traced function on this thread.
class TraceSession {
 public:
  // `profile`, if there is one, is told of each op that runs.
  explicit TraceSession(TracedFunction& function, Profile* profile = nullptr);
  ~TraceSession();
  TraceSession(const TraceSession&) = delete;
  TraceSession& operator=(const TraceSession&) = delete;

  // The one of this thread, also while exclude_from_trace() suspends it; null outside of calls.
  static TraceSession* current();

  // What execute() does while the session is on.
  Values execute(const OpRef& op, Values& inputs);
  // Runs what is pending.
  void flush();
  // Runs what is pending, keeps the record and ends the session. After an exception in the user's
  // code, `keep` is false: a record that ends in the middle is worth nothing.
  void finish(bool keep);
  bool made(const ValueImpl& v) const { return v.trace.tape == serial_; }

  // What the caller gives to the function: may be another value in each call, and nothing is made
  // of its being the same. To be told before the first op.
  void add_argument(const Value& v) { arguments_.push_back(v.impl()); }

  // For whoever wants the record of this call itself (dump, export): from now on the values from
  // outside are kept, by id.
  void keep_externals() { keep_externals_ = true; }
  const std::vector<Value>& externals() const { return externals_; }
  // Python has seen the contents of a value: what it did with them is not in the record.
  void note_read(const Value& v);
  // The values that it has seen, if the record is wanted.
  const std::vector<ValueId>& reads() const { return reads_; }
  // The id of a value in the record of this call; one that the call has not met comes from outside.
  ValueId bind(const Value& v);
  // The id of a value that the record has met, or kNoValue.
  ValueId id_in_record(const Value& v) const;
  // The record so far, of a call that is recorded.
  const Graph& graph() const;

 private:
  enum class Mode { replay, record, over };

  Values run_now(const OpRef& op, Values& inputs);
  ValueId id_of(const Value& v) const;
  ValueId bind_new(const Value& v);
  Values record(const OpRef& op, Values& inputs);
  void add_node(const OpRef& op, SmallVector<ValueId, 4> in, Values& outputs);
  bool matches(const OpRef& op, const Values& inputs);
  bool step_onto_other_way(const OpRef& op, const Values& inputs);
  Values replay(const OpRef& op, Values& inputs);
  void leave_the_record();

  TracedFunction& function_;
  Profile* profile_;
  Mode mode_;
  std::uint64_t serial_;
  std::shared_ptr<TracedFunction::Way> way_;       // that is replayed
  std::shared_ptr<TracedFunction::Way> recorded_;  // the new one
  std::size_t next_ = 0;                           // the node that is expected
  std::size_t begin_ = 0;                          // the first one that has not run
  std::vector<Value> env_;   // by id: what the stretch from begin_ on takes and makes
  std::vector<bool> bound_;  // by id: an external value that this call has brought
  std::vector<const ValueImpl*> arguments_;
  bool keep_externals_ = false;
  std::vector<Value> externals_;
  std::vector<ValueId> reads_;
};

}  // namespace mge
