// Graphs as text, and back. A line for each value from outside, then one for each node:
//
//   # a comment
//   %0 = input : float32 (2, 3)
//   %1 = constant : float32 (64, 3, 7, 7)            its contents are elsewhere
//   %2 = constant [1, 2] : int32 (2,)
//   %5 = Elemwise(mode='ADD')(%0, %1) : float32 (2, 3)
//   %6, %7 = TopK(k=3)(%5) : float32 (2, 3), int32 (2, 3)
//   return %6, %7
//
// A type is a dtype and a shape; strides follow where they are not row-major, the device where it
// is not the default: `float32 (2, 3) strides (1, 2) on 'cpu0:0'`. Fields and numbers are written
// as in Python. Fields that are left out have their defaults.
#include <bit>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>

#include "core/graph/graph.h"
#include "core/graph/verify.h"

namespace mge {
namespace {

// ---- writing ------------------------------------------------------------------------------------

// Constants of up to so many elements stand in the text.
constexpr std::int64_t kMostInline = 8;

template <class T>
bool is_plain(T x) {
  if constexpr (std::is_same_v<T, std::uint64_t>) {
    return x <= std::uint64_t{std::numeric_limits<std::int64_t>::max()};  // that it can read
  } else if constexpr (std::is_integral_v<T>) {
    return true;
  } else {
    return !std::isnan(static_cast<ComputeType<T>>(x));  // the text does not tell NaNs apart
  }
}

bool fits_in_line(const Value& v) {
  if (!v || v.ndim() > 1 || v.size() > kMostInline || is_complex(v.dtype()) || !v.row_major() ||
      v.strides() != row_major(v.shape())) {
    return false;
  }
  return visit_dtype(v.dtype(), [&]<class T>(Tag<T>) {
    for (std::int64_t i = 0; i < v.size(); ++i) {
      if (!is_plain(v.ptr<T>()[i])) return false;
    }
    return true;
  });
}

template <class T>
void write_number(std::ostream& out, T x) {
  if constexpr (std::is_same_v<T, bool>) {
    out << (x ? "True" : "False");
  } else if constexpr (std::is_integral_v<T>) {
    out << +x;  // a number for 8 bits too
  } else {
    char digits[32];
    const auto number = static_cast<ComputeType<T>>(x);
    out.write(digits, std::to_chars(digits, digits + sizeof digits, number).ptr - digits);
  }
}

void write_contents(std::ostream& out, const Value& v) {
  visit_dtype(v.dtype(), [&]<class T>(Tag<T>) {
    if (v.ndim() == 1) out << '[';
    for (std::int64_t i = 0; i < v.size(); ++i) {
      if (i) out << ", ";
      write_number(out, v.ptr<T>()[i]);
    }
    if (v.ndim() == 1) out << ']';
  });
}

void write_spec(std::ostream& out, const Spec& spec) {
  out << spec.dtype << ' ' << spec.shape;
  if (spec.strides != row_major(spec.shape)) out << " strides " << spec.strides;
  if (spec.device != Device{}) out << " on '" << spec.device.logical_name() << '\'';
}

template <class Ids>
void write_ids(std::ostream& out, const Ids& ids) {
  for (std::size_t i = 0; i < ids.size(); ++i) out << (i ? ", %" : "%") << ids[i];
}

// ---- reading ------------------------------------------------------------------------------------

// Ids need not be dense, since passes drop nodes; but a short text does not ask for much memory.
constexpr std::size_t kMostIds = 1 << 16;

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

class Parser {
 public:
  Parser(std::string_view text, const std::unordered_map<ValueId, Value>& constants, bool dense)
      : text_(text), constants_(constants), dense_(dense) {}

  Graph run() {
    for (;;) {
      skip_blank_lines();
      if (at_end()) fail_at(at_, "expected a 'return' line at the end");
      if (peek() == '%') {
        statement();
      } else {
        const std::size_t begin = at_;
        if (name("'%' or 'return'") != "return") fail_at(begin, "expected '%' or 'return'");
        if (!at_line_end()) graph_.outputs = uses<std::vector<ValueId>>();
        end_line();
        break;
      }
    }
    skip_blank_lines();
    if (!at_end()) fail_at(at_, "expected nothing after the 'return' line");
    verify(graph_, ErrorKind::value, "parsing");
    return std::move(graph_);
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail_at(std::size_t where, const Parts&... parts) const {
    const std::string_view before = text_.substr(0, where);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t start = before.rfind('\n') + 1;  // 0 where there is none
    fail_value("graph", "line ", line, ", column ", where - start + 1, ": ", parts...);
  }

  // ---- characters
  bool at_end() const { return at_ == text_.size(); }
  char peek() const { return at_end() ? '\n' : text_[at_]; }
  void skip_spaces() {
    while (!at_end() && (peek() == ' ' || peek() == '\t' || peek() == '\r')) ++at_;
    if (!at_end() && peek() == '#') {
      while (!at_end() && peek() != '\n') ++at_;
    }
  }
  bool at_line_end() {
    skip_spaces();
    return peek() == '\n';
  }
  void end_line() {
    if (!at_line_end()) fail_at(at_, "expected the end of the line");
    if (!at_end()) ++at_;
  }
  void skip_blank_lines() {
    while (at_line_end() && !at_end()) ++at_;
  }
  bool take(char c) {
    skip_spaces();
    if (peek() != c || at_end()) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail_at(at_, "expected '", c, '\'');
  }
  std::string_view name(const char* wanted) {
    skip_spaces();
    const std::size_t begin = at_;
    while (!at_end() && is_name(peek())) ++at_;
    if (at_ == begin) fail_at(begin, "expected ", wanted);
    return text_.substr(begin, at_ - begin);
  }

  // ---- numbers and strings
  // An integer, or a double where it is written as one.
  FieldValue number() {
    skip_spaces();
    const std::size_t begin = at_;
    if (peek() == '-') ++at_;
    while (!at_end() && (is_name(peek()) || peek() == '.' ||
                         ((peek() == '-' || peek() == '+') && text_[at_ - 1] == 'e'))) {
      ++at_;
    }
    const char *first = text_.data() + begin, *last = text_.data() + at_;
    const std::string_view digits = text_.substr(begin, at_ - begin);
    std::int64_t n = 0;
    if (const auto r = std::from_chars(first, last, n); r.ec == std::errc{} && r.ptr == last) {
      return n;
    }
    double x = 0;
    const bool integer = digits.find_first_not_of("-0123456789") == digits.npos;
    if (const auto r = std::from_chars(first, last, x);
        !integer && r.ec == std::errc{} && r.ptr == last) {
      return x;
    }
    fail_at(begin, "expected a number, got '", digits, '\'', integer ? ", which is too large" : "");
  }
  std::int64_t integer(const char* wanted) {
    skip_spaces();
    const std::size_t begin = at_;
    const FieldValue v = number();
    if (!std::holds_alternative<std::int64_t>(v)) fail_at(begin, "expected ", wanted);
    return std::get<std::int64_t>(v);
  }
  int hex_digit() {
    const char c = peek();
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) fail_at(at_, "expected two hexadecimal digits");
    ++at_;
    return digit;
  }
  std::string quoted() {
    expect('\'');
    std::string out;
    for (;;) {
      if (at_end() || peek() == '\n') fail_at(at_, "expected the closing quote of a string");
      const char c = text_[at_++];
      if (c == '\'') return out;
      if (c != '\\') {
        out += c;
        continue;
      }
      const std::size_t begin = at_ - 1;
      if (peek() == 'x') {
        ++at_;
        const int high = hex_digit();
        out += static_cast<char>(16 * high + hex_digit());
      } else if (peek() == '\'' || peek() == '\\') {
        out += text_[at_++];
      } else {
        fail_at(begin, "expected one of \\' \\\\ \\xNN");
      }
    }
  }
  // (2, 3), (2,), ()
  Dims tuple() {
    expect('(');
    Dims out;
    while (!take(')')) {
      skip_spaces();
      if (out.size() == kMaxDims) fail_at(at_, "expected at most ", kMaxDims, " numbers");
      out.push_back(integer("an integer"));
      if (!take(',') && peek() != ')') fail_at(at_, "expected ',' or ')'");
    }
    return out;
  }

  // ---- types
  DType dtype(std::string_view word, std::size_t where) const {
    for (int i = 0; i < kDTypeCount; ++i) {
      if (word == kDTypeInfo[i].name) return static_cast<DType>(i);
    }
    fail_at(where, "unknown dtype '", word, '\'');
  }
  Spec spec() {
    skip_spaces();
    std::size_t begin = at_;
    const DType type = dtype(name("a dtype"), begin);
    skip_spaces();
    begin = at_;
    const Shape shape = tuple();
    checked(begin, [&] { return count(shape) * size_of(type); });
    Spec out(type, shape);
    for (;;) {
      skip_spaces();
      begin = at_;
      if (!is_name(peek())) return out;
      const std::string_view word = name("a word");
      if (word == "strides") {
        out.strides = tuple();
        if (out.strides.size() != shape.size()) {
          fail_at(begin, "expected as many strides as sizes in ", shape);
        }
      } else if (word == "on") {
        begin = at_;
        const std::string device = quoted();
        out.device = checked(begin, [&] { return parse_device(device); });
      } else {
        fail_at(begin, "expected 'strides', 'on' or the end of the type, got '", word, '\'');
      }
    }
  }

  // Errors of other parts get the position.
  template <class F>
  std::invoke_result_t<F> checked(std::size_t where, F&& f) const {
    try {
      return f();
    } catch (const Error& e) {
      fail_at(where, e.what());
    }
  }

  // ---- ids
  ValueId id() {
    expect('%');
    const std::size_t begin = at_;
    std::uint64_t n = 0;
    const char *first = text_.data() + at_, *last = text_.data() + text_.size();
    const auto r = std::from_chars(first, last, n);
    if (r.ec == std::errc::invalid_argument) fail_at(begin, "expected a number after '%'");
    at_ += static_cast<std::size_t>(r.ptr - first);
    if (r.ec != std::errc{} || n >= std::max(kMostIds, text_.size())) {
      fail_at(begin, "expected an id below ", std::max(kMostIds, text_.size()));
    }
    return static_cast<ValueId>(n);
  }
  bool known(ValueId id) const { return id < known_.size() && known_[id]; }
  // Ids of values that exist, with commas between them.
  template <class Ids>
  Ids uses() {
    Ids out;
    do {
      skip_spaces();
      const std::size_t begin = at_;
      const ValueId v = id();
      if (!known(v)) fail_at(begin, '%', v, " is used before it is made");
      out.push_back(v);
    } while (take(','));
    return out;
  }
  void define(ValueId id, const Spec& spec, bool external) {
    if (id >= graph_.values.size()) {
      graph_.values.resize(id + 1);
      known_.resize(id + 1);
    }
    graph_.values[id] = {spec, external};
    known_[id] = true;
  }

  // ---- fields of ops
  FieldValue value() {
    skip_spaces();
    const char c = peek();
    if (c == '\'') return quoted();
    if (c == '(') return tuple();
    const std::size_t begin = at_;
    if (c != '-' && is_name(c) && (c < '0' || c > '9')) {
      const std::string_view word = name("a value");
      if (word == "None") return std::monostate{};
      if (word == "True") return true;
      if (word == "False") return false;
      if (word == "inf" || word == "nan") {
        at_ = begin;
        return number();
      }
      return dtype(word, begin);
    }
    return number();
  }

  // Whether a field that was given `wanted` has it now: integers may be cut to fewer bits.
  static bool kept(const FieldValue& wanted, const FieldValue& got) {
    const auto *a = std::get_if<std::int64_t>(&wanted), *b = std::get_if<std::int64_t>(&got);
    return !a || !b || *a == *b;
  }

  OpRef op(std::string_view kind, std::size_t where) {
    const OpType* type = find_op(kind);
    if (!type) fail_at(where, "there is no op '", kind, '\'');
    std::vector<FieldValue> values;
    for (const FieldInfo& f : type->fields) values.push_back(f.default_value);
    std::vector<std::optional<std::size_t>> places(values.size());
    expect('(');
    while (!take(')')) {
      skip_spaces();
      const std::size_t begin = at_;
      const std::string_view field = name("a field");
      std::size_t i = 0;
      while (i < values.size() && field != type->fields[i].name) ++i;
      if (i == values.size()) fail_at(begin, kind, " has no field '", field, '\'');
      if (places[i]) fail_at(begin, "field '", field, "' is given twice");
      places[i] = begin;
      expect('=');
      values[i] = value();
      if (!take(',') && peek() != ')') fail_at(at_, "expected ',' or ')'");
    }
    const OpRef made = checked(where, [&] { return type->create(values); });
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (places[i] && !kept(values[i], type->get(*made, i))) {
        fail_at(*places[i], "the value does not fit the field '", type->fields[i].name, '\'');
      }
    }
    return made;
  }

  // ---- statements
  template <class T>
  T element(DType dtype) {
    skip_spaces();
    const std::size_t begin = at_;
    const FieldValue v = value();
    if constexpr (std::is_same_v<T, bool>) {
      if (const bool* b = std::get_if<bool>(&v)) return *b;
      fail_at(begin, "expected True or False");
    } else if constexpr (std::is_integral_v<T>) {
      const auto* n = std::get_if<std::int64_t>(&v);
      if (!n) fail_at(begin, "expected an integer");
      if (static_cast<std::int64_t>(static_cast<T>(*n)) != *n ||
          (std::is_unsigned_v<T> && *n < 0)) {
        fail_at(begin, *n, " does not fit ", dtype);
      }
      return static_cast<T>(*n);
    } else {
      const auto* n = std::get_if<std::int64_t>(&v);
      const auto* x = std::get_if<double>(&v);
      if (!n && !x) fail_at(begin, "expected a number");
      const double number = x ? *x : static_cast<double>(*n);
      return static_cast<T>(static_cast<ComputeType<T>>(number));
    }
  }
  // The contents, which precede the type: a first look at it, then the numbers.
  Value inline_contents(std::size_t where, const Spec& spec) {
    const std::size_t after = std::exchange(at_, where);
    if (spec.ndim() > 1 || spec.size() > kMostInline || is_complex(spec.dtype) ||
        spec.strides != row_major(spec.shape)) {
      fail_at(where, "expected at most ", kMostInline, " real elements in at most one dimension");
    }
    const Value out = Value::empty(spec);
    visit_dtype(spec.dtype, [&]<class T>(Tag<T>) {
      if (spec.ndim() == 1) expect('[');
      for (std::int64_t i = 0; i < spec.size(); ++i) {
        if (i) expect(',');
        out.mut().ptr<T>()[i] = element<T>(spec.dtype);
      }
      if (spec.ndim() == 1) expect(']');
    });
    expect(':');
    at_ = after;
    return out;
  }
  void constant(ValueId id) {
    skip_spaces();
    const std::size_t begin = at_;
    while (!at_end() && peek() != ':' && peek() != '\n') ++at_;
    const bool in_line =
        text_.substr(begin, at_ - begin).find_first_not_of(" \t\r") != std::string_view::npos;
    expect(':');
    const std::size_t type_begin = at_;
    const Spec type = spec();
    Value contents;
    if (in_line) {
      contents = inline_contents(begin, type);
    } else {
      const auto it = constants_.find(id);
      if (it == constants_.end()) fail_at(type_begin, "the contents of %", id, " are not given");
      contents = it->second;
      if (contents.dtype() != type.dtype || contents.shape() != type.shape) {
        fail_at(type_begin, "expected contents of ", type.dtype, ' ', type.shape, ", got ",
                contents.dtype(), ' ', contents.shape());
      }
    }
    define(id, contents.spec(), true);
    graph_.values[id].constant = contents.detached();
  }

  void statement() {
    SmallVector<ValueId, 4> made;
    do {
      skip_spaces();
      const std::size_t begin = at_;
      made.push_back(id());
      const bool twice =
          known(made.back()) || std::count(made.begin(), made.end(), made.back()) > 1;
      if (twice) fail_at(begin, '%', made.back(), " is made twice");
      const std::size_t next = graph_.values.size() + made.size() - 1;
      if (dense_ && made.back() != next) fail_at(begin, "expected %", next);
    } while (take(','));
    expect('=');
    skip_spaces();
    const std::size_t begin = at_;
    const std::string_view kind = name("'input', 'constant' or an op");
    if (kind == "input" || kind == "constant") {
      if (made.size() > 1) fail_at(begin, "expected one value on a line of '", kind, '\'');
      if (kind == "constant") {
        constant(made[0]);
      } else {
        expect(':');
        define(made[0], spec(), true);
      }
      end_line();
      return;
    }
    Graph::Node node;
    node.op = op(kind, begin);
    expect('(');
    if (!take(')')) {
      node.in = uses<SmallVector<ValueId, 4>>();
      expect(')');
    }
    expect(':');
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (i) expect(',');
      define(made[i], spec(), false);
    }
    node.out = std::move(made);
    end_line();
    graph_.nodes.push_back(std::move(node));
  }

  std::string_view text_;
  const std::unordered_map<ValueId, Value>& constants_;
  bool dense_;
  std::size_t at_ = 0;
  Graph graph_;
  std::vector<bool> known_;  // by id: has been made
};

}  // namespace

std::string Graph::text() const {
  std::ostringstream out;
  for (std::size_t id = 0; id < values.size(); ++id) {
    const Entry& entry = values[id];
    if (!entry.external) continue;
    out << '%' << id << (entry.constant ? " = constant" : " = input");
    if (fits_in_line(entry.constant)) {
      out << ' ';
      write_contents(out, entry.constant);
    }
    out << " : ";
    write_spec(out, entry.spec);
    out << '\n';
  }
  for (const Node& node : nodes) {
    write_ids(out, node.out);
    out << " = " << node.op->text() << '(';
    write_ids(out, node.in);
    out << ") : ";
    for (std::size_t i = 0; i < node.out.size(); ++i) {
      if (i) out << ", ";
      write_spec(out, values[node.out[i]].spec);
    }
    out << '\n';
  }
  out << "return";
  if (!outputs.empty()) out << ' ';
  write_ids(out, outputs);
  out << '\n';
  return std::move(out).str();
}

Graph Graph::parse(std::string_view text, const std::unordered_map<ValueId, Value>& constants,
                   bool dense) {
  return Parser(text, constants, dense).run();
}

}  // namespace mge
