#include "core/graph/verify.h"

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "core/dispatch/dispatch.h"
#include "core/graph/symbol.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

bool by_default() {
#if !defined(NDEBUG) || defined(__SANITIZE_ADDRESS__)
  return true;
#else
  const char* wish = std::getenv("MGE_VERIFY_GRAPHS");
  return wish && std::string_view(wish) != "0" && std::string_view(wish) != "";
#endif
}

std::atomic<bool>& flag() {
  static std::atomic<bool> on{by_default()};
  return on;
}

class Verifier {
 public:
  Verifier(const Graph& graph, ErrorKind kind, const char* after)
      : graph_(graph), kind_(kind), after_(after), there_(graph.values.size()) {}

  void run() {
    for (std::size_t id = 0; id < graph_.values.size(); ++id) {
      const Graph::Entry& entry = graph_.values[id];
      there_[id] = entry.external;
      if (!entry.constant) continue;
      if (!entry.external) wrong(nullptr, "%", id, " has contents and is not external");
      check_spec(nullptr, static_cast<ValueId>(id), entry.constant.spec());
    }
    for (const Graph::Node& node : graph_.nodes) check(node);
    for (const ValueId id : graph_.outputs) check_there(nullptr, id);
  }

 private:
  template <class... Parts>
  [[noreturn]] void wrong(const Graph::Node* node, const Parts&... parts) const {
    std::ostringstream out;
    out << "after " << after_ << ": ";
    if (node) {
      for (const ValueId id : node->out) out << '%' << id << ' ';
      out << "= " << (node->op ? node->op->text() : "no op") << ": ";
    }
    fail(kind_, "graph", out.str(), parts...);
  }

  void check_there(const Graph::Node* node, ValueId id) const {
    if (id >= graph_.values.size()) {
      wrong(node, "there is no %", id, " among ", graph_.values.size(), " values");
    }
    if (!there_[id]) wrong(node, "uses %", id, " before it is made");
  }

  void check_spec(const Graph::Node* node, ValueId id, const Spec& spec) const {
    const Spec& have = graph_.values[id].spec;
    if (have.dtype == spec.dtype && have.shape == spec.shape) return;
    wrong(node, "%", id, " is ", spec.dtype, ' ', spec.shape, ", and the graph says ", have.dtype,
          ' ', have.shape);
  }

  void check(const Graph::Node& node) {
    if (!node.op) wrong(&node, "expected an op");
    for (const ValueId id : node.in) check_there(&node, id);
    if (node.out.empty()) wrong(&node, "expected an output");
    for (const ValueId id : node.out) {
      if (id >= graph_.values.size()) {
        wrong(&node, "there is no %", id, " among ", graph_.values.size(), " values");
      }
      if (there_[id]) wrong(&node, "%", id, " is made twice, or comes from outside");
      there_[id] = true;
    }
    check_inferred(node);
  }

  // What depends on contents is known when it runs; complex inputs may take another way.
  void check_inferred(const Graph::Node& node) const {
    const OpType& type = *node.op->type;
    if (type.traits.by_contents) return;
    Specs in;
    for (const ValueId id : node.in) {
      const Spec& spec = graph_.values[id].spec;
      if (is_complex(spec.dtype) && !type.traits.complex) return;
      in.push_back(spec);
    }
    Specs out;
    try {
      if (type.infer) {
        out = type.infer(*node.op, in);
      } else if (is_view(node)) {
        out = viewed(node, in);
      }
    } catch (const Error& e) {
      wrong(&node, e.what());
    }
    if (out.empty()) return;  // contents say it
    if (out.size() != node.out.size()) {
      wrong(&node, "the op has ", out.size(), " outputs, and the graph ", node.out.size());
    }
    for (std::size_t i = 0; i < out.size(); ++i) check_spec(&node, node.out[i], out[i]);
  }

  // A view has no `infer` and costs nothing to run. Contiguous may copy; a second input is a shape.
  static bool is_view(const Graph::Node& node) {
    const OpType* type = node.op->type;
    return type->traits.fuse == Fuse::view && type != &op_type<Contiguous>() && node.in.size() == 1;
  }
  static Specs viewed(const Graph::Node& node, const Specs& in) {
    PauseGrad pause;
    Values operands{stand_in(in[0])};
    Specs out;
    for (const Value& v : execute_now(node.op, operands)) out.push_back(v.spec());
    return out;
  }

  const Graph& graph_;
  ErrorKind kind_;
  const char* after_;
  std::vector<bool> there_;  // by id: made, or from outside
};

}  // namespace

void verify(const Graph& graph, ErrorKind kind, const char* after) {
  Verifier(graph, kind, after).run();
}

bool verifies_passes() { return flag().load(std::memory_order_relaxed); }
void verify_passes(bool on) { flag().store(on, std::memory_order_relaxed); }

}  // namespace mge
