#include <algorithm>
#include <array>
#include <optional>

#include "core/kernels/cpu/gemm.h"
#include "core/kernels/cpu/packed.h"
#include "core/ops/matmul/matmul.h"
#include "core/ops/recurrent/recurrent.h"
#include "core/ops/reduce/reduce.h"

namespace mge {

namespace cpu {
std::int64_t recurrent_packed_size(std::int64_t depth, std::int64_t width) {
  constexpr std::int64_t kWidest = 32;  // columns of a panel
  return depth * ((width + kWidest - 1) / kWidest * kWidest);
}
}  // namespace cpu

namespace {

using cpu::Packed;
using std::int64_t;

View matrix(const void* data, DType dtype, int64_t rows, int64_t cols) {
  const Shape shape{rows, cols};
  return {data, dtype, shape, row_major(shape)};
}
MutView mut_matrix(void* data, DType dtype, int64_t rows, int64_t cols) {
  const Shape shape{rows, cols};
  return {data, dtype, shape, row_major(shape)};
}

void multiply(CpuContext& context, const View& a, const View& b, bool transpose_a, bool transpose_b,
              const MutView& out) {
  kernel(MatrixMul{transpose_a, transpose_b}, context, std::array{a, b}, MutViews(&out, 1));
}

// An output in the dtype of computing: itself, or a buffer that is converted at the end.
class Result {
 public:
  Result(const MutView& wanted, DType dtype) : wanted_(wanted), view_(wanted) {
    if (wanted.dtype == dtype) return;
    scratch_.emplace(static_cast<std::size_t>(wanted.size() * size_of(dtype)));
    view_.data = scratch_->as<void>();
    view_.dtype = dtype;
  }
  const MutView& view() const { return view_; }
  void* data() const { return view_.data; }
  void finish() const {
    if (scratch_) cpu::copy(view_, wanted_);
  }

 private:
  MutView wanted_, view_;
  std::optional<Scratch> scratch_;
};

void fill_zero(const MutView& out) {
  const int64_t zero = 0;
  cpu::copy(View{&zero, DType::int64, Shape{}, Strides{}}, out);
}

template <class T>
T* offset(T* data, int64_t elements, DType dtype) {
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  return static_cast<Byte*>(data) + elements * size_of(dtype);
}

// The recurrent weights (G, H), packed for rows times their transpose (forward) or themselves.
class PackedWeights {
 public:
  PackedWeights(const Packed& w, DType dtype, int64_t gates, int64_t hidden, bool transpose)
      : scratch_(static_cast<std::size_t>(
            cpu::recurrent_packed_size(transpose ? hidden : gates, transpose ? gates : hidden) *
            size_of(dtype))) {
    const int64_t depth = transpose ? hidden : gates, width = transpose ? gates : hidden;
    const int64_t step_p = transpose ? 1 : hidden, step_j = transpose ? hidden : 1;
    MGE_DISPATCH(pack_recurrent)(dtype, w.data(), depth, width, step_p, step_j,
                                 scratch_.as<void>());
  }
  const void* data() const { return scratch_.as<void>(); }

 private:
  Scratch scratch_;
};

// Where the operands of a layer stand, and its sizes.
struct LayerAt {
  bool lstm;
  std::size_t w_ih, w_hh, b_ih;
  DType dtype;  // of computing
  int64_t steps, batch, inputs, hidden, gates;

  LayerAt(RecurrentMode mode, const View& x, const View& h0)
      : lstm(mode == RecurrentMode::LSTM),
        w_ih(lstm ? 3 : 2),
        w_hh(w_ih + 1),
        b_ih(w_ih + 2),
        dtype(cpu::compute_dtype(x.dtype)),
        steps(x.shape[0]),
        batch(x.shape[1]),
        inputs(x.shape[2]),
        hidden(h0.shape[1]),
        gates(hidden * cpu::gate_count(mode)) {}
  int64_t state() const { return batch * hidden; }
};

// b_ih + b_hh
class BothBiases {
 public:
  BothBiases(const LayerAt& at, Views in)
      : scratch_(static_cast<std::size_t>(at.gates * size_of(at.dtype))),
        view_{scratch_.as<void>(), at.dtype, Shape{at.gates}, Strides{1}} {
    const Packed a(in[at.b_ih], at.dtype), b(in[at.b_ih + 1], at.dtype);
    if (at.dtype == DType::float64) {
      add<double>(a, b);
    } else {
      add<float>(a, b);
    }
  }
  const MutView& view() const { return view_; }

 private:
  template <class T>
  void add(const Packed& a, const Packed& b) {
    for (int64_t i = 0; i < view_.shape[0]; ++i) {
      view_.ptr<T>()[i] = a.as<T>()[i] + b.as<T>()[i];
    }
  }
  Scratch scratch_;
  MutView view_;
};

// How many steps the products with the inputs are computed for at a time, where they are not kept:
// enough rows for a matrix product at full speed, few enough that they stay in cache.
int64_t steps_at_a_time(const LayerAt& at) {
  const int64_t rows = std::clamp<int64_t>((1 << 20) / at.gates, 256, 2048);
  return std::clamp<int64_t>(rows / at.batch, 1, at.steps);
}

}  // namespace

void kernel(const RecurrentLayer& op, CpuContext& context, Views in, MutViews out) {
  const LayerAt at(op.mode, in[0], in[1]);
  if (out[1].size() == 0) return;  // nothing else has elements then
  if (at.steps == 0) {
    cpu::copy(in[1], out[1]);
    if (at.lstm) cpu::copy(in[2], out[2]);
    return;
  }
  const Packed x(in[0], at.dtype), h0(in[1], at.dtype);
  const Packed w_ih(in[at.w_ih], at.dtype), w_hh(in[at.w_hh], at.dtype);
  std::optional<Packed> c0;
  if (at.lstm) c0.emplace(in[2], at.dtype);
  std::optional<BothBiases> bias;
  if (op.bias) bias.emplace(at, in);
  const Result y(out[0], at.dtype);
  std::optional<PackedWeights> packed;
  std::optional<Scratch> product;
  if (at.steps > 1) {
    packed.emplace(w_hh, at.dtype, at.gates, at.hidden, true);
  } else {
    product.emplace(static_cast<std::size_t>(at.batch * at.gates * size_of(at.dtype)));
    multiply(context, matrix(h0.data(), at.dtype, at.batch, at.hidden),
             matrix(w_hh.data(), at.dtype, at.gates, at.hidden), false, true,
             mut_matrix(product->as<void>(), at.dtype, at.batch, at.gates));
  }

  const bool keep = at.lstm && op.save;
  const int64_t chunk = keep ? at.steps : steps_at_a_time(at);
  std::optional<Scratch> own_gates, own_cells;
  if (at.lstm && !op.save) {
    const auto size = static_cast<std::size_t>(size_of(at.dtype));
    own_gates.emplace(static_cast<std::size_t>(chunk * at.batch * at.gates) * size);
    own_cells.emplace(static_cast<std::size_t>(at.state()) * size);
  }
  const void *h = h0.data(), *c = c0 ? c0->data() : nullptr;
  for (int64_t done = 0; done < at.steps; done += chunk) {
    const int64_t steps = std::min(chunk, at.steps - done);
    const int64_t first = op.reverse ? at.steps - done - steps : done;
    void* const y_here = offset(y.data(), first * at.state(), at.dtype);
    void* const gates = !at.lstm ? y_here : keep ? out[3].data : own_gates->as<void>();
    void* const cells = !at.lstm ? nullptr : keep ? out[4].data : own_cells->as<void>();
    const int64_t rows = steps * at.batch;
    const void* x_here = offset(x.data(), first * at.batch * at.inputs, at.dtype);
    const View products[3] = {matrix(x_here, at.dtype, rows, at.inputs),
                              matrix(w_ih.data(), at.dtype, at.gates, at.inputs),
                              bias ? View(bias->view()) : View()};
    const MutView sums = mut_matrix(gates, at.dtype, rows, at.gates);
    kernel(Linear{}, context, Views(products, bias ? 3 : 2), MutViews(&sums, 1));
    const cpu::RecurrentForward r{.dtype = at.dtype,
                                  .mode = op.mode,
                                  .reverse = op.reverse,
                                  .steps = steps,
                                  .batch = at.batch,
                                  .hidden = at.hidden,
                                  .gates = gates,
                                  .w_hh = packed ? packed->data() : nullptr,
                                  .product = product ? product->as<void>() : nullptr,
                                  .h0 = h,
                                  .c0 = c,
                                  .y = y_here,
                                  .cells = cells,
                                  .keep_cells = keep};
    MGE_DISPATCH(recurrent_forward)(r);
    const int64_t last = op.reverse ? 0 : steps - 1;
    h = offset(y_here, last * at.state(), at.dtype);
    if (at.lstm) c = offset(cells, keep ? last * at.state() : 0, at.dtype);
  }
  const Strides state = row_major(out[1].shape);
  cpu::copy(View{h, at.dtype, out[1].shape, state}, out[1]);
  if (at.lstm) cpu::copy(View{c, at.dtype, out[2].shape, state}, out[2]);
  y.finish();
}
REGISTER_KERNEL(RecurrentLayer, cpu);

namespace {

// dw_hh = the sum over steps of dgates^T times the state before.
void recurrent_weight_grad(const LayerAt& at, bool reverse, CpuContext& context, const void* dgates,
                           const void* y, const void* h0, const MutView& out) {
  if (at.steps == 1) {
    const View d = matrix(dgates, at.dtype, at.batch, at.gates);
    return multiply(context, d, matrix(h0, at.dtype, at.batch, at.hidden), true, false, out);
  }
  const int64_t rows = (at.steps - 1) * at.batch;
  const int64_t d_skip = reverse ? 0 : at.batch * at.gates, y_skip = reverse ? at.state() : 0;
  const View d = matrix(offset(dgates, d_skip, at.dtype), at.dtype, rows, at.gates);
  const View before = matrix(offset(y, y_skip, at.dtype), at.dtype, rows, at.hidden);
  multiply(context, d, before, true, false, out);
  const int64_t first = reverse ? (at.steps - 1) * at.batch * at.gates : 0;
  cpu::Gemm g;
  g.m = at.gates, g.n = at.hidden, g.k = at.batch;
  g.a = offset(dgates, first, at.dtype), g.a_row = 1, g.a_col = at.gates;
  g.b = h0, g.b_row = at.hidden, g.b_col = 1;
  g.c = out.data, g.c_row = at.hidden, g.c_col = 1;
  g.accumulate = true;
  cpu::gemm(at.dtype, g);
}

// Gradients where there is no step: those of the last states are those of the first.
void backward_without_steps(const LayerAt& at, Views in, MutViews out) {
  for (const MutView& v : out) fill_zero(v);
  if (out[1].size() == 0) return;
  cpu::copy(in[1], out[1]);
  if (at.lstm) cpu::copy(in[2], out[2]);
}

// The gradients of the sums are as many as the gates, and a step needs only its own gates: `room`,
// where it is given, may be the memory of the gates.
void run_backward(const RecurrentLayerBackward& op, CpuContext& context, Views in, MutViews out,
                  void* room) {
  const std::size_t states = op.mode == RecurrentMode::LSTM ? 2 : 1;
  const Views inputs = in.subspan(1 + states);  // of the forward op
  const LayerAt at(op.mode, inputs[0], inputs[1]);
  if (at.steps * at.state() == 0) return backward_without_steps(at, in, out);
  const std::size_t saved = at.b_ih + (op.bias ? 2 : 0);
  const Packed dy(in[0], at.dtype), x(inputs[0], at.dtype), h0(inputs[1], at.dtype);
  const Packed w_ih(inputs[at.w_ih], at.dtype), w_hh(inputs[at.w_hh], at.dtype);
  const Packed y(inputs[saved], at.dtype);
  std::optional<Packed> c0, gates, cells;
  if (at.lstm) {
    c0.emplace(inputs[2], at.dtype);
    gates.emplace(inputs[saved + 1], at.dtype);
    cells.emplace(inputs[saved + 2], at.dtype);
  }
  const Result dh(out[1], at.dtype);
  cpu::copy(in[1], dh.view());
  std::optional<Result> dc;
  if (at.lstm) {
    dc.emplace(out[2], at.dtype);
    cpu::copy(in[2], dc->view());
  }
  const int64_t rows = at.steps * at.batch;
  const auto bytes = static_cast<std::size_t>(rows * at.gates * size_of(at.dtype));
  const Scratch scratch(room ? 0 : bytes);
  if (!room) room = scratch.as<void>();
  const View dgates = matrix(room, at.dtype, rows, at.gates);
  const View recurrent = matrix(w_hh.data(), at.dtype, at.gates, at.hidden);
  {
    std::optional<PackedWeights> packed;
    if (at.steps > 1) packed.emplace(w_hh, at.dtype, at.gates, at.hidden, false);
    const cpu::RecurrentBackward r{.dtype = at.dtype,
                                   .mode = op.mode,
                                   .reverse = op.reverse,
                                   .steps = at.steps,
                                   .batch = at.batch,
                                   .hidden = at.hidden,
                                   .w_hh = packed ? packed->data() : nullptr,
                                   .dy = dy.data(),
                                   .y = y.data(),
                                   .gates = gates ? gates->data() : nullptr,
                                   .cells = cells ? cells->data() : nullptr,
                                   .c0 = c0 ? c0->data() : nullptr,
                                   .dh = dh.data(),
                                   .dc = dc ? dc->data() : nullptr,
                                   .dgates = room};
    MGE_DISPATCH(recurrent_backward)(r);
  }
  if (at.steps == 1) {
    const MutView first = mut_matrix(dh.data(), at.dtype, at.batch, at.hidden);
    multiply(context, dgates, recurrent, false, false, first);
  }
  dh.finish();
  if (dc) dc->finish();
  if (op.input_grad) {
    const Result dx(out[0], at.dtype);
    const MutView flat = mut_matrix(dx.data(), at.dtype, rows, at.inputs);
    const View w = matrix(w_ih.data(), at.dtype, at.gates, at.inputs);
    multiply(context, dgates, w, false, false, flat);
    dx.finish();
  }
  const Result dw_ih(out[at.w_ih], at.dtype), dw_hh(out[at.w_hh], at.dtype);
  const View flat_x = matrix(x.data(), at.dtype, rows, at.inputs);
  multiply(context, dgates, flat_x, true, false, dw_ih.view());
  recurrent_weight_grad(at, op.reverse, context, dgates.data, y.data(), h0.data(), dw_hh.view());
  dw_ih.finish();
  dw_hh.finish();
  if (!op.bias) return;
  const Result db(out[at.b_ih], at.dtype);
  const Reduce total{.mode = Reduce::Mode::SUM, .axis = Dims{0}, .keepdim = false};
  kernel(total, context, Views(&dgates, 1), MutViews(&db.view(), 1));
  db.finish();
  cpu::copy(db.view(), out[at.b_ih + 1]);
}

}  // namespace

void kernel(const RecurrentLayerBackward& op, CpuContext& context, Views in, MutViews out) {
  run_backward(op, context, in, out, nullptr);
}
REGISTER_KERNEL(RecurrentLayerBackward, cpu);

Values execute(const RecurrentLayerBackward& op, Values& in) {
  Specs specs;
  for (const Value& v : in) specs.push_back(v.spec());
  Specs wanted = infer(op, specs);
  Values results;
  SmallVector<MutView, 8> out;
  for (Spec& spec : wanted) {
    spec.device = in[0].device();
    results.push_back(Value::empty(spec));
    out.push_back(results.back().mut());
  }
  SmallVector<View, 16> views;
  for (const Value& v : in) views.push_back(v.view());
  void* room = nullptr;
  if (op.mode == RecurrentMode::LSTM) {
    const Value& gates = in[in.size() - 2];
    if (gates.row_major() && gates.unique()) room = gates.mut().data;
  }
  CpuContext context;
  run_backward(op, context, Views(views.begin(), views.size()), MutViews(out.begin(), out.size()),
               room);
  return results;
}

}  // namespace mge
