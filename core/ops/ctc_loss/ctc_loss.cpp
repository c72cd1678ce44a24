#include "core/ops/ctc_loss/ctc_loss.h"

#include <array>
#include <cmath>
#include <limits>

#include "core/autodiff/tape.h"
#include "core/dispatch/dispatch.h"
#include "core/ops/creation/creation.h"
#include "core/ops/cumsum/cumsum.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/indexing/indexing.h"
#include "core/ops/reduce/reduce.h"
#include "core/ops/shape/shape.h"

namespace mge {
namespace {

DType wide(DType dtype) { return dtype == DType::float64 ? dtype : DType::float32; }

// Checks probs, input_lengths, labels and label_lengths; gives the size of alpha.
std::int64_t check(const char* op, std::int64_t blank, const Specs& in, std::size_t first) {
  const Spec &probs = in[first], &labels = in[first + 2];
  if (!is_float(probs.dtype)) {
    fail_type(op, "expected probabilities of a float dtype, got ", probs.dtype);
  }
  if (probs.ndim() != 3) {
    fail_value(op, "expected probabilities of shape (T, N, C), got ", probs.shape);
  }
  const std::int64_t samples = probs.shape[1], classes = probs.shape[2];
  for (std::size_t i = 1; i < 4; ++i) {
    if (!is_integer(in[first + i].dtype)) {
      fail_type(op, "expected integer lengths and labels, got ", in[first + i].dtype);
    }
  }
  for (std::size_t i : {1, 3}) {
    if (in[first + i].shape != Shape{samples}) {
      fail_value(op, "expected lengths of shape ", Shape{samples}, ", got ", in[first + i].shape);
    }
  }
  if (labels.ndim() != 1 && !(labels.ndim() == 2 && labels.shape[0] == samples)) {
    fail_value(op, "expected labels of shape (sum of label_lengths,) or (", samples, ", S), got ",
               labels.shape);
  }
  if (blank < 0 || blank >= classes) {
    fail_value(op, "expected blank in [0, ", classes, "), got ", blank);
  }
  std::int64_t rows;
  if (__builtin_mul_overflow(labels.size(), 2, &rows) ||
      __builtin_add_overflow(rows, samples, &rows)) {
    fail_value(op, "labels of shape ", labels.shape, " are too many");
  }
  return count({probs.shape[0], rows});
}

// ---- the loss in public ops ----

constexpr double kNever = -1e30;  // the logarithm of 0; finite, so that gradients are

// 0, ..., n - 1 as a row.
Value positions(std::int64_t n, const Value& like) {
  return reshape(arange(n, DType::int64, like.device()), {1, n});
}
Value column(const Value& v) { return reshape(cast(v, DType::int64), {v.size(), 1}); }

// (N, S) whatever the layout was; positions past the length of a sample hold class 0.
Value padded_labels(const Value& labels, const Value& lengths) {
  const std::int64_t samples = lengths.size();
  const std::int64_t most = labels.shape()[labels.ndim() - 1];
  const Value at = positions(most, labels), length = column(lengths);
  const Value inside = less(at, length);
  const Value zero = scalar_like(length, 0);
  Value padded = cast(labels, DType::int64);
  if (labels.ndim() == 1) {
    const Value start = call(Cumsum{.axis = 0, .exclusive = true}, length);
    const Value index = where(inside, add(at, start), broadcast_to(zero, {samples, most}));
    padded = reshape(call(Gather{.axis = 0}, padded, flatten(index)), {samples, most});
  }
  return where(inside, padded, zero);
}

Value log_sum(const Value& a, const Value& b) {
  return elemwise(Elemwise::Mode::LOG_SUM_EXP, a, b);
}

// v[:, begin:end]
Value columns(const Value& v, std::int64_t begin, std::int64_t end) {
  const std::array<std::int64_t, 3> sizes{begin, end - begin, v.shape()[1] - end};
  return split(v, 1, sizes)[1];
}

// Forward variables of all samples: the states that end in a blank (N, S + 1) and in a label
// (N, S).
struct States {
  Value blank, label;
};

struct Unrolled {
  std::int64_t frames, samples, most;
  Value log_blank, log_label;  // (T, N, 1), (T, N, S)
  Value barrier;               // (N, S): where a label may follow the one before at once
  Value input_lengths, label_lengths;

  Unrolled(std::int64_t blank, const Values& in) {
    const Value probs = cast(in[0], wide(in[0].dtype()));
    frames = probs.shape()[0];
    samples = probs.shape()[1];
    const Value labels = padded_labels(in[2], in[3]);
    most = labels.shape()[1];
    const double tiny = probs.dtype() == DType::float64 ? std::numeric_limits<double>::min()
                                                        : double(std::numeric_limits<float>::min());
    const Value logs = log(maximum(probs, scalar_like(probs, tiny)));
    const std::array<std::int64_t, 3> cut{blank, 1, probs.shape()[2] - blank - 1};
    log_blank = split(logs, 2, cut)[1];
    const Shape all{frames, samples, most};
    log_label = call(Gather{.axis = 2}, logs, broadcast_to(expand_dims(labels, {0}), all));
    input_lengths = column(in[1]);
    label_lengths = column(in[3]);
    if (most > 1) {
      const Value same = equal(columns(labels, 1, most), columns(labels, 0, most - 1));
      const Value before = broadcast_to(scalar_like(probs, kNever), {samples, most - 1});
      barrier = where(same, before, scalar_like(probs, 0));
    }
  }

  Value never(std::int64_t width) const {
    return broadcast_to(scalar_like(log_blank, kNever), {samples, width});
  }
  Value frame(const Value& logs, std::int64_t t) const {
    const std::array<std::int64_t, 3> cut{t, 1, frames - t - 1};
    return reshape(split(logs, 0, cut)[1], {samples, logs.shape()[2]});
  }
  States first() const {
    const auto start = [&](const Value& logs, std::int64_t width) {
      if (width == 0) return never(0);
      return concat({columns(frame(logs, 0), 0, 1), never(width - 1)}, 1);
    };
    return {start(log_blank, most + 1), start(log_label, most)};
  }
  States next(const States& s, std::int64_t t) const {
    const Value from_label = concat({never(1), s.label}, 1);
    States out{add(log_sum(s.blank, from_label), frame(log_blank, t)), s.label};
    if (most == 0) return out;
    Value ways = log_sum(s.label, columns(s.blank, 0, most));
    if (most > 1) {
      const Value skipped = add(columns(s.label, 0, most - 1), barrier);
      ways = log_sum(ways, concat({never(1), skipped}, 1));
    }
    out.label = add(ways, frame(log_label, t));
    return out;
  }
  // The element of each row at the sample's own position, kNever where that is outside.
  Value own(const Value& rows, const Value& position) const {
    const Value mine = equal(positions(rows.shape()[1], rows), position);
    const Value zero = scalar_like(rows, 0);
    const Value found = sum(where(mine, rows, zero), {1}, true);
    const Value inside = less_equal(scalar_like(position, 0), position);
    return where(inside, found, scalar_like(rows, kNever));
  }
};

Value loss_of(std::int64_t blank, const Values& in) {
  const Unrolled u(blank, in);
  const DType dtype = wide(in[0].dtype());
  const Value one = scalar_like(u.label_lengths, 1), zero = scalar_like(u.label_lengths, 0);
  const double tiny = dtype == DType::float64 ? std::numeric_limits<double>::min()
                                              : double(std::numeric_limits<float>::min());
  const Value impossible = scalar_like(u.log_blank, -std::log(tiny));
  const Value nothing = scalar_like(u.log_blank, 0);
  Value loss = where(equal(u.label_lengths, zero), nothing, impossible);
  if (u.frames > 0) {
    States s = u.first();
    for (std::int64_t t = 1; t < u.frames; ++t) {
      const States later = u.next(s, t);
      const Value running = less(scalar_like(u.input_lengths, double(t)), u.input_lengths);
      s = {where(running, later.blank, s.blank), where(running, later.label, s.label)};
    }
    const Value total =
        log_sum(u.own(s.blank, u.label_lengths), u.own(s.label, sub(u.label_lengths, one)));
    const Value never = less(total, scalar_like(total, kNever / 10));
    const Value with_frames = where(never, impossible, neg(total));
    loss = where(less(scalar_like(u.input_lengths, 0), u.input_lengths), with_frames, loss);
  }
  return reshape(loss, {u.samples});
}

// Only tapes that are opened while one of these lives record, even where recording is paused.
class OwnTapesOnly {
 public:
  OwnTapesOnly() {
    DispatchState& s = dispatch_state();
    paused_ = s.pause_grad;
    if (paused_ == 0) return;
    s.pause_grad = 0;
    s.tapes.swap(outer_);
  }
  ~OwnTapesOnly() {
    DispatchState& s = dispatch_state();
    if (paused_ == 0) return;
    s.pause_grad = paused_;
    s.tapes.swap(outer_);
  }
  OwnTapesOnly(const OwnTapesOnly&) = delete;
  OwnTapesOnly& operator=(const OwnTapesOnly&) = delete;

 private:
  int paused_ = 0;
  std::vector<Tape*> outer_;
};

}  // namespace

Specs infer(const CTCLoss& op, const Specs& in) {
  if (in.size() != 4) fail_type("CTCLoss", "expected 4 inputs, got ", in.size());
  const std::int64_t alpha = check("CTCLoss", op.blank, in, 0);
  return {Spec(wide(in[0].dtype), {in[0].shape[1]}), Spec(DType::float64, {alpha})};
}

// alpha belongs to the kernel: without it there is none, and zeros stand in its place.
Values decompose(const CTCLoss& op, const Values& in) {
  Specs specs;
  for (const Value& v : in) specs.push_back(v.spec());
  return {loss_of(op.blank, in), zeros(infer(op, specs)[1])};
}

Keep keep(const CTCLoss&, std::uint32_t) { return {0b1111, 0b10}; }

// alpha carries no gradient of its own.
Values grad(const CTCLoss& op, const GradArgs& g) {
  Values out(4);
  if (!g.dy[0]) return out;
  out[0] = call(CTCLossBackward{op.blank}, g.dy[0], g.inputs[0], g.inputs[1], g.inputs[2],
                g.inputs[3], g.outputs[1]);
  return out;
}

REGISTER_OP(CTCLoss);

Specs infer(const CTCLossBackward& op, const Specs& in) {
  const char* name = "CTCLossBackward";
  if (in.size() != 6) fail_type(name, "expected 6 inputs, got ", in.size());
  const std::int64_t alpha = check(name, op.blank, in, 1);
  const Shape samples{in[1].shape[1]};
  if (!is_float(in[0].dtype) || in[0].shape != samples) {
    fail_value(name, "expected float gradients of shape ", samples, ", got ", in[0].dtype,
               " of shape ", in[0].shape);
  }
  if (in[5].dtype != DType::float64 || in[5].shape != Shape{alpha}) {
    fail_value(name, "expected a float64 alpha of ", alpha, " values, got ", in[5].dtype,
               " of shape ", in[5].shape);
  }
  return {Spec(in[1].dtype, in[1].shape)};
}

// The derivative of the loss in public ops, by a tape of its own.
Values decompose(const CTCLossBackward& op, const Values& in) {
  const OwnTapesOnly own;
  Tape tape;
  tape.watch(in[1]);
  tape.enter();
  const Value loss = loss_of(op.blank, {in[1], in[2], in[3], in[4]});
  const Value found = tape.backward({loss}, {in[0]})[0];
  return {found ? found : zeros(Spec(in[1].dtype(), in[1].shape()))};
}

REGISTER_OP(CTCLossBackward);

}  // namespace mge
