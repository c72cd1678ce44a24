// A program that notices which captured values (parameters, running statistics) are the very same
// in call after call, and then runs as if they were constants of its graph: what depends on them
// alone is computed once, batch norm becomes part of the weights before it. It goes back to the
// general program in the first call that brings another value. Numbers, which Python makes anew in
// each call, are the same where they are equal.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "core/graph/program.h"

namespace mge {

class SpecializingProgram {
 public:
  // What is remembered of a value without holding it: which it was, or the bits of a number.
  struct Seen {
    const ValueImpl* value = nullptr;
    std::uint64_t number = 0;
    friend bool operator==(const Seen&, const Seen&) = default;
  };
  static Seen seen(const Value& v);

  // `recorded` is what the captured values were in the call that the graph records, by id; empty if
  // that is not known.
  explicit SpecializingProgram(Graph graph, const std::vector<Seen>& recorded = {});

  // As Program::run.
  std::vector<Value> run(std::vector<Value>& env, Profile* profile = nullptr) const;
  bool is_long() const { return general_.is_long(); }
  // What runs for values that change.
  const Graph& graph() const { return general_.graph(); }

 private:
  static constexpr std::uint64_t kFirstPatience = 2;

  // The program for certain values, which it holds: they stay what they are for as long.
  struct Special {
    std::vector<ValueId> ids;
    std::vector<Value> values;  // of these ids
    Program program;
  };

  std::shared_ptr<const Special> special_for(const std::vector<Value>& env) const;
  std::shared_ptr<const Special> specialize(const std::vector<Value>& env) const;

  Graph graph_;  // as it was recorded
  Program general_;
  std::vector<ValueId> captured_;  // that the graph uses

  // Calls on several threads share what follows.
  mutable std::mutex lock_;
  mutable std::vector<Seen> last_;           // of captured_, in the call before
  mutable std::vector<std::uint64_t> same_;  // calls in which it was what it had been before
  mutable std::uint64_t calls_ = 0;          // since the last change
  mutable std::uint64_t next_try_ = kFirstPatience;
  mutable std::uint64_t patience_ = kFirstPatience;  // calls in which a value has to be the same
  mutable std::shared_ptr<const Special> special_;
};

}  // namespace mge
