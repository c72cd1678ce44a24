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

 private:
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
      .def("exit", &TracedCall::exit, nb::arg("failed"));
  nb::class_<TracePause>(m, "TracePause", "Takes ops out of the traced call on this thread.")
      .def(nb::init<>())
      .def("enter", &TracePause::enter)
      .def("exit", &TracePause::exit);
  m.def("is_tracing", [] { return dispatch_state().trace != nullptr; });
}

}  // namespace mge::py
