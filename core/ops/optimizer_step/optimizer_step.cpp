#include "core/ops/optimizer_step/optimizer_step.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/dispatch/dispatch.h"
#include "core/kernels/cpu/copy.h"
#include "core/kernels/cpu/parallel.h"
#include "core/ops/optimizer_step/kernel.h"
#include "core/tensor/fill.h"

namespace mge {
namespace {

// Fewer elements than this are not worth a thread: some 20 us of memory traffic.
constexpr std::int64_t kGrain = 1 << 14;

DType state_dtype(const Value& param) {
  return param.dtype() == DType::float64 ? DType::float64 : DType::float32;
}

void check(const char* name, const StepOptions& options, const StepSlot& slot) {
  const Value &p = *slot.param, &g = slot.grad;
  if (!is_float(p.dtype()) || !is_float(g.dtype())) {
    fail_type(name, "expected float parameters and gradients, got a ", g.dtype(), " gradient of a ",
              p.dtype(), " parameter");
  }
  if (g.shape() != p.shape()) {
    fail_value(name, "expected a gradient of the parameter's shape ", p.shape(), ", got ",
               g.shape());
  }
  for (int i = 0; i < step_states(options.rule); ++i) {
    const Value& s = *slot.state[i];
    if (!is_float(s.dtype()) || s.shape() != p.shape()) {
      fail_value(name, "expected float state of the parameter's shape ", p.shape(), ", got ",
                 s.dtype(), " of ", s.shape());
    }
  }
  if (step_counts(options.rule) && slot.step->size() != 1) {
    fail_value(name, "expected one number as the count of steps, got shape ", slot.step->shape());
  }
  if (slot.low && (!is_float(slot.low->dtype()) || slot.low->shape() != p.shape())) {
    fail_value(name, "expected a float copy of the parameter's shape ", p.shape(), ", got ",
               slot.low->dtype(), " of ", slot.low->shape());
  }
}

// Whether v lies in memory as `strides` say; where an axis has one element its stride says nothing.
bool has_layout(const Value& v, const Strides& strides) {
  for (int i = 0; i < v.ndim(); ++i) {
    if (v.shape()[i] != 1 && v.strides()[i] != strides[i]) return false;
  }
  return true;
}

// v itself, or a copy of it in this dtype and layout.
Value brought_to(const Value& v, DType dtype, const Strides& strides) {
  if (v.dtype() == dtype && has_layout(v, strides)) return v;
  Spec spec(dtype, v.shape(), strides);
  spec.device = v.device();
  Value out = Value::empty(spec);
  if (out.size() > 0) cpu::copy(v.view(), out.mut());
  return out;
}

// Where a value goes next: the same buffer under a new identity (tapes and caches follow the old
// one) where nobody else holds it, else a new buffer.
Value successor(const Value& v, DType dtype, const Strides& strides) {
  if (v.unique() && v.dtype() == dtype && has_layout(v, strides)) return v.detached();
  Spec spec(dtype, v.shape(), strides);
  spec.device = v.device();
  return Value::empty(spec);
}

// A slot on its way: what is read, and what will take its place.
struct Job {
  Value in, grad, state_in[2];
  Value out, state[2];
  Value step, low;
  cpu::StepNumbers numbers;
  std::int64_t begin = 0;  // of its elements among those of all jobs
};

cpu::StepNumbers numbers_for(const StepOptions& o, double step) {
  cpu::StepNumbers n{o.lr, o.momentum, o.weight_decay, o.beta1, o.beta2, o.eps, 1, 1};
  if (o.rule == StepRule::adam || o.rule == StepRule::adamw) {
    n.lr = o.lr / (1 - std::pow(o.beta1, step));
    n.root_scale = 1 / std::sqrt(1 - std::pow(o.beta2, step));
  }
  if (o.rule == StepRule::lamb && o.bias_correction) {
    n.mean_scale = 1 / (1 - std::pow(o.beta1, step));
    n.root_scale = 1 / std::sqrt(1 - std::pow(o.beta2, step));
  }
  if (o.rule == StepRule::adamw) n.weight_decay = o.lr * o.weight_decay;
  if (o.rule == StepRule::adagrad) n.lr = o.lr / (1 + (step - 1) * o.lr_decay);
  return n;
}

Job prepare(const StepOptions& options, const StepSlot& slot) {
  const Value& p = *slot.param;
  const Strides layout = dense_like(p.shape(), p.strides());
  Job job;
  job.out = successor(p, p.dtype(), layout);
  job.in = brought_to(p, p.dtype(), layout);
  job.grad = brought_to(slot.grad, slot.grad.dtype(), layout);
  for (int i = 0; i < step_states(options.rule); ++i) {
    const Value& s = *slot.state[i];
    job.state[i] = successor(s, state_dtype(p), layout);
    job.state_in[i] = brought_to(s, state_dtype(p), layout);
  }
  double step = 0;
  if (step_counts(options.rule)) {
    step = *brought_to(*slot.step, DType::float64, row_major(slot.step->shape())).ptr<double>() + 1;
    job.step = full(slot.step->spec(), step);
  }
  if (slot.low) job.low = successor(*slot.low, slot.low->dtype(), layout);
  job.numbers = numbers_for(options, step);
  return job;
}

const char* at(const Value& v, std::int64_t element) {
  return v ? v.ptr<char>() + element * size_of(v.dtype()) : nullptr;
}
char* mut_at(const Value& v, std::int64_t element) { return const_cast<char*>(at(v, element)); }

cpu::StepSpan span_of(const Job& job, std::int64_t begin, std::int64_t end) {
  cpu::StepSpan span{};
  span.param_in = at(job.in, begin);
  span.param = mut_at(job.out, begin);
  span.param_dtype = job.in.dtype();
  span.grad = at(job.grad, begin);
  span.grad_dtype = job.grad.dtype();
  for (int i = 0; i < 2; ++i) {
    span.state_in[i] = at(job.state_in[i], begin);
    span.state[i] = mut_at(job.state[i], begin);
  }
  span.count = end - begin;
  return span;
}

void run(StepRule rule, const Job& job, std::int64_t begin, std::int64_t end) {
  const cpu::StepSpan span = span_of(job, begin, end);
  if (job.in.dtype() == DType::float64) {
    MGE_DISPATCH(optimizer_step_f64)(rule, job.numbers, span);
  } else {
    MGE_DISPATCH(optimizer_step_f32)(rule, job.numbers, span);
  }
}

// One pass over all jobs. Elements are independent, so any cut gives the same numbers.
void run_all(StepRule rule, const std::vector<Job>& jobs) {
  if (jobs.empty()) return;
  const std::int64_t total = jobs.back().begin + jobs.back().in.size();
  cpu::parallel_for(total, kGrain, [&](std::int64_t begin, std::int64_t end) {
    auto job = std::upper_bound(jobs.begin(), jobs.end(), begin,
                                [](std::int64_t n, const Job& j) { return n < j.begin; }) -
               1;
    for (; job != jobs.end() && job->begin < end; ++job) {
      const std::int64_t first = std::max(begin - job->begin, std::int64_t{0});
      const std::int64_t last = std::min(end - job->begin, job->in.size());
      if (first < last) run(rule, *job, first, last);
    }
  });
}

// Moments and norms of all jobs, then their parameters. Chunks are cut alike for any number of
// threads, and their norms added in order.
void run_lamb(std::vector<Job>& jobs) {
  struct Chunk {
    Job* job;
    std::int64_t begin, end;
    cpu::LambNorms norms;
  };
  std::vector<Chunk> chunks;
  for (Job& job : jobs) {
    for (std::int64_t i = 0; i < job.in.size(); i += kGrain) {
      chunks.push_back({&job, i, std::min(i + kGrain, job.in.size()), {}});
    }
  }
  const auto over_chunks = [&](auto&& f) {
    const auto n = static_cast<std::int64_t>(chunks.size());
    cpu::parallel_for(n, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        Chunk& c = chunks[static_cast<std::size_t>(i)];
        f(c, span_of(*c.job, c.begin, c.end), c.job->in.dtype() == DType::float64);
      }
    });
  };
  over_chunks([](Chunk& c, const cpu::StepSpan& span, bool wide) {
    c.norms = wide ? MGE_DISPATCH(lamb_moments_f64)(c.job->numbers, span)
                   : MGE_DISPATCH(lamb_moments_f32)(c.job->numbers, span);
  });
  for (auto c = chunks.begin(); c != chunks.end();) {
    Job* job = c->job;
    cpu::LambNorms norms;
    for (; c != chunks.end() && c->job == job; ++c) {
      norms.param += c->norms.param;
      norms.update += c->norms.update;
    }
    // A parameter of zeros, or one that would stay as it is, has no scale to adapt to.
    if (norms.param != 0 && norms.update != 0) {
      job->numbers.lr *= std::sqrt(norms.param) / std::sqrt(norms.update);
    }
  }
  over_chunks([](Chunk& c, const cpu::StepSpan& span, bool wide) {
    wide ? MGE_DISPATCH(lamb_update_f64)(c.job->numbers, span)
         : MGE_DISPATCH(lamb_update_f32)(c.job->numbers, span);
  });
}

}  // namespace

int step_states(StepRule rule) {
  switch (rule) {
    case StepRule::sgd:
      return 0;
    case StepRule::sgd_momentum:
    case StepRule::sgd_nesterov:
    case StepRule::adagrad:
      return 1;
    case StepRule::adam:
    case StepRule::adamw:
    case StepRule::adadelta:
    case StepRule::lamb:
      return 2;
  }
  return 0;
}

bool step_counts(StepRule rule) {
  return rule == StepRule::adam || rule == StepRule::adamw || rule == StepRule::adagrad ||
         rule == StepRule::adadelta || rule == StepRule::lamb;
}

namespace {

// Takes the step at once. What a slot points to is replaced at the end; nothing raises after that
// has begun.
void step_now(const StepOptions& options, std::span<const StepSlot> slots) {
  std::vector<Job> jobs;
  jobs.reserve(slots.size());
  std::int64_t total = 0;
  for (const StepSlot& slot : slots) {
    jobs.push_back(prepare(options, slot));
    jobs.back().begin = total;
    total += slot.param->size();
  }
  // Nothing below raises.
  if (options.rule != StepRule::lamb) {
    run_all(options.rule, jobs);
  } else if (options.weight_decay > 0 || options.always_adapt) {
    run_lamb(jobs);
  } else {
    // Without the ratio of norms LAMB is Adam.
    for (Job& job : jobs) job.numbers.lr *= job.numbers.mean_scale;
    run_all(StepRule::adam, jobs);
  }
  for (std::size_t i = 0; i < slots.size(); ++i) {
    Job& job = jobs[i];
    *slots[i].param = std::move(job.out);
    for (int k = 0; k < step_states(options.rule); ++k)
      *slots[i].state[k] = std::move(job.state[k]);
    if (job.step) *slots[i].step = std::move(job.step);
    if (job.low) {
      cpu::copy(slots[i].param->view(), job.low.mut());
      *slots[i].low = std::move(job.low);
    }
  }
}

OptimizerStep op_for(const StepOptions& o, bool low) {
  return {o.rule, o.momentum, o.weight_decay,    o.beta1,        o.beta2,
          o.eps,  o.lr_decay, o.bias_correction, o.always_adapt, low};
}

// What a slot holds, in the order of OptimizerStep's outputs.
SmallVector<Value*, 4> stepped(const StepOptions& options, const StepSlot& slot) {
  SmallVector<Value*, 4> out{slot.param};
  for (int i = 0; i < step_states(options.rule); ++i) out.push_back(slot.state[i]);
  if (slot.step) out.push_back(slot.step);
  if (slot.low) out.push_back(slot.low);
  return out;
}

void record_step(const StepOptions& options, std::span<const StepSlot> slots) {
  if (slots.empty()) return;
  Spec number(DType::float64, {});
  number.device = slots[0].param->device();
  const Value lr = full(number, options.lr);
  const OpRef ops[2] = {make_op(op_for(options, false)), make_op(op_for(options, true))};
  PauseGrad pause;
  for (const StepSlot& slot : slots) {
    const SmallVector<Value*, 4> places = stepped(options, slot);
    Values in{lr, slot.grad}, out;
    // Moved in, so that the step may be in place.
    for (Value* v : places) in.push_back(std::move(*v));
    try {
      out = execute(ops[slot.low != nullptr], in);
    } catch (...) {
      for (std::size_t i = 0; i < places.size(); ++i) {
        *places[i] = std::move(in[kFirstStepped + i]);
      }
      throw;
    }
    for (std::size_t i = 0; i < out.size(); ++i) *places[i] = std::move(out[i]);
  }
}

}  // namespace

// Recorded steps let gradients go early. Of fewer parameters than this there is no memory to save,
// and a node for each one takes longer than the step: 4 us for six small ones.
constexpr std::int64_t kWorthRecording = 1 << 16;

static bool worth_recording(std::span<const StepSlot> slots) {
  std::int64_t size = 0;
  for (const StepSlot& slot : slots) size += slot.param->size();
  return size >= kWorthRecording;
}

void optimizer_step(const char* name, const StepOptions& options, std::span<const StepSlot> slots) {
  for (const StepSlot& slot : slots) check(name, options, slot);
  if (dispatch_state().trace && worth_recording(slots)) {
    record_step(options, slots);
  } else {
    flush_trace();  // gradients may be pending, and other threads cannot have them computed
    step_now(options, slots);
  }
}

Values execute(const OptimizerStep& op, Values& in) {
  const char* name = "OptimizerStep";
  const auto states = static_cast<std::size_t>(step_states(op.rule));
  const std::size_t count = kFirstStepped + 1 + states + step_counts(op.rule) + op.low;
  if (in.size() != count) fail_type(name, "expected ", count, " inputs, got ", in.size());
  if (in[0].dtype() != DType::float64 || in[0].ndim() != 0) {
    fail_type(name, "expected a float64 number as the learning rate, got ", in[0].dtype(),
              " of shape ", in[0].shape());
  }
  const StepOptions options{
      op.rule, *in[0].ptr<double>(), op.momentum,        op.weight_decay, op.beta1, op.beta2,
      op.eps,  op.lr_decay,          op.bias_correction, op.always_adapt};
  StepSlot slot{&in[kFirstStepped], in[1]};
  std::size_t next = kFirstStepped + 1;
  for (std::size_t i = 0; i < states; ++i) slot.state[i] = &in[next++];
  if (step_counts(op.rule)) slot.step = &in[next++];
  if (op.low) slot.low = &in[next++];
  check(name, options, slot);
  step_now(options, {&slot, 1});
  Values out;
  for (std::size_t i = kFirstStepped; i < count; ++i) out.push_back(std::move(in[i]));
  return out;
}
REGISTER_OP(OptimizerStep);

}  // namespace mge
