// Traced calls (core/graph).
#include "core/graph/trace.h"

#include <memory>
#include <optional>

#include "bindings/tensor.h"
#include "core/dispatch/dispatch.h"

namespace mge::py {
namespace {

// What a traced call is in while its function runs: `with traced_call(function): ...`.
class TracedCall {
 public:
  explicit TracedCall(TracedFunction& function) : function_(function) {}
  void enter() {
    if (session_) fail_runtime("trace", "this call has begun already");
    if (dispatch_state().trace) fail_runtime("trace", "a traced call runs on this thread already");
    session_.emplace(function_);
  }
  void exit(bool failed) {
    if (!session_) return;
    struct Drop {
      std::optional<TraceSession>& session;
      ~Drop() { session.reset(); }
    } drop{session_};
    nb::gil_scoped_release release;
    session_->finish(!failed);
  }
  void keep_externals() { session().keep_externals(); }
  nb::dict externals() {
    nb::dict out;
    const std::vector<Value>& values = session().externals();
    for (std::size_t id = 0; id < values.size(); ++id) {
      if (values[id]) out[nb::int_(id)] = wrapped(values[id]);
    }
    return out;
  }
  ValueId bind(nb::handle tensor) { return session().bind(value_of("trace", tensor.ptr())); }
  Graph graph() { return session().graph(); }

 private:
  TraceSession& session() {
    if (!session_) fail_runtime("trace", "this call is over, or has not begun");
    return *session_;
  }

  TracedFunction& function_;
  std::optional<TraceSession> session_;
};

// Ops run as they are called while one of these is entered.
class TracePause {
 public:
  void enter() { std::swap(session_, dispatch_state().trace); }
  void exit() { std::swap(session_, dispatch_state().trace); }

 private:
  TraceSession* session_ = nullptr;
};

}  // namespace

void bind_trace(nb::module_& m) {
  nb::class_<TracedFunction>(m, "TracedFunction", "What a function did with such arguments.")
      .def(nb::init<>())
      .def(
          "graphs",
          [](const TracedFunction& f) {
            nb::list out;
            for (const auto* way : f.ways()) out.append(way->graph.text());
            return out;
          },
          "A text for each way that the function took.");
  nb::class_<TracedCall>(m, "TracedCall", "One call of a traced function, on this thread.")
      .def(nb::init<TracedFunction&>(), nb::keep_alive<1, 2>())
      .def("enter", &TracedCall::enter)
      .def("exit", &TracedCall::exit, nb::arg("failed"))
      .def("keep_externals", &TracedCall::keep_externals,
           "Keeps what comes from outside from now on; to be called before the first op.")
      .def("externals", &TracedCall::externals, "Tensors from outside, by id.")
      .def("bind", &TracedCall::bind, nb::arg("tensor"),
           "The id of a Tensor in the record; one that the call has not met comes from outside.")
      .def("graph", &TracedCall::graph, "The record so far.");
  nb::class_<TracePause>(m, "TracePause", "Takes ops out of the traced call on this thread.")
      .def(nb::init<>())
      .def("enter", &TracePause::enter)
      .def("exit", &TracePause::exit);
  m.def("is_tracing", [] { return dispatch_state().trace != nullptr; });
}

}  // namespace mge::py
