#include "core/dispatch/amp.h"

#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/dispatch/dispatch.h"
#include "core/graph/symbol.h"
#include "core/ops/elementwise/elementwise.h"

namespace mge {
namespace {

// ---- kept casts
// ---------------------------------------------------------------------------------

// By the value that was cast. It does not hold that value, whose buffer an optimizer's step may
// want to itself: the value's notice tells of its end.
class CastCache {
 public:
  // The kept cast, or an undefined Value.
  Value find(const Value& from, DType dtype) {
    const std::lock_guard lock(mutex_);
    const auto at = casts_.find(from.impl());
    if (at == casts_.end() || at->second.dtype() != dtype) return {};
    ++reuses_;
    return at->second;
  }
  void keep(const Value& from, const Value& cast) {
    Value old;  // destroyed without the lock, which its own notice may want
    const std::lock_guard lock(mutex_);
    ++made_;
    if (scopes_ == 0) return;
    ValueImpl& impl = *from.impl();
    if (!impl.cast_notice) impl.cast_notice = std::make_unique<Notice>(&impl);
    old = std::exchange(casts_[&impl], cast);
  }
  void forget(const ValueImpl* from) noexcept {
    Value old;
    const std::lock_guard lock(mutex_);
    if (const auto at = casts_.find(from); at != casts_.end()) {
      old = std::move(at->second);
      casts_.erase(at);
    }
  }
  void open_scope() {
    const std::lock_guard lock(mutex_);
    ++scopes_;
  }
  void close_scope() {
    std::unordered_map<const ValueImpl*, Value> old;
    const std::lock_guard lock(mutex_);
    if (--scopes_ == 0) old.swap(casts_);
  }
  CastCacheStats stats() {
    const std::lock_guard lock(mutex_);
    CastCacheStats s{
        .entries = static_cast<std::int64_t>(casts_.size()), .casts = made_, .reuses = reuses_};
    for (const auto& [from, cast] : casts_) s.bytes += cast.size() * size_of(cast.dtype());
    return s;
  }

 private:
  struct Notice final : Companion {
    const ValueImpl* of;
    explicit Notice(const ValueImpl* impl) : of(impl) {}
    ~Notice() override;
  };

  std::mutex mutex_;
  std::unordered_map<const ValueImpl*, Value> casts_;
  std::int64_t scopes_ = 0, made_ = 0, reuses_ = 0;
};

// Never destroyed: values in module globals outlive statics.
CastCache& cache() {
  static auto* const one = new CastCache;
  return *one;
}

CastCache::Notice::~Notice() { cache().forget(of); }

// ---- the layer
// ----------------------------------------------------------------------------------

// No autocast while one of these lives: an op may be made of others, whose dtypes it has chosen.
class PauseAmp {
 public:
  PauseAmp() : amp_(std::exchange(dispatch_state().amp, nullptr)) {}
  ~PauseAmp() { dispatch_state().amp = amp_; }
  PauseAmp(const PauseAmp&) = delete;
  PauseAmp& operator=(const PauseAmp&) = delete;

 private:
  Layer* amp_;
};

// A traced call compares its ops with those of earlier calls: they must not depend on what was
// cast outside of it. Its passes merge equal casts.
bool cacheable(const Value& v) {
  return !dispatch_state().trace && !v.impl()->unique() && !symbol_of(v);
}

// A cast to the low precision. Each use is a node of its own on the tapes, so that the gradients
// of several uses are added up in the dtype of the value.
Value lowered(const Value& v, DType dtype) {
  if (!cacheable(v)) return cast(v, dtype);
  Value kept = cache().find(v, dtype);
  if (!kept) {
    const PauseGrad pause;
    kept = cast(v, dtype);
    cache().keep(v, kept);
  }
  const DispatchState& s = dispatch_state();
  if (s.tapes.empty() || s.pause_grad > 0) return kept;
  Values outputs{kept};
  record_as(make_op(TypeCvt{dtype}), {v}, outputs);
  return outputs[0];
}

DType widest(const Values& inputs, std::uint32_t mask) {
  std::optional<DType> all;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (i < 32 && !(mask >> i & 1u)) continue;
    const DType d = inputs[i].dtype();
    if (!is_float(d)) continue;
    if (d == DType::float64) return d;
    all = !all || *all == d ? d : DType::float32;
  }
  return all.value_or(DType::float32);
}

class AmpLayer final : public Layer {
 public:
  Autocast now;

  Values apply(const OpRef& op, Values inputs) override {
    const Amp how = amp_of(*op);
    const PauseAmp pause;
    if (how == Amp::follow) return apply_below_amp(op, std::move(inputs));
    const std::uint32_t mask = op->type->traits.amp_inputs;
    const DType common = widest(inputs, mask), wanted = dtype_for(how, common);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Value& v = inputs[i];
      if ((i < 32 && !(mask >> i & 1u)) || v.dtype() == wanted || !is_float(v.dtype())) continue;
      v = wanted == now.low ? lowered(v, wanted) : cast(v, wanted);
    }
    Values outputs = apply_below_amp(op, std::move(inputs));
    if (how == Amp::inner && autocast_takes(common)) {
      for (Value& v : outputs) {
        if (v.dtype() == now.low) v = cast(v, now.high);
      }
    }
    return outputs;
  }

  DType dtype_for(Amp how, DType common) const {
    if (!autocast_takes(common)) return common;
    switch (how) {
      case Amp::low:
      case Amp::inner:
        return now.low;
      case Amp::high:
        return now.high;
      default:
        return common;
    }
  }
};

// ---- scopes
// -------------------------------------------------------------------------------------

struct State {
  // What a scope found. Autocast may be on and yet not at work, in the midst of an op.
  struct Outer {
    Autocast now;
    Layer* amp;
  };
  AmpLayer layer;
  std::vector<Outer> outer;

  void set(const Autocast& wanted) {
    layer.now = wanted;
    dispatch_state().amp = wanted.enabled ? &layer : nullptr;
  }
  ~State() {
    for (std::size_t i = 0; i < outer.size(); ++i) cache().close_scope();
  }
};
State& state() {
  static thread_local State one;
  return one;
}

}  // namespace

const Autocast& autocast() { return state().layer.now; }
void set_autocast(const Autocast& wanted) { state().set(wanted); }

void enter_autocast(const Autocast& wanted) {
  State& s = state();
  s.outer.push_back({s.layer.now, dispatch_state().amp});
  cache().open_scope();
  s.set(wanted);
}

void leave_autocast() {
  State& s = state();
  if (s.outer.empty()) fail_runtime("autocast", "no scope is open on this thread");
  s.layer.now = s.outer.back().now;
  dispatch_state().amp = s.outer.back().amp;
  s.outer.pop_back();
  cache().close_scope();
}

DType autocast_dtype(const Op& op, DType common) {
  const State& s = state();
  return dispatch_state().amp ? s.layer.dtype_for(amp_of(op), common) : common;
}

CastCacheStats cast_cache_stats() { return cache().stats(); }

}  // namespace mge
