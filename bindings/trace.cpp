// Traced calls (core/graph).
#include "core/graph/trace.h"

#include <cstring>
#include <memory>
#include <optional>
#include <unordered_set>

#include "bindings/sizes.h"
#include "bindings/tensor.h"
#include "core/dispatch/dispatch.h"

namespace mge::py {
namespace {

// ---- what tracing asks of Python
// -----------------------------------------------------------------------------------

void run_unlocked(const std::function<void()>& run) {
  if (!PyGILState_Check()) return run();
  nb::gil_scoped_release release;
  run();
}

// Whether a frame is one of this library's own.
bool is_ours(PyFrameObject* frame) {
  const nb::object globals = nb::steal(PyFrame_GetGlobals(frame));
  PyObject* name = PyDict_GetItemString(globals.ptr(), "__name__");
  const char* text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  if (!text) {
    PyErr_Clear();
    return false;
  }
  constexpr std::string_view package = "megengine";
  const std::string_view module = text;
  return module.starts_with(package) &&
         (module.size() == package.size() || module[package.size()] == '.');
}

// "file.py:12" of the innermost frame that is not ours.
const char* user_place() {
  if (!PyGILState_Check()) return nullptr;
  auto frame = nb::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame.is_valid() && is_ours(reinterpret_cast<PyFrameObject*>(frame.ptr()))) {
    frame = nb::steal(reinterpret_cast<PyObject*>(
        PyFrame_GetBack(reinterpret_cast<PyFrameObject*>(frame.ptr()))));
  }
  if (!frame.is_valid()) return nullptr;
  auto* f = reinterpret_cast<PyFrameObject*>(frame.ptr());
  const nb::object code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(f)));
  const char* file = PyUnicode_AsUTF8(reinterpret_cast<PyCodeObject*>(code.ptr())->co_filename);
  if (!file) {
    PyErr_Clear();
    return nullptr;
  }
  static auto* texts = new std::unordered_set<std::string>;  // there are as many as lines of code
  return texts->insert(str(file, ":", PyFrame_GetLineNumber(f))).first->c_str();
}

// ---- the arguments of a call
// -----------------------------------------------------------------------------------

// Lists that hold themselves end in a RecursionError.
class Deeper {
 public:
  Deeper() {
    if (Py_EnterRecursiveCall(" in the arguments of a traced function")) throw nb::python_error();
  }
  ~Deeper() { Py_LeaveRecursiveCall(); }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;
};

void append_number(std::string& out, std::int64_t n) {
  out.append(reinterpret_cast<const char*>(&n), sizeof n);
}

// Shapes and dtypes of the Tensors and arrays in an argument, as a text that differs where they do.
void append_signature(std::string& out, PyObject* o) {
  if (is_tensor(o)) {
    const Spec& spec = tensor_of(o).value.spec();
    out += 'T';
    out += static_cast<char>(spec.dtype);
    out += static_cast<char>(spec.ndim());
    for (const std::int64_t n : spec.shape) append_number(out, n);
  } else if (PyTuple_Check(o) || PyList_Check(o)) {
    const Deeper deeper;
    out += '(';
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
      append_signature(out, PySequence_Fast_GET_ITEM(o, i));
    }
    out += ')';
  } else if (PyDict_Check(o)) {
    const Deeper deeper;
    out += '{';
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(o, &at, &key, &value);) {
      Py_ssize_t size = 0;
      const char* text = PyUnicode_Check(key) ? PyUnicode_AsUTF8AndSize(key, &size) : nullptr;
      if (!text) PyErr_Clear();
      append_number(out, size);
      out.append(text ? text : "", static_cast<std::size_t>(size));
      append_signature(out, value);
    }
    out += '}';
  } else if (std::strcmp(Py_TYPE(o)->tp_name, "numpy.ndarray") == 0) {
    const nb::handle array(o);
    out += 'A';
    out += nb::cast<std::string>(array.attr("dtype").attr("str"));
    const nb::tuple shape = array.attr("shape");
    append_number(out, static_cast<std::int64_t>(shape.size()));
    for (nb::handle n : shape) append_number(out, nb::cast<std::int64_t>(n));
  } else {
    out += '.';  // what it holds decides which way the code takes
  }
}

// Tells the session of the Tensors in what the function is called with.
void add_arguments(TraceSession& session, PyObject* o) {
  if (is_tensor(o)) {
    session.add_argument(tensor_of(o).value);
  } else if (PyTuple_Check(o) || PyList_Check(o)) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
      add_arguments(session, PySequence_Fast_GET_ITEM(o, i));
    }
  } else if (PyDict_Check(o)) {
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(o, &at, &key, &value);) add_arguments(session, value);
  }
}

// ---- times
// -----------------------------------------------------------------------------------

nb::list with_types(const Specs& specs) {
  nb::list list;
  for (const Spec& s : specs) {
    list.append(nb::make_tuple(dtype_to_python(s.dtype), nb::steal(shape_to_python(s.shape))));
  }
  return list;
}

nb::object samples_of(const Profile& profile) {
  nb::list out;
  for (const Profile::Sample& s : profile.samples()) {
    out.append(nb::make_tuple(op_to_python(s.op), fields_to_python(*s.op), s.op->name(),
                              with_types(s.in), with_types(s.out), s.start, s.end, s.thread,
                              s.allocated, s.place ? nb::cast(s.place) : nb::none()));
  }
  return out;
}

// ---- calls
// -----------------------------------------------------------------------------------

// Runs a function's calls, and keeps what was recorded of them.
class Tracer {
 public:
  Tracer(bool record_only, bool profiling) : record_only_(record_only) {
    if (profiling) profile_ = std::make_unique<Profile>();
  }

  nb::object call(nb::handle function, const nb::tuple& args, const nb::dict& kwargs) {
    if (TraceSession::current()) return called(function, args, kwargs);  // a part of that one
    std::string signature;
    signature.reserve(256);
    append_signature(signature, args.ptr());
    append_signature(signature, kwargs.ptr());
    if (record_only_) functions_.clear();
    const std::shared_ptr<TracedFunction> traced = functions_.find(signature);
    TraceSession session(*traced, profile_.get());
    add_arguments(session, args.ptr());
    add_arguments(session, kwargs.ptr());
    nb::object result;
    try {
      result = called(function, args, kwargs);
    } catch (nb::python_error& error) {
      finish_after(session, error);
      throw;
    }
    session.finish(true);
    return result;
  }

  std::vector<std::shared_ptr<TracedFunction::Way>> ways() const {
    std::vector<std::shared_ptr<TracedFunction::Way>> out;
    for (const auto& function : functions_.all()) {
      for (auto& way : function->ways()) out.push_back(std::move(way));
    }
    return out;
  }
  nb::list texts() const {
    nb::list out;
    for (const auto& way : ways()) out.append(way->graph.text());
    return out;
  }
  nb::list programs() const {
    nb::list out;
    for (const auto& function : functions_.all()) {
      for (const auto& stretch : function->stretches()) out.append(stretch->program.graph());
    }
    return out;
  }
  nb::object last_graph() const {
    const auto all = ways();
    return all.empty() ? nb::none() : nb::cast(all.front()->graph);
  }
  nb::object samples() const { return profile_ ? samples_of(*profile_) : nb::none(); }

 private:
  static nb::object called(nb::handle function, const nb::tuple& args, const nb::dict& kwargs) {
    PyObject* result = PyObject_Call(function.ptr(), args.ptr(), kwargs.ptr());
    if (!result) throw nb::python_error();
    return nb::steal(result);
  }
  // After an exception in the user's code. What an op raises now comes from an earlier line: it is
  // what the plain function would have raised, and takes the place of the other one.
  static void finish_after(TraceSession& session, nb::python_error& error) {
    try {
      session.finish(false);
    } catch (...) {
      set_python_error();
      nb::python_error earlier;
      PyException_SetContext(earlier.value().ptr(), nb::borrow(error.value()).release().ptr());
      throw earlier;
    }
  }

  bool record_only_;
  std::unique_ptr<Profile> profile_;
  TracedFunctions functions_;
};

// What makes the shapes that Python sees on this thread, see TracedCall::follow_sizes; or null.
thread_local PyObject* maker_of_sizes = nullptr;

// A call that is recorded for its graph: `with traced_call(function): ...`.
class TracedCall {
 public:
  explicit TracedCall(TracedFunction& function) : function_(function) {}
  void enter() {
    if (session_) throw TraceError("trace: this call has begun already");
    session_.emplace(function_);
  }
  void exit(bool failed) {
    if (!session_) return;
    struct Drop {
      TracedCall& call;
      ~Drop() {
        call.session_.reset();
        if (!call.maker_.is_valid()) return;
        maker_of_sizes = nullptr;
        sizes_followed.fetch_sub(1, std::memory_order_relaxed);
        call.maker_.reset();
      }
    } drop{*this};
    session_->finish(!failed);
  }
  void follow_sizes(nb::object maker) {
    session();
    if (maker_.is_valid()) throw TraceError("trace: sizes of this call are followed already");
    maker_ = std::move(maker);
    maker_of_sizes = maker_.ptr();
    sizes_followed.fetch_add(1, std::memory_order_relaxed);
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
  nb::tuple reads() {
    nb::list out;
    for (const ValueId id : session().reads()) out.append(id);
    return nb::tuple(out);
  }
  ValueId bind(nb::handle tensor) { return session().bind(value_of("trace", tensor.ptr())); }
  Graph graph() { return session().graph(); }

 private:
  TraceSession& session() {
    if (!session_) throw TraceError("trace: this call is over, or has not begun");
    return *session_;
  }

  TracedFunction& function_;
  std::optional<TraceSession> session_;
  nb::object maker_;
};

// Ops run as they are called while one of these is entered; what is pending runs before them.
class TracePause {
 public:
  void enter() {
    flush_trace();
    std::swap(session_, dispatch_state().trace);
  }
  void exit() { std::swap(session_, dispatch_state().trace); }

 private:
  TraceSession* session_ = nullptr;
};

}  // namespace

std::atomic<int> sizes_followed{0};

PyObject* shape_followed(const Value& v) {
  const nb::object shape = nb::steal(shape_to_python(v.shape()));
  const TraceSession* session = TraceSession::current();
  const ValueId id = maker_of_sizes && session ? session->id_in_record(v) : kNoValue;
  if (id == kNoValue) return nb::object(shape).release().ptr();
  return nb::handle(maker_of_sizes)(id, shape, session->graph().values[id].external)
      .release()
      .ptr();
}

PyObject* size_followed(const Value& v) {
  const nb::object shape = nb::steal(shape_followed(v));
  return nb::module_::import_("math").attr("prod")(shape).release().ptr();
}

void bind_trace(nb::module_& m) {
  set_trace_host({run_unlocked, user_place});
  trace_error = PyErr_NewExceptionWithDoc(
      "megengine.jit.TraceError", "A call cannot be traced, or a value of one cannot be had.",
      PyExc_RuntimeError, nullptr);
  if (!trace_error) throw nb::python_error();
  m.attr("TraceError") = nb::handle(trace_error);
  nb::class_<TracedFunction>(m, "TracedFunction", "What a function did with such arguments.")
      .def(nb::init<>());
  nb::class_<Tracer>(m, "Tracer", "Runs a function's calls, and keeps what was recorded of them.")
      .def(nb::init<bool, bool>(), nb::arg("record_only"), nb::arg("profiling"))
      .def("call", &Tracer::call,
           "call(function, args, kwargs): function(*args, **kwargs), traced.")
      .def("texts", &Tracer::texts, "A text for each way that the function took.")
      .def("last_graph", &Tracer::last_graph, "What the last call did; None before the first.")
      .def("programs", &Tracer::programs, "The optimized graphs that calls have run.")
      .def("samples", &Tracer::samples,
           "Of the last call, for each op that ran: op, fields, kind, (dtype, shape) of inputs and "
           "of outputs, start and end in seconds, thread, bytes allocated, place. None without "
           "profiling.");
  nb::class_<TracedCall>(m, "TracedCall", "One call of a traced function, on this thread.")
      .def(nb::init<TracedFunction&>(), nb::keep_alive<1, 2>())
      .def("enter", &TracedCall::enter)
      .def("exit", &TracedCall::exit, nb::arg("failed"))
      .def("keep_externals", &TracedCall::keep_externals,
           "Keeps what comes from outside from now on; to be called before the first op.")
      .def("follow_sizes", &TracedCall::follow_sizes, nb::arg("maker"),
           "From now on Python sees maker(id, shape, external) for the shape of what the record "
           "has.")
      .def("externals", &TracedCall::externals, "Tensors from outside, by id.")
      .def("reads", &TracedCall::reads,
           "Ids of values whose contents Python has seen, where externals are kept.")
      .def("bind", &TracedCall::bind, nb::arg("tensor"),
           "The id of a Tensor in the record; one that the call has not met comes from outside.")
      .def("graph", &TracedCall::graph, "The record so far.");
  nb::class_<TracePause>(m, "TracePause", "Takes ops out of the traced call on this thread.")
      .def(nb::init<>())
      .def("enter", &TracePause::enter)
      .def("exit", &TracePause::exit);
  m.def(
      "profile_begin",
      [] {
        const auto began = Profile::everything().begin().time_since_epoch();
        Profile::note_everything(true);
        return std::chrono::duration<double>(began).count();
      },
      "Ops are noted from now on. The time on the clock of time.perf_counter().");
  m.def(
      "profile_end",
      [] {
        Profile::note_everything(false);
        return samples_of(Profile::everything());
      },
      "Ops are not noted any more. Those that were, as Tracer.samples() gives them.");
  m.def("thread_number", this_thread_number, "The number that this thread has in profiles.");
  m.def("is_tracing", [] { return TraceSession::current() != nullptr; });
}

}  // namespace mge::py
