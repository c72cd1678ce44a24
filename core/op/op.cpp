#include "core/op/op.h"

#include <algorithm>

namespace mge {
namespace {

std::vector<OpType*>& registry() {
  static std::vector<OpType*> ops;
  return ops;
}

void print(std::ostream& out, const FieldValue& v) {
  std::visit(
      [&](const auto& x) {
        using T = std::remove_cvref_t<decltype(x)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          out << "None";
        } else if constexpr (std::is_same_v<T, bool>) {
          out << (x ? "True" : "False");
        } else if constexpr (std::is_same_v<T, std::string>) {
          out << '\'' << x << '\'';
        } else if constexpr (std::is_same_v<T, Device>) {
          out << '\'' << x.logical_name() << '\'';
        } else {
          out << x;
        }
      },
      v);
}

}  // namespace

const std::vector<OpType*>& all_ops() { return registry(); }

const OpType* find_op(std::string_view name) {
  const auto& ops = registry();
  const auto it =
      std::find_if(ops.begin(), ops.end(), [&](const OpType* t) { return name == t->traits.name; });
  return it == ops.end() ? nullptr : *it;
}

void register_op(OpType* type) {
  if (find_op(type->traits.name)) fail_runtime(type->traits.name, "registered twice");
  registry().push_back(type);
}

std::string Op::text() const {
  std::ostringstream out;
  out << name() << '(';
  for (std::size_t i = 0; i < type->fields.size(); ++i) {
    out << (i ? ", " : "") << type->fields[i].name << '=';
    print(out, type->get(*this, i));
  }
  out << ')';
  return std::move(out).str();
}

std::size_t Op::hash() const { return std::hash<std::string>{}(text()); }

bool operator==(const Op& a, const Op& b) {
  if (a.type != b.type) return false;
  for (std::size_t i = 0; i < a.type->fields.size(); ++i) {
    if (a.type->get(a, i) != b.type->get(b, i)) return false;
  }
  return true;
}

}  // namespace mge
