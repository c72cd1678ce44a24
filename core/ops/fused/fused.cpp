#include "core/ops/fused/fused.h"

#include <algorithm>
#include <charconv>
#include <mutex>
#include <sstream>
#include <unordered_map>

#include "core/ops/elementwise/rules.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

using cpu::ElementProgram;
using cpu::ElementStep;

constexpr const char* kName = FusedElementwise::traits.name;

// ---- programs as text ---------------------------------------------------------------------------

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), rest_(text) {}

  ElementProgram run() {
    do {
      program_.inputs.push_back(dtype_from_name(kName, word()));
      expect_name('x', program_.inputs.size() - 1);
    } while (take(","));
    expect(":");
    do {
      step();
    } while (take(";"));
    expect("->");
    do {
      const std::size_t i = operand();
      const bool again = i < program_.inputs.size() || is_output(i - program_.inputs.size());
      if (again) wrong("an output is a step, and each is one once");
      program_.outputs.push_back(static_cast<std::uint8_t>(i - program_.inputs.size()));
    } while (take(","));
    if (!rest_.empty()) wrong("expected no more");
    if (program_.inputs.size() + program_.outputs.size() > cpu::kMaxProgramOperands) {
      wrong("too many operands");
    }
    program_.prepare();
    return std::move(program_);
  }

 private:
  [[noreturn]] void wrong(const char* why) const {
    fail_value(kName, "expected a program like 'float32 x0: t0 = EXP(x0); t1 = NEGATE(t0) -> t1'; ",
               why, " at '", rest_, "' of '", text_, "'");
  }
  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }
  bool take(std::string_view what) {
    skip_spaces();
    if (!rest_.starts_with(what)) return false;
    rest_.remove_prefix(what.size());
    skip_spaces();
    return true;
  }
  void expect(std::string_view what) {
    if (!take(what)) wrong("something is missing");
  }
  std::string_view word() {
    skip_spaces();
    std::size_t n = 0;
    while (n < rest_.size() &&
           (std::isalnum(static_cast<unsigned char>(rest_[n])) || rest_[n] == '_')) {
      ++n;
    }
    if (n == 0) wrong("a word is missing");
    const std::string_view out = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return out;
  }
  std::size_t number(std::string_view digits) const {
    std::size_t n = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
    if (error != std::errc{} || end != digits.data() + digits.size()) wrong("no such name");
    return n;
  }
  void expect_name(char kind, std::size_t i) {
    const std::string_view name = word();
    if (name[0] != kind || number(name.substr(1)) != i) wrong("names count from 0");
  }
  // As ElementStep counts them.
  std::size_t operand() {
    const std::string_view name = word();
    const std::size_t i = number(name.substr(1));
    if (name[0] == 'x' && i < program_.inputs.size()) return i;
    if (name[0] == 't' && i < program_.steps.size()) return program_.inputs.size() + i;
    wrong("no such name");
  }
  bool is_output(std::size_t step) const {
    return std::find(program_.outputs.begin(), program_.outputs.end(), step) !=
           program_.outputs.end();
  }
  DType dtype_of(std::size_t operand) const {
    const std::size_t inputs = program_.inputs.size();
    return operand < inputs ? program_.inputs[operand] : program_.steps[operand - inputs].to;
  }

  void step() {
    expect_name('t', program_.steps.size());
    expect("=");
    const std::string_view function = word();
    expect("(");
    ElementStep s;
    Specs in;
    do {
      const std::size_t i = operand();
      s.in.push_back(static_cast<std::uint8_t>(i));
      in.push_back(Spec(dtype_of(i), Shape{}));
    } while (take(","));
    expect(")");
    if (program_.steps.size() == cpu::kMaxProgramSteps) wrong("too many steps");
    const auto& names = EnumNames<ElementMode>::names;
    const auto found = std::find(names.begin(), names.end(), function);
    s.converts = found == names.end();
    s.from = in.back().dtype;
    if (s.converts) {
      s.to = infer(TypeCvt{dtype_from_name(kName, function)}, in)[0].dtype;
    } else {
      s.mode = static_cast<ElementMode>(found - names.begin());
      s.to = infer(Elemwise{s.mode}, in)[0].dtype;
      if (is_low_float(s.from) && s.mode != ElementMode::WHERE) {
        wrong("16-bit floats are not computed in");
      }
    }
    if (is_complex(s.from) || is_complex(s.to)) wrong("complex numbers are not supported");
    program_.steps.push_back(std::move(s));
  }

  std::string_view text_, rest_;
  ElementProgram program_;
};

void check_inputs(const ElementProgram& p, const Specs& in) {
  if (in.size() != p.inputs.size()) {
    fail_type(kName, "expected ", p.inputs.size(), " operands, got ", in.size());
  }
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (in[i].dtype != p.inputs[i]) {
      fail_type(kName, "expected operand ", i, " of ", p.inputs[i], ", got ", in[i].dtype);
    }
  }
}

}  // namespace

std::string text_of(const ElementProgram& p) {
  std::ostringstream out;
  const std::size_t inputs = p.inputs.size();
  for (std::size_t i = 0; i < inputs; ++i) {
    out << (i ? ", " : "") << p.inputs[i] << " x" << i;
  }
  for (std::size_t s = 0; s < p.steps.size(); ++s) {
    const ElementStep& step = p.steps[s];
    out << (s ? "; t" : ": t") << s << " = "
        << (step.converts ? name(step.to) : elemwise_name(step.mode)) << "(";
    for (std::size_t j = 0; j < step.in.size(); ++j) {
      const std::size_t i = step.in[j];
      out << (j ? ", " : "") << (i < inputs ? 'x' : 't') << (i < inputs ? i : i - inputs);
    }
    out << ")";
  }
  for (std::size_t o = 0; o < p.outputs.size(); ++o) {
    out << (o ? ", t" : " -> t") << int{p.outputs[o]};
  }
  return out.str();
}

// A process meets few programs; one that traces ever new functions forgets the oldest.
std::shared_ptr<const ElementProgram> program_of(const FusedElementwise& op) {
  constexpr std::size_t kMostPrograms = 1024;
  struct Parsed {
    std::shared_ptr<const ElementProgram> program;
    std::uint64_t used = 0;
  };
  static std::mutex lock;
  static std::unordered_map<std::string, Parsed> parsed;
  static std::uint64_t clock = 0;
  const std::lock_guard guard(lock);
  auto it = parsed.find(op.program);
  if (it == parsed.end()) {
    auto made = std::make_shared<const ElementProgram>(Parser(op.program).run());
    if (parsed.size() >= kMostPrograms) {
      parsed.erase(std::min_element(parsed.begin(), parsed.end(), [](const auto& a, const auto& b) {
        return a.second.used < b.second.used;
      }));
    }
    it = parsed.emplace(op.program, Parsed{std::move(made)}).first;
  }
  it->second.used = ++clock;
  return it->second.program;
}

Specs infer(const FusedElementwise& op, const Specs& in) {
  const auto program = program_of(op);
  const ElementProgram& p = *program;
  check_inputs(p, in);
  Shape shape = in[0].shape;
  for (std::size_t i = 1; i < in.size(); ++i) {
    if (in[i].shape != shape) shape = broadcast(kName, shape, in[i].shape);
  }
  count(shape);  // raises where it overflows
  const Strides strides = elemwise_strides(shape, in);
  Specs out;
  for (std::size_t o = 0; o < p.outputs.size(); ++o) {
    out.push_back(Spec(p.made_by(o).to, shape, strides));
  }
  return out;
}

Values decompose(const FusedElementwise& op, const Values& in) {
  const auto program = program_of(op);
  const ElementProgram& p = *program;
  Values values = in;
  Shape shape = in[0].shape();
  for (const Value& v : in) shape = broadcast(kName, shape, v.shape());
  for (const ElementStep& step : p.steps) {
    Values operands;
    for (const std::uint8_t i : step.in) operands.push_back(values[i]);
    values.push_back(step.converts ? call(TypeCvt{step.to}, operands[0])
                                   : std::move(apply(elemwise_op(step.mode), operands)[0]));
  }
  Values out;
  for (const std::uint8_t o : p.outputs) {
    const Value& v = values[in.size() + o];
    out.push_back(v.shape() == shape ? v : call(Broadcast{shape}, v));
  }
  return out;
}

REGISTER_OP(FusedElementwise);

}  // namespace mge
