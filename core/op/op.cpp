#include "core/op/op.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <sstream>

namespace mge {
namespace {

std::vector<OpType*>& registry() {
  static std::vector<OpType*> ops;
  return ops;
}

// As Python writes it, with as many digits as bring the same number back.
void print(std::ostream& out, double x) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, x).ptr;
  const std::string_view text(digits, static_cast<std::size_t>(end - digits));
  out << text;
  if (std::isfinite(x) && text.find_first_of(".e") == text.npos) out << ".0";
}

void print(std::ostream& out, const std::string& s) {
  static constexpr char hex[] = "0123456789abcdef";
  out << '\'';
  for (const char c : s) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '\'' || c == '\\') {
      out << '\\' << c;
    } else if (code < 0x20 || code == 0x7f) {
      out << "\\x" << hex[code >> 4] << hex[code & 15];
    } else {
      out << c;
    }
  }
  out << '\'';
}

void print(std::ostream& out, const FieldValue& v) {
  std::visit(
      [&](const auto& x) {
        using T = std::remove_cvref_t<decltype(x)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          out << "None";
        } else if constexpr (std::is_same_v<T, bool>) {
          out << (x ? "True" : "False");
        } else if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, double>) {
          print(out, x);
        } else if constexpr (std::is_same_v<T, Device>) {
          print(out, x.logical_name());
        } else {
          out << x;
        }
      },
      v);
}

// Bit by bit where it is a number: 0.0 and -0.0 fill different tensors, and NaN is NaN.
bool same(const FieldValue& a, const FieldValue& b) {
  const double *x = std::get_if<double>(&a), *y = std::get_if<double>(&b);
  if (!x || !y) return a == b;
  return std::bit_cast<std::uint64_t>(*x) == std::bit_cast<std::uint64_t>(*y);
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
    if (!same(a.type->get(a, i), b.type->get(b, i))) return false;
  }
  return true;
}

}  // namespace mge
