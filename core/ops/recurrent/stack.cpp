// RNN, LSTM and their cells, made of single layers.

#include <array>

#include "core/ops/creation/creation.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/random/random.h"
#include "core/ops/recurrent/recurrent.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

// What RNN and LSTM have in common.
struct Stack {
  const char* name;
  RecurrentMode mode;
  std::int64_t layers, hidden;
  bool bidirectional, bias, training;
  double dropout;

  std::int64_t directions() const { return bidirectional ? 2 : 1; }
  std::int64_t cells() const { return layers * directions(); }
  std::int64_t gates() const { return cpu::gate_count(mode) * hidden; }
  std::size_t states() const { return mode == RecurrentMode::LSTM ? 2 : 1; }
  std::int64_t layer_inputs(std::int64_t layer, std::int64_t inputs) const {
    return layer == 0 ? inputs : hidden * directions();
  }
};

RecurrentMode mode_of(RecurrentNonlinearity f) {
  switch (f) {
    case RecurrentNonlinearity::RELU:
      return RecurrentMode::RELU;
    case RecurrentNonlinearity::TANH:
      return RecurrentMode::TANH;
    case RecurrentNonlinearity::IDENTITY:
      return RecurrentMode::IDENTITY;
  }
  fail_value("RNN", "unknown nonlinearity");
}

Stack stack_of(const RNN& op) {
  return {"RNN",
          mode_of(op.nonlineMode),
          op.num_layers,
          op.hidden_size,
          op.bidirectional,
          op.bias,
          op.fwd_mode == BatchNormMode::TRAINING,
          op.dropout};
}
Stack stack_of(const LSTM& op) {
  return {"LSTM",
          RecurrentMode::LSTM,
          op.num_layers,
          op.hidden_size,
          op.bidirectional,
          op.bias,
          op.fwd_mode == BatchNormMode::TRAINING,
          op.dropout};
}

// a * b + c; raises where it does not fit.
std::int64_t multiply_add(const char* name, std::int64_t a, std::int64_t b, std::int64_t c) {
  std::int64_t out;
  if (__builtin_mul_overflow(a, b, &out) || __builtin_add_overflow(out, c, &out)) {
    fail_value(name, "the sizes of the weights are too large");
  }
  return out;
}

// How many weights a cell with this many inputs has.
std::int64_t cell_size(const Stack& s, std::int64_t inputs) {
  const std::int64_t columns = multiply_add(s.name, 1, inputs, s.hidden + (s.bias ? 2 : 0));
  return multiply_add(s.name, s.gates(), columns, 0);
}

void check_sizes(const Stack& s) {
  constexpr std::int64_t most = std::int64_t{1} << 40;
  if (s.layers < 1 || s.layers > 4096) {
    fail_value(s.name, "expected num_layers in [1, 4096], got ", s.layers);
  }
  if (s.hidden < 1 || s.hidden > most) {
    fail_value(s.name, "expected a positive hidden_size, got ", s.hidden);
  }
  if (!(s.dropout >= 0 && s.dropout <= 1)) {
    fail_value(s.name, "expected dropout in [0, 1], got ", s.dropout);
  }
}

Specs infer_stack(const Stack& s, const Specs& in) {
  check_sizes(s);
  const std::size_t count = 2 + s.states();
  if (in.size() != count) fail_type(s.name, "expected ", count, " inputs, got ", in.size());
  for (const Spec& v : in) {
    if (!is_float(v.dtype)) fail_type(s.name, "expected inputs of a float dtype, got ", v.dtype);
    if (v.dtype != in[0].dtype) {
      fail_type(s.name, "expected inputs of one dtype, got ", in[0].dtype, " and ", v.dtype);
    }
  }
  const Shape& x = in[0].shape;
  if (x.size() != 3) fail_value(s.name, "expected x of shape (steps, batch, inputs), got ", x);
  const Shape state{s.cells(), x[1], s.hidden};
  for (std::size_t i = 1; i <= s.states(); ++i) {
    if (in[i].shape != state) {
      fail_value(s.name, "expected a state of shape ", state, " for x of shape ", x, ", got ",
                 in[i].shape);
    }
  }
  std::int64_t weights = 0;
  for (std::int64_t layer = 0; layer < s.layers; ++layer) {
    const std::int64_t size = cell_size(s, s.layer_inputs(layer, x[2]));
    weights = multiply_add(s.name, size, s.directions(), weights);
  }
  if (in[count - 1].size() != weights) {
    fail_value(s.name, "expected ", weights, " weights for x of shape ", x,
               ", got weights of shape ", in[count - 1].shape);
  }
  Specs out{Spec(in[0].dtype, {x[0], x[1], s.hidden * s.directions()})};
  mge::count(out[0].shape);
  for (std::size_t i = 0; i < s.states(); ++i) out.emplace_back(in[0].dtype, state);
  out.emplace_back(in[0].dtype, Shape{0});
  return out;
}

// The weights of each cell: w_ih, w_hh, b_ih, b_hh.
std::vector<Values> cell_weights(const Stack& s, const Value& weights, std::int64_t inputs) {
  std::vector<std::int64_t> sizes, widths;
  for (std::int64_t layer = 0; layer < s.layers; ++layer) {
    const std::int64_t columns = s.layer_inputs(layer, inputs);
    for (std::int64_t d = 0; d < s.directions(); ++d) {
      widths.push_back(columns);
      sizes.push_back(s.gates() * columns);
      sizes.push_back(s.gates() * s.hidden);
      if (s.bias) sizes.insert(sizes.end(), 2, s.gates());
    }
  }
  const Values parts = split(reshape(weights, {-1}), 0, sizes);
  std::vector<Values> out;
  for (std::size_t cell = 0; cell < widths.size(); ++cell) {
    const std::size_t i = cell * (s.bias ? 4 : 2);
    out.push_back({reshape(parts[i], {s.gates(), widths[cell]}),
                   reshape(parts[i + 1], {s.gates(), s.hidden})});
    if (s.bias) out.back().push_back(parts[i + 2]), out.back().push_back(parts[i + 3]);
  }
  return out;
}

// (cells, batch, hidden) as a state for each cell.
std::vector<Value> cell_states(const Stack& s, const Value& states) {
  const std::int64_t batch = states.shape()[1];
  if (s.cells() == 1) return {reshape(states, {batch, s.hidden})};
  const std::vector<std::int64_t> ones(static_cast<std::size_t>(s.cells()), 1);
  std::vector<Value> out;
  for (const Value& v : split(states, 0, ones)) out.push_back(reshape(v, {batch, s.hidden}));
  return out;
}

Value joined(Values states) {
  return states.size() == 1 ? expand_dims(states[0], {0}) : stack(std::move(states), 0);
}

Value dropped(const Stack& s, const Value& x) {
  if (s.dropout == 0) return x;
  if (s.dropout == 1) return zeros(Spec(x.dtype(), x.shape()));
  return call_all(Dropout{.drop_prob = s.dropout}, {x})[0];
}

Values run_stack(const Stack& s, const Values& in) {
  const std::int64_t inputs = in[0].shape()[2];
  const std::vector<Values> weights = cell_weights(s, in[1 + s.states()], inputs);
  std::array<std::vector<Value>, 2> first;
  std::array<Values, 2> last;
  for (std::size_t i = 0; i < s.states(); ++i) first[i] = cell_states(s, in[1 + i]);
  Value x = in[0];
  for (std::int64_t layer = 0; layer < s.layers; ++layer) {
    Values y;
    for (std::int64_t d = 0; d < s.directions(); ++d) {
      const auto cell = static_cast<std::size_t>(layer * s.directions() + d);
      Values operands{x};
      for (std::size_t i = 0; i < s.states(); ++i) operands.push_back(first[i][cell]);
      for (const Value& w : weights[cell]) operands.push_back(w);
      const Values out =
          call_all(RecurrentLayer{s.mode, s.bias, d == 1, s.training}, std::move(operands));
      y.push_back(out[0]);
      for (std::size_t i = 0; i < s.states(); ++i) last[i].push_back(out[1 + i]);
    }
    x = y.size() == 1 ? y[0] : concat(std::move(y), 2);
    if (s.training && layer + 1 < s.layers) x = dropped(s, x);
  }
  Values out{x};
  for (std::size_t i = 0; i < s.states(); ++i) out.push_back(joined(std::move(last[i])));
  out.push_back(zeros(Spec(x.dtype(), {0})));
  return out;
}

// ---- cells ----

// (x, w_ih, b_ih, h, w_hh, b_hh [, c]) as the inputs of a layer of one step.
Values one_step(RecurrentMode mode, const Values& in) {
  const Shape &x = in[0].shape(), &h = in[3].shape();
  const std::int64_t gates = cpu::gate_count(mode) * h[1];
  Values out{reshape(in[0], {1, x[0], x[1]}), in[3]};
  if (mode == RecurrentMode::LSTM) out.push_back(in[6]);
  for (std::size_t i : {1, 4}) out.push_back(in[i]);
  for (std::size_t i : {2, 5}) out.push_back(reshape(in[i], {gates}));
  return call_all(RecurrentLayer{mode, true, false, true}, std::move(out));
}

Specs infer_cell(const char* name, RecurrentMode mode, const Specs& in) {
  const bool lstm = mode == RecurrentMode::LSTM;
  if (in.size() != (lstm ? 7u : 6u)) {
    fail_type(name, "expected ", lstm ? 7 : 6, " inputs, got ", in.size());
  }
  for (const Spec& v : in) {
    if (!is_float(v.dtype)) fail_type(name, "expected inputs of a float dtype, got ", v.dtype);
    if (v.dtype != in[0].dtype) {
      fail_type(name, "expected inputs of one dtype, got ", in[0].dtype, " and ", v.dtype);
    }
  }
  const Shape &x = in[0].shape, &h = in[3].shape;
  if (x.size() != 2) fail_value(name, "expected x of shape (batch, inputs), got ", x);
  if (h.size() != 2 || h[0] != x[0]) {
    fail_value(name, "expected a state of shape (", x[0], ", hidden) for x of shape ", x, ", got ",
               h);
  }
  const auto expect = [&](const char* what, const Spec& got, const Shape& want) {
    if (got.shape != want) {
      fail_value(name, "expected ", what, " of shape ", want, " for x of shape ", x,
                 " and a state of shape ", h, ", got ", got.shape);
    }
  };
  const std::int64_t gates = count({cpu::gate_count(mode), h[1]});
  expect("weight_ih", in[1], {gates, x[1]});
  expect("weight_hh", in[4], {gates, h[1]});
  if (lstm) expect("a cell state", in[6], h);
  for (std::size_t i : {2, 5}) {
    if (in[i].size() != gates) {
      fail_value(name, "expected a bias of shape (", gates, ",), got ", in[i].shape);
    }
  }
  Specs out{Spec(in[0].dtype, h)};
  if (!lstm) return out;
  out.push_back(out[0]);
  const DType wide = in[0].dtype == DType::float64 ? DType::float64 : DType::float32;
  out.emplace_back(wide, Shape{x[0], gates});
  return out;
}

}  // namespace

Specs infer(const RNN& op, const Specs& in) { return infer_stack(stack_of(op), in); }
Values decompose(const RNN& op, const Values& in) { return run_stack(stack_of(op), in); }
REGISTER_OP(RNN);

Specs infer(const LSTM& op, const Specs& in) {
  if (op.proj_size != 0) {
    fail_value("LSTM", "projections are not supported: expected proj_size 0, got ", op.proj_size,
               "; multiply the outputs by a matrix instead");
  }
  return infer_stack(stack_of(op), in);
}
Values decompose(const LSTM& op, const Values& in) { return run_stack(stack_of(op), in); }
REGISTER_OP(LSTM);

Specs infer(const RNNCell& op, const Specs& in) {
  return infer_cell("RNNCell", mode_of(op.nonlineMode), in);
}
Values decompose(const RNNCell& op, const Values& in) {
  return {one_step(mode_of(op.nonlineMode), in)[1]};
}
REGISTER_OP(RNNCell);

Specs infer(const LSTMCell&, const Specs& in) {
  return infer_cell("LSTMCell", RecurrentMode::LSTM, in);
}
Values decompose(const LSTMCell&, const Values& in) {
  const Values out = one_step(RecurrentMode::LSTM, in);
  const Shape& gates = out[3].shape();
  return {out[1], out[2], reshape(out[3], {gates[1], gates[2]})};
}
REGISTER_OP(LSTMCell);

}  // namespace mge
