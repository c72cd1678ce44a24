// One recurrent layer in one direction: shapes, decomposition, gradient.

#include <array>

#include "core/ops/elementwise/elementwise.h"
#include "core/ops/matmul/matmul.h"
#include "core/ops/recurrent/recurrent.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

DType wide(DType dtype) { return dtype == DType::float64 ? dtype : DType::float32; }
bool is_lstm(RecurrentMode mode) { return mode == RecurrentMode::LSTM; }

// Where the inputs of the layer stand: x, h0, c0 of LSTM only, w_ih, w_hh, b_ih, b_hh.
struct Places {
  std::size_t x = 0, h0 = 1, c0, w_ih, w_hh, b_ih, b_hh, count;
  Places(RecurrentMode mode, bool bias) {
    c0 = 2;
    w_ih = is_lstm(mode) ? 3 : 2;
    w_hh = w_ih + 1;
    b_ih = w_ih + 2;
    b_hh = w_ih + 3;
    count = bias ? w_ih + 4 : w_ih + 2;
  }
};

void expect(const char* op, const char* what, const Spec& got, const Shape& shape) {
  if (got.shape != shape) {
    fail_value(op, "expected ", what, " of shape ", shape, ", got ", got.shape);
  }
}

void check_dtypes(const char* op, const Specs& in, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_float(in[i].dtype)) {
      fail_type(op, "expected inputs of a float dtype, got ", in[i].dtype);
    }
    if (in[i].dtype != in[0].dtype) {
      fail_type(op, "expected inputs of one dtype, got ", in[0].dtype, " and ", in[i].dtype);
    }
  }
}

// Checks the inputs of the forward op.
void check_layer(const char* op, RecurrentMode mode, bool bias, const Specs& in) {
  const Places at(mode, bias);
  if (in.size() != at.count) fail_type(op, "expected ", at.count, " inputs, got ", in.size());
  check_dtypes(op, in, in.size());
  const Shape& x = in[0].shape;
  if (x.size() != 3) fail_value(op, "expected x of shape (steps, batch, inputs), got ", x);
  if (in[1].ndim() != 2) {
    fail_value(op, "expected a state of shape (batch, hidden), got ", in[1].shape);
  }
  const std::int64_t batch = x[1], hidden = in[1].shape[1];
  const Shape gates{hidden * cpu::gate_count(mode)};
  count({hidden, cpu::gate_count(mode)});
  expect(op, "a state", in[1], {batch, hidden});
  if (is_lstm(mode)) expect(op, "a cell state", in[at.c0], {batch, hidden});
  expect(op, "w_ih", in[at.w_ih], {gates[0], x[2]});
  expect(op, "w_hh", in[at.w_hh], {gates[0], hidden});
  for (std::size_t i = at.b_ih; i < at.count; ++i) expect(op, "a bias", in[i], gates);
}

// What a layer computes, step by step in the order of time, in public ops.
struct Unrolled {
  RecurrentMode mode;
  bool reverse;
  std::int64_t steps, batch, hidden, gates;
  Value x, h0, c0, w_ih, w_hh, b_ih, b_hh;  // in the dtype of computing
  std::vector<Value> h, c;                  // (batch, hidden) after each step
  std::vector<Values> activated;            // LSTM: i, f, g, o of each step

  Unrolled(RecurrentMode m, bool bias, bool backwards, const Values& in) : mode(m) {
    const Places at(m, bias);
    const DType dtype = wide(in[0].dtype());
    reverse = backwards;
    x = cast(in[at.x], dtype);
    h0 = cast(in[at.h0], dtype);
    if (is_lstm(m)) c0 = cast(in[at.c0], dtype);
    w_ih = cast(in[at.w_ih], dtype);
    w_hh = cast(in[at.w_hh], dtype);
    if (bias) b_ih = cast(in[at.b_ih], dtype), b_hh = cast(in[at.b_hh], dtype);
    steps = x.shape()[0];
    batch = x.shape()[1];
    hidden = h0.shape()[1];
    gates = cpu::gate_count(m) * hidden;
    run();
  }

  // The position in x of step k.
  std::int64_t position(std::int64_t k) const { return reverse ? steps - 1 - k : k; }
  // (steps, ...) cut into its steps, by position, without the axis.
  std::vector<Value> cut(const Value& v) const {
    Shape shape = v.shape();
    shape.erase(0);
    const std::vector<std::int64_t> ones(static_cast<std::size_t>(steps), 1);
    std::vector<Value> out;
    for (const Value& part : split(v, 0, ones)) out.push_back(reshape(part, shape));
    return out;
  }
  // The opposite, from values in the order of time.
  Value join(const std::vector<Value>& v, std::int64_t width, DType dtype) const {
    if (steps == 0) return reshape(cast(x, dtype), {0, batch, width});
    Values parts;
    for (std::int64_t k = 0; k < steps; ++k) {
      parts.push_back(cast(v[static_cast<std::size_t>(position(k))], dtype));
    }
    return stack(std::move(parts), 0);
  }
  Value product(const Value& v, const Value& weight, const Value& bias) const {
    return bias ? call(Linear{}, v, weight, bias) : call(Linear{}, v, weight);
  }

 private:
  void run() {
    if (steps == 0) return;
    const std::vector<Value> from_x = cut(product(x, w_ih, b_ih));
    Value state = h0, cell = c0;
    for (std::int64_t k = 0; k < steps; ++k) {
      const Value& from_input = from_x[static_cast<std::size_t>(position(k))];
      const Value sums = add(from_input, product(state, w_hh, b_hh));
      if (is_lstm(mode)) {
        const std::vector<std::int64_t> sizes(4, hidden);
        const Values part = split(sums, 1, sizes);
        const auto sigmoid = [](const Value& v) { return elemwise(Elemwise::Mode::SIGMOID, v); };
        activated.push_back({sigmoid(part[0]), sigmoid(part[1]), tanh(part[2]), sigmoid(part[3])});
        const Values& a = activated.back();
        cell = add(mul(a[1], cell), mul(a[0], a[2]));
        state = mul(a[3], tanh(cell));
        c.push_back(cell);
      } else if (mode == RecurrentMode::TANH) {
        state = tanh(sums);
      } else {
        state = mode == RecurrentMode::RELU ? elemwise(Elemwise::Mode::RELU, sums) : sums;
      }
      h.push_back(state);
    }
  }
};

// 1 - v^2
Value one_minus_square(const Value& v) { return sub(scalar_like(v, 1), square(v)); }
// v (1 - v)
Value slope_of_sigmoid(const Value& v) { return mul(v, sub(scalar_like(v, 1), v)); }

// The gradient of the four sums of an LSTM step; dc becomes that of the cell state before.
Value lstm_step_backward(const Unrolled& u, std::size_t k, const Value& dh, Value& dc) {
  const Values& a = u.activated[k];
  const Value t = tanh(u.c[k]);
  const Value& before = k == 0 ? u.c0 : u.c[k - 1];
  const Value dcell = add(dc, mul(mul(dh, a[3]), one_minus_square(t)));
  dc = mul(dcell, a[1]);
  return concat(
      {mul(mul(dcell, a[2]), slope_of_sigmoid(a[0])),
       mul(mul(dcell, before), slope_of_sigmoid(a[1])),
       mul(mul(dcell, a[0]), one_minus_square(a[2])), mul(mul(dh, t), slope_of_sigmoid(a[3]))},
      1);
}

// v without any of its rows.
Value none_of(const Value& v) {
  const std::array<std::int64_t, 2> sizes{0, v.shape()[0]};
  return split(v, 0, sizes)[0];
}

Value step_backward(const Unrolled& u, std::size_t k, const Value& dh, Value& dc) {
  switch (u.mode) {
    case RecurrentMode::LSTM:
      return lstm_step_backward(u, k, dh, dc);
    case RecurrentMode::TANH:
      return mul(dh, one_minus_square(u.h[k]));
    case RecurrentMode::RELU:
      return where(less(scalar_like(dh, 0), u.h[k]), dh, scalar_like(dh, 0));
    case RecurrentMode::IDENTITY:
      return dh;
  }
  fail_value("RecurrentLayerBackward", "unknown mode");
}

}  // namespace

Specs infer(const RecurrentLayer& op, const Specs& in) {
  check_layer("RecurrentLayer", op.mode, op.bias, in);
  const Spec &x = in[0], &h0 = in[1];
  const std::int64_t steps = x.shape[0], batch = x.shape[1], hidden = h0.shape[1];
  Specs out{Spec(x.dtype, {steps, batch, hidden}), Spec(x.dtype, {batch, hidden})};
  count(out[0].shape);
  if (!is_lstm(op.mode)) return out;
  out.emplace_back(x.dtype, Shape{batch, hidden});
  const std::int64_t kept = op.save ? steps : 0;
  out.emplace_back(wide(x.dtype), Shape{kept, batch, 4 * hidden});
  out.emplace_back(wide(x.dtype), Shape{kept, batch, hidden});
  count(out[3].shape);
  return out;
}

Values decompose(const RecurrentLayer& op, const Values& in) {
  const Unrolled u(op.mode, op.bias, op.reverse, in);
  const DType dtype = in[0].dtype(), computing = wide(dtype);
  const auto last = [&](const std::vector<Value>& v, const Value& first) {
    return cast(v.empty() ? first : v.back(), dtype);
  };
  Values out{u.join(u.h, u.hidden, dtype), last(u.h, u.h0)};
  if (!is_lstm(op.mode)) return out;
  out.push_back(last(u.c, u.c0));
  std::vector<Value> gates;
  for (const Values& a : u.activated) gates.push_back(concat(a, 1));
  Value all_gates = u.join(gates, u.gates, computing), cells = u.join(u.c, u.hidden, computing);
  if (!op.save) {
    all_gates = none_of(all_gates), cells = none_of(cells);
  }
  out.push_back(all_gates);
  out.push_back(cells);
  return out;
}

Keep keep(const RecurrentLayer& op, std::uint32_t) {
  const Places at(op.mode, op.bias);
  const std::uint32_t outputs = is_lstm(op.mode) && op.save ? 0b11001 : 0b00001;
  return {(1u << at.count) - 1, outputs};
}

Values grad(const RecurrentLayer& op, const GradArgs& g) {
  const Places at(op.mode, op.bias);
  const bool lstm = is_lstm(op.mode);
  Values in{g.dy_or_zeros(0), g.dy_or_zeros(1)};
  if (lstm) in.push_back(g.dy_or_zeros(2));
  for (const Value& v : g.inputs) in.push_back(v);
  in.push_back(g.outputs[0]);
  if (lstm && op.save) {
    in.push_back(g.outputs[3]);
    in.push_back(g.outputs[4]);
  } else if (lstm) {
    RecurrentLayer again = op;
    again.save = true;
    Values inputs;
    for (const Value& v : g.inputs) inputs.push_back(v);
    const Values full = call_all(again, std::move(inputs));
    in.push_back(full[3]);
    in.push_back(full[4]);
  }
  Values d = call_all(RecurrentLayerBackward{op.mode, op.bias, op.reverse, g.need(0)}, in);
  if (!g.need(0)) d[0] = {};
  return d;
}

REGISTER_OP(RecurrentLayer);

namespace {
// The forward op's inputs start here among those of the backward op.
std::size_t first_input(RecurrentMode mode) { return is_lstm(mode) ? 3 : 2; }
}  // namespace

Specs infer(const RecurrentLayerBackward& op, const Specs& in) {
  const char* name = "RecurrentLayerBackward";
  const Places at(op.mode, op.bias);
  const std::size_t first = first_input(op.mode), saved = first + at.count;
  const std::size_t total = saved + (is_lstm(op.mode) ? 3 : 1);
  if (in.size() != total) fail_type(name, "expected ", total, " inputs, got ", in.size());
  check_dtypes(name, in, saved + 1);
  Specs inputs;
  for (std::size_t i = first; i < saved; ++i) inputs.push_back(in[i]);
  check_layer(name, op.mode, op.bias, inputs);
  const Shape x = inputs[0].shape, state = inputs[1].shape;
  const Shape y{x[0], x[1], state[1]};
  expect(name, "dy", in[0], y);
  expect(name, "dh", in[1], state);
  expect(name, "y", in[saved], y);
  if (is_lstm(op.mode)) {
    expect(name, "dc", in[2], state);
    expect(name, "gates", in[saved + 1], {x[0], x[1], 4 * state[1]});
    expect(name, "cells", in[saved + 2], y);
    for (std::size_t i = saved + 1; i < total; ++i) {
      if (in[i].dtype != wide(in[0].dtype)) {
        fail_type(name, "expected gates and cells of dtype ", wide(in[0].dtype), ", got ",
                  in[i].dtype);
      }
    }
  }
  Specs out;
  for (const Spec& s : inputs) out.emplace_back(s.dtype, s.shape);
  if (!op.input_grad) out[0] = Spec(in[0].dtype, {0});
  return out;
}

// The states are computed from the inputs again: they depend on them, and derivatives of the
// backward op have to know.
Values decompose(const RecurrentLayerBackward& op, const Values& in) {
  const Places at(op.mode, op.bias);
  const std::size_t first = first_input(op.mode);
  Values inputs;
  for (std::size_t i = first; i < first + at.count; ++i) inputs.push_back(in[i]);
  const Unrolled u(op.mode, op.bias, op.reverse, inputs);
  const DType dtype = in[0].dtype(), computing = wide(dtype);
  Value dh = cast(in[1], computing), dc;
  if (is_lstm(op.mode)) dc = cast(in[2], computing);
  const std::int64_t rows = u.steps * u.batch;
  const std::vector<Value> dy = u.steps ? u.cut(cast(in[0], computing)) : std::vector<Value>();
  std::vector<Value> d(static_cast<std::size_t>(u.steps)), before(d.size());
  for (std::size_t k = d.size(); k-- > 0;) {
    dh = add(dh, dy[static_cast<std::size_t>(u.position(long(k)))]);
    d[k] = step_backward(u, k, dh, dc);
    dh = matmul(d[k], u.w_hh);
    before[k] = k == 0 ? u.h0 : u.h[k - 1];
  }
  const Value dgates = reshape(u.join(d, u.gates, computing), {rows, u.gates});
  const Value states = reshape(u.join(before, u.hidden, computing), {rows, u.hidden});
  Values out;
  if (op.input_grad) {
    out.push_back(reshape(matmul(dgates, u.w_ih), u.x.shape()));
  } else {
    out.push_back(reshape(none_of(dgates), {0}));
  }
  out.push_back(dh);
  if (is_lstm(op.mode)) out.push_back(dc);
  out.push_back(matmul(dgates, reshape(u.x, {rows, u.x.shape()[2]}), true));
  out.push_back(matmul(dgates, states, true));
  if (op.bias) {
    out.push_back(sum(dgates, {0}, false));
    out.push_back(out.back());
  }
  for (Value& v : out) v = cast(v, dtype);
  return out;
}

REGISTER_OP(RecurrentLayerBackward);

}  // namespace mge
