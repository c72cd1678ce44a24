#include "core/ops/attention/attention.h"
#include "core/kernels/cpu/packed.h"
#include "core/ops/attention/attention.loops.h"

namespace mge {
namespace {

cpu::RandomStream stream_of(const View& state) {
  const std::int64_t* words = state.ptr<std::int64_t>();
  return {static_cast<std::uint64_t>(words[0]),
          static_cast<std::uint64_t>(words[state.strides[0]])};
}

cpu::AttentionInput input(const View& v) {
  return {v.data, v.strides[0], v.strides[1], v.strides[2], v.strides[3]};
}
cpu::AttentionOutput output(const MutView& v) {
  return {v.data, v.strides[0], v.strides[1], v.strides[2], v.strides[3]};
}

cpu::AttentionMask mask_of(const View& v) {
  cpu::AttentionMask m;
  m.data = v.data;
  m.dtype = v.dtype;
  m.image = v.shape[0] == 1 ? 0 : v.strides[0];
  m.head = v.shape[1] == 1 ? 0 : v.strides[1];
  m.row = v.shape[2] == 1 ? 0 : v.strides[2];
  m.col = v.shape[3] == 1 ? 0 : v.strides[3];
  return m;
}

// Each thread packs a head: raises where that cannot be in memory (what repeats may be huge).
void check_memory(const char* name, const cpu::Attention& at) {
  const double rows = static_cast<double>(at.queries) + static_cast<double>(at.keys) + 64;
  const double columns = static_cast<double>(at.depth) + static_cast<double>(at.width) + 64;
  if (rows * columns > 0x1p45) {
    fail(ErrorKind::memory, name, "a head of ", at.queries, " queries and ", at.keys,
         " keys of depth ", at.depth, " and ", at.width, " does not fit in memory");
  }
}

// From (q, k, v, masks..., [state]), which begin at in[first].
template <class Op>
cpu::Attention problem(const Op& op, Views in, std::size_t first) {
  const View &q = in[first], &k = in[first + 1], &v = in[first + 2];
  cpu::Attention at;
  at.dtype = q.dtype;
  at.images = q.shape[0];
  at.heads = q.shape[1];
  at.queries = q.shape[2];
  at.keys = k.shape[2];
  at.depth = q.shape[3];
  at.width = v.shape[3];
  at.scale = op.scale;
  at.causal = op.causal;
  at.drop_prob = op.drop_prob;
  at.q = input(q);
  at.k = input(k);
  at.v = input(v);
  const std::size_t tail = op.drop_prob > 0 ? 1 : 0;
  if (tail) at.stream = stream_of(in.back());
  for (std::size_t i = first + 3; i < in.size() - tail; ++i) {
    at.masks[at.mask_count++] = mask_of(in[i]);
  }
  check_memory(Op::traits.name, at);
  return at;
}

}  // namespace

void kernel(const ScaledDotProductAttention& op, CpuContext&, Views in, MutViews out) {
  const cpu::Attention at = problem(op, in, 0);
  MGE_DISPATCH(attention_forward)(at, output(out[0]), out[1].data);
}
REGISTER_KERNEL(ScaledDotProductAttention, cpu);

void kernel(const ScaledDotProductAttentionBackward& op, CpuContext&, Views in, MutViews out) {
  const cpu::Attention at = problem(op, in, 3);
  const cpu::Packed lse(in[2]);
  MGE_DISPATCH(attention_backward)(at, input(in[0]), input(in[1]), lse.data(), output(out[0]),
                                   output(out[1]), output(out[2]));
}
REGISTER_KERNEL(ScaledDotProductAttentionBackward, cpu);

void kernel(const RandomCounters& op, CpuContext&, Views, MutViews out) {
  const GeneratorState state = take_counters(op.handle, static_cast<std::uint64_t>(op.count));
  out[0].ptr<std::int64_t>()[0] = static_cast<std::int64_t>(state.seed);
  out[0].ptr<std::int64_t>()[1] = static_cast<std::int64_t>(state.offset);
}
REGISTER_KERNEL(RandomCounters, cpu);

void kernel(const AttentionDropoutMask& op, CpuContext&, Views in, MutViews out) {
  if (out[0].size() == 0) return;
  const std::int64_t keys = op.shape.back();
  MGE_DISPATCH(attention_dropout_mask)(stream_of(in[0]), op.drop_prob, out[0].size() / keys, keys,
                                       out[0].ptr<bool>());
}
REGISTER_KERNEL(AttentionDropoutMask, cpu);

}  // namespace mge
