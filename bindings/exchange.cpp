// Sharing memory with other libraries: the buffer protocol and DLPack. What is handed out is
// read-only, since values are immutable; who cannot be told so gets a copy.
#include "bindings/exchange.h"

#include <nanobind/stl/optional.h>

#include <array>
#include <cstring>
#include <memory>
#include <type_traits>

#include "core/graph/trace.h"
#include "core/kernels/cpu/copy.h"
#include "core/tensor/borrowed.h"

namespace mge::py {
namespace {

// The value of a Tensor, with its contents there.
Value contents_of(PyObject* tensor) {
  Value v = value_of("__dlpack__", tensor);  // another thread may rebind the slot meanwhile
  if (TraceSession* session = TraceSession::current()) session->note_read(v);
  v.view();
  return v;
}

Value copied(const Value& v) {
  Value out = Value::empty(v.dtype(), v.shape(), v.device());
  if (v.size() > 0) cpu::copy(v.view(), out.mut());
  return out;
}

[[noreturn]] void fail_buffer(const std::string& message) {
  PyErr_SetString(PyExc_BufferError, message.c_str());
  throw nb::python_error();
}

// ---- the buffer protocol
// ----------------------------------------------------------------------------------------------

const char* format_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return "f";
    case DType::float64:
      return "d";
    case DType::float16:
      return "e";
    case DType::int8:
      return "b";
    case DType::uint8:
      return "B";
    case DType::int16:
      return "h";
    case DType::uint16:
      return "H";
    case DType::int32:
      return "i";
    case DType::uint32:
      return "I";
    case DType::int64:
      return "q";
    case DType::uint64:
      return "Q";
    case DType::boolean:
      return "?";
    case DType::complex64:
      return "Zf";
    case DType::complex128:
      return "Zd";
    case DType::bfloat16:
      break;
  }
  return nullptr;
}

// What a Py_buffer points to.
struct Exported {
  Value value;
  std::array<Py_ssize_t, kMaxDims> shape{};
  std::array<Py_ssize_t, kMaxDims> strides{};  // in bytes
};

bool column_major(const Value& v) {
  std::int64_t want = 1;
  for (int i = 0; i < v.ndim(); ++i) {
    if (v.shape()[i] != 1 && v.strides()[i] != want) return false;
    want *= v.shape()[i];
  }
  return true;
}

void fill_buffer(PyObject* self, Py_buffer* view, int flags) {
  if (flags & PyBUF_WRITABLE) fail_buffer("memoryview: a Tensor's memory is read-only");
  const Value v = contents_of(self);
  const char* format = format_of(v.dtype());
  if (!format) {
    fail_buffer(std::string("memoryview: the buffer protocol has no name for ") + name(v.dtype()) +
                "; use Tensor.numpy() or DLPack");
  }
  const bool rows = v.size() == 0 || v.row_major();
  const bool columns = v.size() == 0 || column_major(v);
  const auto asks = [&](int what) { return (flags & what) == what; };
  const bool fits = asks(PyBUF_ANY_CONTIGUOUS) ? rows || columns
                    : asks(PyBUF_C_CONTIGUOUS) ? rows
                    : asks(PyBUF_F_CONTIGUOUS) ? columns
                                               : asks(PyBUF_STRIDES) || rows;
  if (!fits) fail_buffer("memoryview: the Tensor is not contiguous in the order that is asked for");
  auto out = std::make_unique<Exported>();
  const auto item = static_cast<Py_ssize_t>(size_of(v.dtype()));
  for (int i = 0; i < v.ndim(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    out->shape[at] = v.shape()[i];
    out->strides[at] = v.strides()[i] * item;
  }
  out->value = v;
  view->buf = const_cast<void*>(v.view().data);
  view->len = v.size() * item;
  view->itemsize = item;
  view->readonly = 1;
  view->format = asks(PyBUF_FORMAT) ? const_cast<char*>(format) : nullptr;
  view->ndim = v.ndim();
  view->shape = asks(PyBUF_ND) ? out->shape.data() : nullptr;
  view->strides = asks(PyBUF_STRIDES) ? out->strides.data() : nullptr;
  view->suboffsets = nullptr;
  view->internal = out.release();
  Py_INCREF(self);
  view->obj = self;
}

// ---- DLPack: its structs, by the public standard
// ----------------------------------------------------------------------------------------------

struct DLDevice {
  std::int32_t type;
  std::int32_t id;
};
constexpr std::int32_t kCpu = 1;

struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
enum Code : std::uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};

struct Managed {  // before version 1.0
  DLTensor tensor;
  void* context;
  void (*deleter)(Managed*);
  static constexpr const char* kName = "dltensor";
  static constexpr const char* kUsed = "used_dltensor";
};

struct ManagedVersioned {
  std::uint32_t major, minor;
  void* context;
  void (*deleter)(ManagedVersioned*);
  std::uint64_t flags;
  DLTensor tensor;
  static constexpr const char* kName = "dltensor_versioned";
  static constexpr const char* kUsed = "used_dltensor_versioned";
};
constexpr std::uint64_t kReadOnly = 1, kCopied = 2;

DLDataType type_to_dlpack(DType dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * size_of(dtype));
  if (dtype == DType::bfloat16) return {kBfloat, bits, 1};
  switch (info(dtype).kind) {
    case DTypeClass::boolean:
      return {kBool, bits, 1};
    case DTypeClass::floating:
      return {kFloat, bits, 1};
    case DTypeClass::complex:
      return {kComplex, bits, 1};
    case DTypeClass::integer:
      break;
  }
  return {info(dtype).is_signed ? kInt : kUInt, bits, 1};
}

DType type_from_dlpack(const DLDataType& type) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const DLDataType ours = type_to_dlpack(dtype);
    if (ours.code == type.code && ours.bits == type.bits && type.lanes == 1) return dtype;
  }
  static constexpr std::array kKinds{"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  const std::string kind = type.code < kKinds.size() ? kKinds[type.code] : str("code ", type.code);
  fail_buffer(str("from_dlpack: expected a dtype that Tensors have, got ", kind, int{type.bits},
                  type.lanes == 1 ? "" : " in vectors", "; cast it in the library it comes from"));
}

// ---- giving
// ----------------------------------------------------------------------------------------------

// What a capsule points to, with all that it needs to live.
template <class M>
struct Given {
  M managed{};
  Value value;
  std::array<std::int64_t, kMaxDims> shape{};
  std::array<std::int64_t, kMaxDims> strides{};
};

template <class M>
nb::object give(Value v, std::uint64_t flags) {
  auto given = std::make_unique<Given<M>>();
  for (int i = 0; i < v.ndim(); ++i) {
    given->shape[static_cast<std::size_t>(i)] = v.shape()[i];
    given->strides[static_cast<std::size_t>(i)] = v.strides()[i];
  }
  M& m = given->managed;
  m.tensor = {const_cast<void*>(v.view().data),
              {kCpu, 0},
              v.ndim(),
              type_to_dlpack(v.dtype()),
              given->shape.data(),
              given->strides.data(),
              0};
  m.context = given.get();
  m.deleter = [](M* self) { delete static_cast<Given<M>*>(self->context); };
  if constexpr (std::is_same_v<M, ManagedVersioned>) {
    m.major = 1;
    m.minor = 0;
    m.flags = flags;
  }
  given->value = std::move(v);
  // A consumer renames the capsule and calls the deleter itself; one that nobody consumed does it.
  PyObject* capsule = PyCapsule_New(&m, M::kName, [](PyObject* o) {
    if (!PyCapsule_IsValid(o, M::kName)) return;
    auto* left = static_cast<M*>(PyCapsule_GetPointer(o, M::kName));
    left->deleter(left);
  });
  if (!capsule) throw nb::python_error();
  given.release();
  return nb::steal(capsule);
}

nb::object to_dlpack(nb::handle tensor, bool versioned, std::optional<bool> copy) {
  Value v = contents_of(tensor.ptr());
  if (!versioned && copy == false) {
    fail_buffer(
        "__dlpack__: a Tensor's memory is read-only, which capsules before DLPack 1.0 cannot say; "
        "ask for max_version=(1, 0), or allow a copy");
  }
  // PyTorch takes no axes that run backwards.
  bool reversed = false;
  for (const std::int64_t stride : v.strides()) reversed |= stride < 0;
  const bool copies = copy.value_or(!versioned || reversed);
  if (copies) v = copied(v);
  // A copy is the consumer's own, which it may write to.
  return versioned ? give<ManagedVersioned>(std::move(v), copies ? kCopied : kReadOnly)
                   : give<Managed>(std::move(v), 0);
}

// ---- taking
// ----------------------------------------------------------------------------------------------

// Calls the producer's deleter on whatever thread the last value goes.
template <class M>
void give_back(M* m) {
  if (!m->deleter) return;
  if (!Py_IsInitialized()) return;  // what the producer kept is gone with the interpreter
  const nb::gil_scoped_acquire gil;
  m->deleter(m);
}

template <class M>
nb::object take(PyObject* capsule, const Device& device, std::optional<bool> copy) {
  auto* m = static_cast<M*>(PyCapsule_GetPointer(capsule, M::kName));
  if (!m) throw nb::python_error();
  if constexpr (std::is_same_v<M, ManagedVersioned>) {
    if (m->major != 1) {
      fail_buffer(str("from_dlpack: expected DLPack 1, got version ", m->major, ".", m->minor));
    }
  }
  const DLTensor& t = m->tensor;
  // Pinned memory of an accelerator (3) can be read by the CPU as well.
  if (t.device.type != kCpu && t.device.type != 3) {
    fail_buffer(str("from_dlpack: expected memory of the CPU, got device type ", t.device.type,
                    "; move it to the CPU first"));
  }
  Spec spec;
  spec.dtype = type_from_dlpack(t.dtype);
  spec.device = device;
  for (int i = 0; i < t.ndim; ++i) spec.shape.push_back(t.shape[i]);
  if (t.strides) {
    for (int i = 0; i < t.ndim; ++i) spec.strides.push_back(t.strides[i]);
  } else {
    spec.strides = row_major(spec.shape);
  }
  const auto* data = static_cast<const char*>(t.data) + t.byte_offset;
  const std::int64_t align = is_complex(spec.dtype) ? size_of(spec.dtype) / 2 : size_of(spec.dtype);
  const bool aligned = reinterpret_cast<std::uintptr_t>(data) % align == 0;
  if (!aligned && copy == false) {
    fail_buffer("from_dlpack: the memory is not aligned to its elements; allow a copy");
  }
  Value v;
  if (spec.size() == 0) {
    v = Value::empty(spec.dtype, spec.shape, device);
  } else if (copy == true || !aligned) {
    v = Value::empty(spec.dtype, spec.shape, device);
    if (aligned) {
      cpu::copy(View{data, spec.dtype, spec.shape, spec.strides}, v.mut());
    } else {
      // Kernels read whole elements: each one byte by byte.
      const auto item = static_cast<std::size_t>(size_of(spec.dtype));
      auto* to = static_cast<char*>(v.mut().data);
      for (std::int64_t i = 0, n = spec.size(); i < n; ++i) {
        std::int64_t rest = i, at = 0;
        for (int axis = t.ndim - 1; axis >= 0; --axis) {
          at += rest % spec.shape[axis] * spec.strides[axis];
          rest /= spec.shape[axis];
        }
        std::memcpy(to + static_cast<std::size_t>(i) * item,
                    data + at * static_cast<std::int64_t>(item), item);
      }
    }
  } else {
    v = borrow(spec, data, [m] { give_back(m); });
    if (PyCapsule_SetName(capsule, M::kUsed) != 0) PyErr_Clear();
    return wrapped(std::move(v));
  }
  if (PyCapsule_SetName(capsule, M::kUsed) != 0) PyErr_Clear();
  give_back(m);
  return wrapped(std::move(v));
}

nb::object from_dlpack(nb::handle capsule, nb::handle device, std::optional<bool> copy) {
  PyObject* o = capsule.ptr();
  if (!PyCapsule_CheckExact(o)) {
    fail_type("from_dlpack", "expected a DLPack capsule, got ", Py_TYPE(o)->tp_name);
  }
  const Device place = device_from_python(device.ptr());
  if (PyCapsule_IsValid(o, ManagedVersioned::kName)) return take<ManagedVersioned>(o, place, copy);
  if (PyCapsule_IsValid(o, Managed::kName)) return take<Managed>(o, place, copy);
  const char* name = PyCapsule_GetName(o);
  if (!name) PyErr_Clear();
  fail_value("from_dlpack",
             "expected a DLPack capsule that nobody has consumed yet, got one named '",
             name ? name : "", "'");
}

// A row-major Tensor whose contents are still to be written, and its memory to write them to. For
// the front end's collectives: once anybody else has seen the Tensor, nothing may write there.
nb::tuple unwritten(nb::handle shape, nb::handle dtype, nb::handle device) {
  Value v = Value::empty(dtype_from_python(dtype.ptr()), dims_from_python("unwritten", shape.ptr()),
                         device_from_python(device.ptr()));
  const std::int64_t bytes = v.size() * static_cast<std::int64_t>(size_of(v.dtype()));
  static char none = 0;
  char* data = bytes == 0 ? &none : static_cast<char*>(v.mut().data);
  nb::object memory = nb::steal(PyMemoryView_FromMemory(data, bytes, PyBUF_WRITE));
  if (!memory.ptr()) throw nb::python_error();
  return nb::make_tuple(wrapped(std::move(v)), memory);
}

}  // namespace

int tensor_get_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  return guarded(-1, [&] {
    fill_buffer(self, view, flags);
    return 0;
  });
}

void tensor_release_buffer(PyObject*, Py_buffer* view) {
  delete static_cast<Exported*>(view->internal);
}

void bind_exchange(nb::module_& m) {
  m.def("to_dlpack", to_dlpack, nb::arg("tensor"), nb::arg("versioned"),
        nb::arg("copy") = nb::none(), "A DLPack capsule of a Tensor.");
  m.def("from_dlpack", from_dlpack, nb::arg("capsule"), nb::arg("device") = nb::none(),
        nb::arg("copy") = nb::none(), "A Tensor from a DLPack capsule, which is consumed.");
  m.def("unwritten", unwritten, nb::arg("shape"), nb::arg("dtype"), nb::arg("device") = nb::none(),
        "A Tensor without contents yet, and a writable memoryview of its bytes.");
}

}  // namespace mge::py
