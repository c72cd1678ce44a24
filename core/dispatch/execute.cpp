#include <algorithm>
#include <limits>

#include "core/dispatch/dispatch.h"
#include "core/dispatch/kernel.h"
#include "core/graph/profile.h"
#include "core/graph/symbol.h"
#include "core/graph/trace.h"

namespace mge {
namespace {

void check_devices(const Op& op, const Values& inputs) {
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    if (!inputs[i].device().same_place(inputs[0].device())) {
      fail_runtime(op.name(), "expected inputs on one device, got ",
                   inputs[0].device().logical_name(), " and ", inputs[i].device().logical_name());
    }
  }
}

// The input whose buffer the output of an elementwise op may take over: nobody else holds it.
const Value* reusable(std::span<const Value* const> inputs, std::span<const bool> mine,
                      const Spec& want) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Value& v = *inputs[i];
    if (mine[i] && v.dtype() == want.dtype && v.shape() == want.shape &&
        v.strides() == want.strides && v.unique()) {
      return &v;
    }
  }
  return nullptr;
}

struct Buffer {
  Ref<Storage> storage;
  void* data = nullptr;
};

Buffer new_buffer(const Spec& spec) {
  std::size_t bytes;
  if (__builtin_mul_overflow(static_cast<std::size_t>(spec.size()),
                             static_cast<std::size_t>(size_of(spec.dtype)), &bytes)) {
    bytes = std::numeric_limits<std::size_t>::max();  // which the allocator refuses
  }
  auto storage = Storage::create(bytes);
  void* data = storage->data();
  return {std::move(storage), data};
}

Specs specs_of(const Values& inputs) {
  Specs specs;
  specs.reserve(inputs.size());
  for (const Value& v : inputs) specs.push_back(v.spec());
  return specs;
}

[[noreturn]] void fail_complex(const Op& op, DType dtype) {
  fail_type(op.name(), dtype, " is not supported; take F.real and F.imag");
}

}  // namespace

bool goes_by_parts(const Op& op, const Values& inputs) {
  for (const Value& v : inputs) {
    if (!is_complex(v.dtype())) continue;
    if (op.type->decompose_complex) return true;
    if (!op.type->traits.complex) fail_complex(op, v.dtype());
  }
  return false;
}

Values decompose_checked(const Op& op, const Values& inputs) {
  if (op.type->infer) op.type->infer(op, specs_of(inputs));
  return op.type->decompose(op, inputs);
}

Values execute(const OpRef& op, Values& inputs) {
  if (symbols_in_use.load(std::memory_order_relaxed) && has_symbols(inputs)) [[unlikely]] {
    return execute_on_symbols(op, inputs);
  }
  TraceSession* trace = dispatch_state().trace;
  if (trace) [[unlikely]]
    return trace->execute(op, inputs);
  if (Profile* profile = Profile::of_everything()) [[unlikely]]
    return execute_profiled(op, inputs, *profile);
  return execute_now(op, inputs);
}

namespace {

bool has_complex(const Specs& specs) {
  return std::any_of(specs.begin(), specs.end(), [](const Spec& s) { return is_complex(s.dtype); });
}

auto kernel_of(const OpType& type) { return type.kernel[static_cast<int>(DeviceType::cpu)]; }

}  // namespace

Specs kernel_outputs(const Op& op, const Specs& in) {
  const OpType& type = *op.type;
  if (type.execute || !kernel_of(type) || has_complex(in) || (type.fits && !type.fits(op, in))) {
    return {};
  }
  for (const Spec& s : in) {
    if (!s.device.same_place(in[0].device)) return {};
  }
  Specs wanted = type.infer(op, in);
  if (has_complex(wanted)) return {};
  for (Spec& s : wanted) {
    if (!in.empty()) s.device = in[0].device;
  }
  return wanted;
}

void execute_kernel(const Op& op, std::span<const Value* const> inputs, std::span<const bool> mine,
                    std::span<const Value> outputs) {
  SmallVector<Buffer, 3> buffers(outputs.size());
  SmallVector<MutView, 3> out(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Spec& spec = outputs[i].spec();
    const ValueImpl* place = outputs[i].impl();
    if (!place->storage) {
      const Value* taken =
          op.type->traits.fuse == Fuse::elementwise ? reusable(inputs, mine, spec) : nullptr;
      place = taken ? taken->impl() : nullptr;
    }
    buffers[i] = place ? Buffer{place->storage, place->data} : new_buffer(spec);
    out[i] = {buffers[i].data, spec.dtype, spec.shape, spec.strides};
  }
  SmallVector<View, 4> in;
  in.reserve(inputs.size());
  for (const Value* v : inputs) in.push_back(v->view());
  CpuContext context;
  kernel_of (*op.type)(op, context, in, out);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    ValueImpl& impl = *outputs[i].impl();
    impl.data = buffers[i].data;
    impl.storage = std::move(buffers[i].storage);
  }
}

Values execute_now(const OpRef& ref, Values& inputs) {
  const Op& op = *ref;
  const OpType& type = *op.type;
  check_devices(op, inputs);
  if (goes_by_parts(op, inputs)) [[unlikely]] {
    PauseGrad pause;
    return type.decompose_complex(op, inputs);
  }
  if (type.decompose && dispatch_state().prefer_decompositions) {
    PauseGrad pause;
    return decompose_checked(op, inputs);
  }
  if (type.execute) return type.execute(op, inputs);

  const Specs specs = specs_of(inputs);
  Specs wanted = type.infer(op, specs);
  for (Spec& s : wanted) {
    if (is_complex(s.dtype) && !type.traits.complex) fail_complex(op, s.dtype);
    if (!inputs.empty()) s.device = inputs[0].device();
  }
  if (!kernel_of(type) || (type.fits && !type.fits(op, specs))) {
    if (!type.decompose) fail_runtime(op.name(), "no kernel for these inputs");
    PauseGrad pause;  // the layer above has recorded this op as one node
    return type.decompose(op, inputs);
  }
  SmallVector<const Value*, 4> in(inputs.size());
  SmallVector<bool, 4> mine(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    in[i] = &inputs[i];
    mine[i] = true;
  }
  Values outputs(wanted.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = Value::pending(wanted[i]);
  execute_kernel(op, in, mine, outputs);
  return outputs;
}

}  // namespace mge
