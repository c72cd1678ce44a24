// The op contract. An op is one attribute struct with free functions around it, in its own folder:
//
//   struct Softmax {                                           // core/ops/softmax/softmax.h
//     std::int64_t axis = -1;
//     static constexpr OpTraits traits{.name = "Softmax"};
//     static constexpr auto fields = field_list(field("axis", &Softmax::axis));
//   };
//   Specs infer(const Softmax&, const Specs& in);              // softmax.cpp
//   Values decompose(const Softmax&, const Values& in);        // in public ops
//   Values grad(const Softmax&, const GradArgs&);              // in public ops
//   REGISTER_OP(Softmax);
//   void kernel(const Softmax&, CpuContext&, Views in, MutViews out);   // softmax.cpu.cpp
//   REGISTER_KERNEL(Softmax, cpu);
//
// All functions are found by argument-dependent lookup in namespace mge and must be declared before
// REGISTER_OP. Only `infer` with a kernel, or `execute`, is needed:
//   infer      output specs from input specs; raises for wrong inputs, and is the only place that
//   does
//              so for shapes and dtypes. Output strides decide the memory format.
//   kernel     fills the outputs. Inputs may have any strides. What depends on the contents (an
//   index
//              out of range) is checked here, before anything is written.
//   execute    for views and for outputs whose shape depends on contents: Values -> Values, instead
//   of
//              infer and kernel. It may reuse the buffer of an input that is unique().
//   decompose  the same in public ops: the reference in tests, the fallback where no kernel fits,
//   and,
//              where there is no `grad`, what is differentiated instead.
//   grad       the gradients of the inputs; an undefined Value where there is none.
//   keep       what the tape keeps for grad; all inputs and outputs without it.
//   amp        how autocast treats it, where that depends on the attributes; else traits.amp.
//   fits       bool fits(const Op&, const Specs& in): false sends the call to decompose.
//   decompose_complex  for complex inputs: the same in public ops on their parts, which are also
//   what
//              is differentiated. Without it, and without traits.complex, complex inputs raise
//              TypeError before infer.
#pragma once

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeindex>
#include <variant>
#include <vector>

#include "core/tensor/value.h"

namespace mge {

// How autocast treats an op.
enum class Amp : std::uint8_t {
  follow,  // runs in the dtype it is given
  low,     // runs in the low precision dtype: matrix products, convolutions
  inner,  // computes in the low precision dtype and gives the high one: attention, recurrent layers
  high,   // runs in the high precision dtype: exp, log, norms, losses
  promote,  // inputs of mixed dtypes go to the widest
};
// What the graph compiler may fuse an op with.
enum class Fuse : std::uint8_t { none, elementwise, reduction, contraction, view };

struct OpTraits {
  const char* name;
  Amp amp = Amp::follow;
  std::uint32_t amp_inputs = ~std::uint32_t{0};  // bit i: autocast may cast input i
  Fuse fuse = Fuse::none;
  bool differentiable = true;  // false: outputs carry no gradient, and no `grad` is expected
  bool random = false;
  // The shapes of the outputs depend on what the inputs hold, not on their specs alone.
  bool by_contents = false;
  bool complex = false;  // infer, kernel and grad take complex inputs as they are
  // The kernel may be given outputs of any strides. Others get those that infer() says.
  bool strided_outputs = false;
};

// ---- fields -----------------------------------------------------------------------------------

using FieldValue =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, Dims, DType, Device>;

// Specialise for an enum that is a field: static constexpr std::array<const char*, N> names.
template <class E>
struct EnumNames;

template <class Op, class T>
struct Field {
  const char* name;
  T Op::* member;
};
template <class Op, class T>
constexpr Field<Op, T> field(const char* name, T Op::* member) {
  return {name, member};
}
template <class... F>
constexpr std::tuple<F...> field_list(F... fields) {
  return {fields...};
}

namespace detail {
template <class T>
struct is_optional : std::false_type {};
template <class T>
struct is_optional<std::optional<T>> : std::true_type {};

template <class T>
FieldValue to_field(const T& v) {
  if constexpr (is_optional<T>::value) {
    if (!v) return std::monostate{};
    return to_field(*v);
  } else if constexpr (std::is_same_v<T, DType> || std::is_same_v<T, bool> ||
                       std::is_same_v<T, std::string> || std::is_same_v<T, Dims> ||
                       std::is_same_v<T, Device>) {
    return v;
  } else if constexpr (std::is_enum_v<T>) {
    return std::string(EnumNames<T>::names[static_cast<std::size_t>(v)]);
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<std::int64_t>(v);
  } else {
    return static_cast<double>(v);
  }
}

template <class T>
void from_field(const char* op, const char* name, const FieldValue& v, T& out) {
  if constexpr (is_optional<T>::value) {
    if (std::holds_alternative<std::monostate>(v)) {
      out.reset();
      return;
    }
    from_field(op, name, v, out.emplace());
    return;
  } else if constexpr (std::is_same_v<T, DType>) {
    if (auto* d = std::get_if<DType>(&v)) return void(out = *d);
    if (auto* s = std::get_if<std::string>(&v)) return void(out = dtype_from_name(op, *s));
  } else if constexpr (std::is_same_v<T, Device>) {
    if (auto* d = std::get_if<Device>(&v)) return void(out = *d);
    if (auto* s = std::get_if<std::string>(&v)) return void(out = parse_device(*s));
  } else if constexpr (std::is_same_v<T, Dims>) {
    if (auto* d = std::get_if<Dims>(&v)) return void(out = *d);
    if (auto* i = std::get_if<std::int64_t>(&v)) return void(out = Dims{*i});
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (auto* s = std::get_if<std::string>(&v)) return void(out = *s);
  } else if constexpr (std::is_enum_v<T>) {
    if (auto* s = std::get_if<std::string>(&v)) {
      const auto& names = EnumNames<T>::names;
      for (std::size_t i = 0; i < names.size(); ++i) {
        if (strcasecmp(names[i], s->c_str()) == 0) return void(out = static_cast<T>(i));
      }
      fail_value(op, "unknown ", name, " '", *s, "'");
    }
  } else if constexpr (std::is_same_v<T, bool>) {
    if (auto* b = std::get_if<bool>(&v)) return void(out = *b);
    if (auto* i = std::get_if<std::int64_t>(&v)) return void(out = *i != 0);
  } else if constexpr (std::is_integral_v<T>) {
    if (auto* i = std::get_if<std::int64_t>(&v)) return void(out = static_cast<T>(*i));
    if (auto* b = std::get_if<bool>(&v)) return void(out = static_cast<T>(*b));
  } else {
    if (auto* d = std::get_if<double>(&v)) return void(out = static_cast<T>(*d));
    if (auto* i = std::get_if<std::int64_t>(&v)) return void(out = static_cast<T>(*i));
  }
  fail_type(op, "field '", name, "' does not take such a value");
}
}  // namespace detail

// ---- gradients ----------------------------------------------------------------------------------

inline constexpr std::uint32_t kAll = ~std::uint32_t{0};

// Bit i: input i (output i) is kept for the gradient rule.
struct Keep {
  std::uint32_t inputs = kAll;
  std::uint32_t outputs = kAll;
};

struct GradArgs {
  std::span<const Value> inputs;   // undefined where keep() said that it is not needed
  std::span<const Value> outputs;  // likewise
  std::span<const Value> dy;       // undefined where no gradient reached that output
  const Specs& in_specs;
  const Specs& out_specs;
  std::uint32_t needs;  // bit i: the gradient of input i is wanted

  bool need(std::size_t i) const { return i >= 32 || (needs >> i & 1u); }
  // dy[i], or zeros where no gradient reached output i.
  Value dy_or_zeros(std::size_t i) const;
};

// ---- ops as values
// --------------------------------------------------------------------------------

struct CpuContext {};  // what a CPU kernel gets beside its operands; nothing so far

class Op;
using OpRef = Ref<const Op>;

struct FieldInfo {
  const char* name;
  FieldValue default_value;
  std::vector<std::string> choices;  // of an enum
};

// What is known of a kind of op. One instance each, made by REGISTER_OP.
struct OpType {
  OpTraits traits;
  std::vector<FieldInfo> fields;
  OpRef (*create)(std::span<const FieldValue> values) = nullptr;  // one for each field
  FieldValue (*get)(const Op&, std::size_t field) = nullptr;

  Specs (*infer)(const Op&, const Specs&) = nullptr;
  Values (*execute)(const Op&, Values&) = nullptr;
  Values (*decompose)(const Op&, const Values&) = nullptr;
  Values (*grad)(const Op&, const GradArgs&) = nullptr;
  Keep (*keep)(const Op&, std::uint32_t needs) = nullptr;
  bool (*fits)(const Op&, const Specs&) = nullptr;
  Values (*decompose_complex)(const Op&, const Values&) = nullptr;
  void (*kernel[kDeviceTypes])(const Op&, CpuContext&, Views, MutViews) = {};
  // Elementwise ops differ by mode: whether this very op carries a gradient, and how autocast
  // treats it.
  bool (*differentiable)(const Op&) = nullptr;
  Amp (*amp)(const Op&) = nullptr;
};

class Op : public RefCounted {
 public:
  const OpType* type;

  const char* name() const { return type->traits.name; }
  std::string text() const;  // Softmax(axis=-1)
  std::size_t hash() const;
  friend bool operator==(const Op& a, const Op& b);
  static void destroy(const Op* op) noexcept { op->destroy_(op); }

 protected:
  Op(const OpType* t, void (*destroy)(const Op*)) : type(t), destroy_(destroy) {}

 private:
  void (*destroy_)(const Op*);
};

template <class T>
class OpOf final : public Op {
 public:
  T attrs;
  explicit OpOf(T a);
};

// The registry: every OpType, by name. find_op returns nullptr for an unknown name.
const std::vector<OpType*>& all_ops();
const OpType* find_op(std::string_view name);
void register_op(OpType* type);

template <class T>
OpType& op_type();

// ---- calling ops
// -----------------------------------------------------------------------------------

// Runs an op through the layers: amp, trace, grad, execute (core/dispatch).
Values apply(const OpRef& op, Values inputs);

template <class T>
OpRef make_op(T attrs) {
  return OpRef::adopt(new OpOf<T>(std::move(attrs)));
}
// apply() for an op that is written in place: call(Softmax{.axis = 1}, x).
template <class T, class... In>
Value call(T attrs, const In&... in) {
  return std::move(apply(make_op(std::move(attrs)), Values{in...})[0]);
}
template <class T>
Values call_all(T attrs, Values in) {
  return apply(make_op(std::move(attrs)), std::move(in));
}

// ---- registration
// ----------------------------------------------------------------------------------

namespace detail {
template <class T>
const T& attrs(const Op& op) {
  return static_cast<const OpOf<T>&>(op).attrs;
}

template <class T>
OpType make_op_type() {
  OpType t;
  t.traits = T::traits;
  const T defaults{};
  std::apply(
      [&](const auto&... f) {
        (
            [&] {
              using M = std::remove_cvref_t<decltype(defaults.*(f.member))>;
              FieldInfo info{f.name, to_field(defaults.*(f.member)), {}};
              if constexpr (std::is_enum_v<M> && !std::is_same_v<M, DType>) {
                for (const char* n : EnumNames<M>::names) info.choices.emplace_back(n);
              }
              t.fields.push_back(std::move(info));
            }(),
            ...);
      },
      T::fields);
  t.create = [](std::span<const FieldValue> values) {
    T a{};
    std::size_t i = 0;
    std::apply(
        [&](const auto&... f) {
          (from_field(T::traits.name, f.name, values[i++], a.*(f.member)), ...);
        },
        T::fields);
    return make_op(std::move(a));
  };
  t.get = [](const Op& op, std::size_t wanted) {
    FieldValue out;
    std::size_t i = 0;
    std::apply(
        [&](const auto&... f) {
          ((i++ == wanted ? void(out = to_field(attrs<T>(op).*(f.member))) : void()), ...);
        },
        T::fields);
    return out;
  };
  if constexpr (requires(const T& a, const Specs& s) { infer(a, s); })
    t.infer = [](const Op& op, const Specs& in) { return infer(attrs<T>(op), in); };
  if constexpr (requires(const T& a, Values& v) { execute(a, v); })
    t.execute = [](const Op& op, Values& in) { return execute(attrs<T>(op), in); };
  if constexpr (requires(const T& a, const Values& v) { decompose(a, v); })
    t.decompose = [](const Op& op, const Values& in) { return decompose(attrs<T>(op), in); };
  if constexpr (requires(const T& a, const GradArgs& g) { grad(a, g); })
    t.grad = [](const Op& op, const GradArgs& g) { return grad(attrs<T>(op), g); };
  if constexpr (requires(const T& a) { keep(a, 0u); })
    t.keep = [](const Op& op, std::uint32_t needs) { return keep(attrs<T>(op), needs); };
  if constexpr (requires(const T& a, const Specs& s) { fits(a, s); })
    t.fits = [](const Op& op, const Specs& in) { return fits(attrs<T>(op), in); };
  if constexpr (requires(const T& a, const Values& v) { decompose_complex(a, v); })
    t.decompose_complex = [](const Op& op, const Values& in) {
      return decompose_complex(attrs<T>(op), in);
    };
  if constexpr (requires(const T& a) { differentiable(a); })
    t.differentiable = [](const Op& op) { return differentiable(attrs<T>(op)); };
  if constexpr (requires(const T& a) { amp(a); })
    t.amp = [](const Op& op) { return amp(attrs<T>(op)); };
  return t;
}
}  // namespace detail

template <class T>
OpOf<T>::OpOf(T a)
    : Op(&op_type<T>(), [](const Op* p) { delete static_cast<const OpOf<T>*>(p); }),
      attrs(std::move(a)) {}

#define REGISTER_OP(T)                              \
  template <>                                       \
  OpType& op_type<T>() {                            \
    static OpType type = detail::make_op_type<T>(); \
    return type;                                    \
  }                                                 \
  static const bool registered_##T = (register_op(&op_type<T>()), true)

// In the header of the op, after the struct: its OpType lives in the file that registers it.
#define DECLARE_OP(T) \
  template <>         \
  OpType& op_type<T>()

#define REGISTER_KERNEL(T, device) \
  static const bool kernel_##T = (op_type<T>().kernel[static_cast<int>(DeviceType::device)] = \
                                      [](const Op& op, CpuContext& ctx, Views in, MutViews out) { \
                                        kernel(detail::attrs<T>(op), ctx, in, out);           \
                                      },                                                      \
                                  true)

}  // namespace mge
