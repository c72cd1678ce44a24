// A graph, ready to run: optimized, and with every value let go after its last use.
#pragma once

#include <memory>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/profile.h"
#include "core/runtime/memory_plan.h"

namespace mge {

class Program {
 public:
  explicit Program(Graph graph);

  // The outputs of the graph, in order. `env` holds by id what comes from outside; it is emptied as
  // values are used for the last time, so that a buffer which only `env` holds may be written in
  // place. Where an op raises, `env` is left with what was there before that op. `profile`, if
  // there is one, is told of each op.
  std::vector<Value> run(std::vector<Value>& env, Profile* profile = nullptr) const;
  // What runs.
  const Graph& graph() const { return graph_; }
  // Whether it has so much to do that other threads should go on meanwhile.
  bool is_long() const { return long_; }

 private:
  // A part of what a Concat gives, which its maker writes in place.
  struct Part {
    ValueId whole = kNoValue;
    std::int64_t offset = 0;  // elements
  };
  struct Plan {                   // of a node
    SmallVector<bool, 4> last;    // this is the last use of input i, and it is ours to let go
    SmallVector<bool, 4> mine;    // likewise, and the node has it once
    SmallVector<bool, 4> unused;  // nothing uses output i
    // Its outputs, where the op runs its kernel for inputs as they are expected.
    Specs out;
    SmallVector<Part, 3> into;  // where they are written; empty if each has a buffer of its own
  };
  // The Concats that have parts already, and their buffers.
  using Wholes = std::vector<std::pair<ValueId, Value>>;

  void plan_kernels();
  void plan_parts();
  const Value& get(const std::vector<Value>& env, ValueId id) const {
    const Value& constant = graph_.values[id].constant;
    return constant ? constant : env[id];
  }
  bool as_expected(const std::vector<Value>& env, std::span<const ValueId> ids) const;
  Values run_node(std::size_t n, std::vector<Value>& env, Wholes& wholes, bool planned,
                  Profile* profile) const;
  Values run_kernel(std::size_t n, std::vector<Value>& env, Wholes& wholes) const;
  Values run_op(std::size_t n, std::vector<Value>& env) const;

  Graph graph_;
  std::vector<Plan> plan_;
  std::vector<Spec> expected_;    // by id
  std::vector<ValueId> outside_;  // that nodes take and which are no constants
  bool long_ = false;
  std::unique_ptr<MemoryPlan> memory_ = std::make_unique<MemoryPlan>();
};

}  // namespace mge
