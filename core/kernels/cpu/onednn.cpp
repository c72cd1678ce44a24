#include "core/kernels/cpu/onednn.h"

#include <bit>
#include <cstring>
#include <limits>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "core/kernels/cpu/packed_weights.h"
#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/simd.h"

namespace mge::cpu::dnn {
namespace {

using std::int64_t;
using Desc = dnnl::memory::desc;

// Calls f; an exception of oneDNN becomes ours, with the name of the op.
template <class F>
auto guarded(const char* op, F&& f) {
  try {
    return f();
  } catch (const dnnl::error& e) {
    fail(e.status == dnnl_out_of_memory ? ErrorKind::memory : ErrorKind::runtime, op,
         "oneDNN failed: ", e.what(), " (status ", static_cast<int>(e.status), ")");
  }
}

// Never destroyed: values with packed weights may outlive every static object.
dnnl::engine& engine() {
  static dnnl::engine* const one = [] {
    if (isa() == Isa::avx2) dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2);
    return new dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return *one;
}

dnnl::memory::data_type type_of(DType dtype) {
  switch (dtype) {
    case DType::bfloat16:
      return dnnl::memory::data_type::bf16;
    case DType::float16:
      return dnnl::memory::data_type::f16;
    default:
      return dnnl::memory::data_type::f32;
  }
}

Desc plain(DType dtype, const Shape& shape, const Strides& strides) {
  return {dnnl::memory::dims(shape.begin(), shape.end()), type_of(dtype),
          dnnl::memory::dims(strides.begin(), strides.end())};
}

Desc any_layout(DType dtype, const Shape& shape) {
  return {dnnl::memory::dims(shape.begin(), shape.end()), type_of(dtype),
          dnnl::memory::format_tag::any};
}

// ---- the cache
// ------------------------------------------------------------------------------------

enum class Kind : std::uint8_t { matmul, forward, backward_data, backward_filter };

// What a primitive was made for.
class Key {
 public:
  void add(int64_t v) { words_[static_cast<std::size_t>(size_++)] = v; }
  void add(const Dims& d) {
    for (int64_t v : d) add(v);
  }
  void add(const View& v) {
    add(static_cast<int64_t>(v.dtype) << 8 | v.ndim());
    add(v.shape);
    add(v.strides);
  }
  std::size_t hash() const {
    std::uint64_t h = 0x9e3779b97f4a7c15u;
    for (int i = 0; i < size_; ++i) {
      h = (h ^ static_cast<std::uint64_t>(words_[static_cast<std::size_t>(i)])) *
          0xff51afd7ed558ccdu;
      h ^= h >> 32;
    }
    return h;
  }
  friend bool operator==(const Key& a, const Key& b) {
    return a.size_ == b.size_ &&
           std::memcmp(a.words_.data(), b.words_.data(),
                       static_cast<std::size_t>(a.size_) * sizeof(int64_t)) == 0;
  }

 private:
  // The longest: four operands of eight axes, and a convolution's attributes.
  std::array<int64_t, 4 * (1 + 2 * kMaxDims) + 16> words_;
  int size_ = 0;
};
struct KeyHash {
  std::size_t operator()(const Key& k) const { return k.hash(); }
};

// A primitive with the memory objects that it is called with; only their addresses change.
struct Entry {
  bool fits = false;
  dnnl::primitive primitive;
  std::vector<dnnl::memory> memories;
  std::vector<dnnl_exec_arg_t> args;
  std::size_t scratch = 0;
  // Between the plain layout of weights and the one that the primitive wants, where they differ.
  bool reorders = false;
  Desc packed;
  WeightLayout layout;  // of `packed`
  dnnl::primitive reorder;
  dnnl::memory reorder_from, reorder_to;
  std::uint64_t used = 0;

  int add(int argument, const Desc& desc) {
    memories.emplace_back(dnnl::memory(desc, engine(), DNNL_MEMORY_NONE));
    args.push_back({argument, memories.back().get()});
    return static_cast<int>(memories.size()) - 1;
  }
  void set(int i, const void* data) {
    memories[static_cast<std::size_t>(i)].set_data_handle(const_cast<void*>(data));
  }
};

dnnl::stream& stream() {
  thread_local dnnl::stream one(engine());
  return one;
}

constexpr std::size_t kMostEntries = 1024;

class Cache {
 public:
  // The entry for this key, made by make(entry) at the first call.
  template <class F>
  Entry& get(const char* op, const Key& key, F&& make) {
    if (auto found = entries_.find(key); found != entries_.end()) {
      found->second->used = ++clock_;
      return *found->second;
    }
    auto entry = std::make_unique<Entry>();
    guarded(op, [&] { make(*entry); });
    if (entries_.size() >= kMostEntries) drop_oldest();
    entry->used = ++clock_;
    return *entries_.emplace(key, std::move(entry)).first->second;
  }

 private:
  void drop_oldest() {
    auto oldest = entries_.begin();
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (it->second->used < oldest->second->used) oldest = it;
    }
    entries_.erase(oldest);
  }
  std::unordered_map<Key, std::unique_ptr<Entry>, KeyHash> entries_;
  std::uint64_t clock_ = 0;
};

// One for each thread, since the memory objects of an entry are written at each call.
Cache& cache() {
  thread_local Cache one;
  return one;
}

// Our modes as oneDNN has them: an algorithm and its two numbers.
struct Eltwise {
  dnnl::algorithm algorithm;
  float alpha, beta;
};
std::optional<Eltwise> eltwise_of(ElementMode mode, float alpha, float beta) {
  using dnnl::algorithm;
  switch (mode) {
    case ElementMode::RELU:
      // x * clip(huge * x, 0, 1): oneDNN's own makes 0 of NaN. Minus infinity gives NaN here.
      return Eltwise{algorithm::eltwise_hardswish, std::numeric_limits<float>::max(), 0};
    case ElementMode::PRELU:
      return Eltwise{algorithm::eltwise_relu, alpha, 0};
    case ElementMode::RELU6:
      return Eltwise{algorithm::eltwise_clip, 0, 6};
    case ElementMode::CLIP:
      return Eltwise{algorithm::eltwise_clip, alpha, beta};
    case ElementMode::SIGMOID:
      return Eltwise{algorithm::eltwise_logistic, 0, 0};
    case ElementMode::TANH:
      return Eltwise{algorithm::eltwise_tanh, 0, 0};
    case ElementMode::SILU:
      return Eltwise{algorithm::eltwise_swish, 1, 0};
    case ElementMode::H_SWISH:
      return Eltwise{algorithm::eltwise_hardswish, 1.f / 6, 0.5f};
    case ElementMode::HSIGMOID:
      return Eltwise{algorithm::eltwise_hardsigmoid, 1.f / 6, 0.5f};
    case ElementMode::GELU:
      return Eltwise{algorithm::eltwise_gelu_erf, 0, 0};
    default:
      return std::nullopt;
  }
}

dnnl::primitive_attr attributes(const PostOps& post = {}) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops ops;
  if (post.add == PostOps::Add::before_activation) ops.append_sum(1.f);
  if (post.activation) {
    const Eltwise e = *eltwise_of(*post.activation, post.alpha, post.beta);
    ops.append_eltwise(e.algorithm, e.alpha, e.beta);
    // Adding 0 makes 0 of the -0 that ReLU gives so.
    if (post.activation == ElementMode::RELU && post.scale == 1 && post.shift == 0) {
      ops.append_eltwise(dnnl::algorithm::eltwise_linear, 1, 0);
    }
  }
  if (post.scale != 1 || post.shift != 0) {
    ops.append_eltwise(dnnl::algorithm::eltwise_linear, post.scale, post.shift);
  }
  if (post.add == PostOps::Add::after_activation) ops.append_sum(1.f);
  if (ops.len() > 0) attr.set_post_ops(ops);
  return attr;
}

bool is_empty(const PostOps& post) {
  return !post.activation && post.add == PostOps::Add::none && post.scale == 1 && post.shift == 0;
}

void add_to_key(Key& k, const PostOps& post) {
  if (is_empty(post)) return;
  k.add(static_cast<int64_t>(post.add) |
        (post.activation ? static_cast<int64_t>(*post.activation) + 1 : 0) << 8);
  for (const float number : {post.alpha, post.beta, post.scale, post.shift}) {
    k.add(std::bit_cast<std::int32_t>(number));
  }
}

// Takes what `pd` describes into the entry, unless it is the slow reference implementation.
template <class Primitive, class Description>
bool take(Entry& e, const Description& pd) {
  if (!pd || std::string_view(pd.impl_info_str()).substr(0, 3) == "ref") return false;
  e.primitive = Primitive(pd);
  e.scratch = pd.scratchpad_desc().get_size();
  e.fits = true;
  return true;
}

void run(const char* op, Entry& e) {
  const Scratch scratch(e.scratch);
  guarded(op, [&] {
    if (e.scratch) e.set(static_cast<int>(e.memories.size()) - 1, scratch.as<void>());
    dnnl::error::wrap_c_api(dnnl_primitive_execute(e.primitive.get(), stream().get(),
                                                   static_cast<int>(e.args.size()), e.args.data()),
                            "could not execute a primitive");
  });
}

void add_scratch(Entry& e, const Desc& desc) {
  if (e.scratch) e.add(DNNL_ARG_SCRATCHPAD, desc);
}

void run_reorder(const char* op, Entry& e, const void* from, void* to) {
  guarded(op, [&] {
    e.reorder_from.set_data_handle(const_cast<void*>(from));
    e.reorder_to.set_data_handle(to);
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, e.reorder_from.get()},
                                    {DNNL_ARG_TO, e.reorder_to.get()}};
    dnnl::error::wrap_c_api(dnnl_primitive_execute(e.reorder.get(), stream().get(), 2, args),
                            "could not execute a reorder");
  });
}

// What tells layouts of weights apart.
WeightLayout layout_of(const Desc& d) {
  WeightLayout out{static_cast<int64_t>(d.get_data_type()),
                   static_cast<int64_t>(d.get_format_kind())};
  for (const auto& list : {d.get_dims(), d.get_padded_dims(), d.get_strides(), d.get_inner_blks(),
                           d.get_inner_idxs()}) {
    out.push_back(static_cast<int64_t>(list.size()));
    out.insert(out.end(), list.begin(), list.end());
  }
  return out;
}

void make_reorder(Entry& e, const Desc& from, const Desc& to) {
  e.reorders = from != to;
  if (!e.reorders) return;
  e.layout = layout_of(e.packed);
  e.reorder = dnnl::reorder(dnnl::reorder::primitive_desc(engine(), from, engine(), to));
  e.reorder_from = dnnl::memory(from, engine(), DNNL_MEMORY_NONE);
  e.reorder_to = dnnl::memory(to, engine(), DNNL_MEMORY_NONE);
}

// ---- packed weights
// --------------------------------------------------------------------------------

// The weights as the primitive wants them; the result keeps them alive.
std::shared_ptr<Scratch> packed(const char* op, Entry& e, const View& weight, ValueImpl* owner) {
  const auto pack = [&] {
    auto out = std::make_shared<Scratch>(e.packed.get_size());
    run_reorder(op, e, weight.data, out->as<void>());
    return out;
  };
  return owner ? packed_weights(*owner, e.layout, KeepWeights::from_second, pack) : pack();
}

// ---- convolution
// -----------------------------------------------------------------------------------

struct ConvDescs {
  Desc src, weight, dst;
  dnnl::memory::dims stride, dilate, pad;
};

// A convolution and the shapes that it goes by.
struct ConvShapes {
  Conv conv;
  Shape src, weight, dst;
};
// A column of pixels as a row, which has the same memory: oneDNN works along rows, and is 3 times
// slower where they have one pixel.
ConvShapes along_rows(const Conv& conv, const Shape& src, const Shape& weight, const Shape& dst) {
  ConvShapes out{conv, src, weight, dst};
  const bool column = conv.spatial == 2 && src.back() == 1 && weight.back() == 1 &&
                      dst.back() == 1 && conv.pad[1] == 0;
  if (!column) return out;
  for (Shape* s : {&out.src, &out.weight, &out.dst}) {
    std::swap((*s)[s->size() - 2], (*s)[s->size() - 1]);
  }
  for (auto* numbers : {&out.conv.stride, &out.conv.pad, &out.conv.dilate}) {
    std::swap((*numbers)[0], (*numbers)[1]);
  }
  return out;
}

// Channels-last descriptors, whatever strides axes of size 1 claim to have.
ConvDescs describe(const ConvShapes& at, DType dtype) {
  ConvDescs d;
  d.src = plain(dtype, at.src, channels_last(at.src));
  d.weight = any_layout(dtype, at.weight);
  d.dst = plain(dtype, at.dst, channels_last(at.dst));
  for (std::size_t i = 0; i < static_cast<std::size_t>(at.conv.spatial); ++i) {
    d.stride.push_back(at.conv.stride[i]);
    d.dilate.push_back(at.conv.dilate[i] - 1);
    d.pad.push_back(at.conv.pad[i]);
  }
  return d;
}

Key conv_key(Kind kind, const ConvShapes& at, DType dtype, bool bias, const PostOps& post = {}) {
  Key k;
  k.add(static_cast<int64_t>(kind) | static_cast<int64_t>(dtype) << 8 | int64_t{bias} << 16 |
        static_cast<int64_t>(at.weight.size()) << 20 | static_cast<int64_t>(num_threads()) << 32);
  for (std::size_t i = 0; i < static_cast<std::size_t>(at.conv.spatial); ++i) {
    k.add(at.conv.stride[i]);
    k.add(at.conv.pad[i]);
    k.add(at.conv.dilate[i]);
  }
  k.add(at.src);
  k.add(at.weight);
  k.add(at.dst);
  add_to_key(k, post);
  return k;
}

dnnl::convolution_forward::primitive_desc forward_desc(const ConvDescs& d, const Desc& bias,
                                                       const dnnl::primitive_attr& attr) {
  // Direct, never oneDNN's Winograd, F(4 x 4, 3 x 3): that is less exact.
  return {engine(),
          dnnl::prop_kind::forward_training,
          dnnl::algorithm::convolution_direct,
          d.src,
          d.weight,
          bias,
          d.dst,
          d.stride,
          d.dilate,
          d.pad,
          d.pad,
          attr,
          true};
}

Desc plain_weight(DType dtype, const Shape& shape) { return plain(dtype, shape, row_major(shape)); }

}  // namespace

bool computes(DType dtype) {
  if (dtype == DType::float32) return true;
  if (!is_low_float(dtype)) return false;
  static const unsigned has = [] {
    engine();  // sets the instruction set that MGE_CPU_ISA asks for
    return static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  }();
  const unsigned need =
      dtype == DType::bfloat16 ? dnnl_cpu_isa_avx512_core_bf16 : dnnl_cpu_isa_avx512_core_fp16;
  return (has & need) == need;
}

bool is_activation(ElementMode mode) { return eltwise_of(mode, 0, 0).has_value(); }

namespace {

// From so many rows of a on, b is packed for one call alone: measured with oneDNN 3.2, 1 to 20 %
// faster than what it does about a plain one.
constexpr int64_t kManyRows = 1536;
constexpr int64_t kLargeMatrix = 1 << 18;  // of rows; matrices of columns are always slow
constexpr int64_t kDeep = 2048;            // then oneDNN's newer product is as fast, or 4 % faster

// oneDNN's older product, which packs both operands as it goes: gradients of weights, for which `a`
// has columns, take 5 to 15 % less time, and products of many rows that are not deep 2 to 4 %
// where their operands come from memory.
bool multiply_with_sgemm(const char* op, const View& a, const View& b, const MutView& c) {
  if (c.ndim() != 2 || c.dtype != DType::float32 || c.strides[1] != 1) return false;
  const bool a_rows = a.strides[1] == 1, b_rows = b.strides[1] == 1;
  const bool many_rows = c.shape[0] >= kManyRows && b.size() >= kLargeMatrix;
  const bool gains =
      a_rows ? b_rows && many_rows && a.shape[1] < kDeep : a.strides[0] == 1 && a.strides[1] > 1;
  if (!gains) return false;
  engine();  // sets the instruction set
  guarded(op, [&] {
    dnnl::error::wrap_c_api(
        dnnl_sgemm(a_rows ? 'N' : 'T', b_rows ? 'N' : 'T', c.shape[0], c.shape[1], a.shape[1], 1.f,
                   static_cast<const float*>(a.data), a.strides[a_rows ? 0 : 1],
                   static_cast<const float*>(b.data), b.strides[b_rows ? 0 : 1], 0.f,
                   static_cast<float*>(c.data), c.strides[0]),
        "could not multiply");
  });
  return true;
}

}  // namespace

bool matmul(const char* op, const View& a, const View& b, const View* bias, const MutView& c,
            const PostOps& post, ValueImpl* owner) {
  if (!bias && !owner && is_empty(post) && multiply_with_sgemm(op, a, b, c)) return true;
  const bool many = c.ndim() == 2 && c.dtype == DType::float32 && c.shape[0] >= kManyRows &&
                    (b.strides[0] == 1 || b.size() >= kLargeMatrix);
  const bool packs = owner || many;
  Key key;
  key.add(static_cast<int64_t>(Kind::matmul) | int64_t{bias != nullptr} << 16 |
          int64_t{packs} << 17 | static_cast<int64_t>(num_threads()) << 32);
  key.add(a);
  key.add(b);
  key.add(View(c));
  add_to_key(key, post);
  Entry& e = cache().get(op, key, [&](Entry& made) {
    const Desc a_desc = plain(a.dtype, a.shape, a.strides);
    const Desc b_desc = plain(b.dtype, b.shape, b.strides);
    const Desc c_desc = plain(c.dtype, c.shape, c.strides);
    Desc bias_desc;
    if (bias) {
      Shape shape = Dims::filled(c.ndim(), 1);
      shape[c.ndim() - 1] = c.shape.back();
      bias_desc = plain(bias->dtype, shape, row_major(shape));
    }
    const dnnl::matmul::primitive_desc pd(engine(), a_desc,
                                          packs ? any_layout(b.dtype, b.shape) : b_desc, bias_desc,
                                          c_desc, attributes(post), true);
    if (!take<dnnl::matmul>(made, pd)) return;
    made.packed = pd.weights_desc();
    made.add(DNNL_ARG_SRC, a_desc);
    made.add(DNNL_ARG_WEIGHTS, made.packed);
    made.add(DNNL_ARG_DST, c_desc);
    if (bias) made.add(DNNL_ARG_BIAS, bias_desc);
    add_scratch(made, pd.scratchpad_desc());
    make_reorder(made, b_desc, made.packed);
  });
  if (!e.fits) return false;
  const auto weights = e.reorders ? packed(op, e, b, owner) : nullptr;
  e.set(0, a.data);
  e.set(1, weights ? weights->as<void>() : b.data);
  e.set(2, c.data);
  if (bias) e.set(3, bias->data);
  run(op, e);
  return true;
}

bool convolution(const char* op, const Conv& conv, const View& src, const View& weight,
                 const View* bias, const MutView& dst, ValueImpl* owner, const PostOps& post) {
  const ConvShapes at = along_rows(conv, src.shape, weight.shape, dst.shape);
  const Key key = conv_key(Kind::forward, at, src.dtype, bias != nullptr, post);
  Entry& e = cache().get(op, key, [&](Entry& made) {
    const ConvDescs d = describe(at, src.dtype);
    Desc bias_desc;
    if (bias) bias_desc = plain(src.dtype, Shape{dst.shape[1]}, Strides{1});
    const auto pd = forward_desc(d, bias_desc, attributes(post));
    if (!take<dnnl::convolution_forward>(made, pd)) return;
    made.packed = pd.weights_desc();
    made.add(DNNL_ARG_SRC, d.src);
    made.add(DNNL_ARG_WEIGHTS, made.packed);
    made.add(DNNL_ARG_DST, d.dst);
    if (bias) made.add(DNNL_ARG_BIAS, bias_desc);
    add_scratch(made, pd.scratchpad_desc());
    make_reorder(made, plain_weight(weight.dtype, at.weight), made.packed);
  });
  if (!e.fits) return false;
  const auto weights = e.reorders ? packed(op, e, weight, owner) : nullptr;
  e.set(0, src.data);
  e.set(1, weights ? weights->as<void>() : weight.data);
  e.set(2, dst.data);
  if (bias) e.set(3, bias->data);
  run(op, e);
  return true;
}

bool convolution_backward_data(const char* op, const Conv& conv, const View& weight,
                               const View& diff, const MutView& out, ValueImpl* owner) {
  const ConvShapes at = along_rows(conv, out.shape, weight.shape, diff.shape);
  const Key key = conv_key(Kind::backward_data, at, diff.dtype, false);
  Entry& e = cache().get(op, key, [&](Entry& made) {
    const ConvDescs d = describe(at, diff.dtype);
    const auto hint = forward_desc(d, Desc(), attributes());
    if (!hint) return;
    const dnnl::convolution_backward_data::primitive_desc pd(
        engine(), dnnl::algorithm::convolution_direct, d.src, d.weight, d.dst, d.stride, d.dilate,
        d.pad, d.pad, hint, attributes(), true);
    if (!take<dnnl::convolution_backward_data>(made, pd)) return;
    made.packed = pd.weights_desc();
    made.add(DNNL_ARG_DIFF_DST, d.dst);
    made.add(DNNL_ARG_WEIGHTS, made.packed);
    made.add(DNNL_ARG_DIFF_SRC, d.src);
    add_scratch(made, pd.scratchpad_desc());
    make_reorder(made, plain_weight(weight.dtype, at.weight), made.packed);
  });
  if (!e.fits) return false;
  const auto weights = e.reorders ? packed(op, e, weight, owner) : nullptr;
  e.set(0, diff.data);
  e.set(1, weights ? weights->as<void>() : weight.data);
  e.set(2, out.data);
  run(op, e);
  return true;
}

bool convolution_backward_filter(const char* op, const Conv& conv, const View& src,
                                 const View& diff, const MutView& out) {
  const ConvShapes at = along_rows(conv, src.shape, out.shape, diff.shape);
  const Key key = conv_key(Kind::backward_filter, at, src.dtype, false);
  Entry& e = cache().get(op, key, [&](Entry& made) {
    const ConvDescs d = describe(at, src.dtype);
    const auto hint = forward_desc(d, Desc(), attributes());
    if (!hint) return;
    const dnnl::convolution_backward_weights::primitive_desc pd(
        engine(), dnnl::algorithm::convolution_direct, d.src, d.weight, d.dst, d.stride, d.dilate,
        d.pad, d.pad, hint, attributes(), true);
    if (!take<dnnl::convolution_backward_weights>(made, pd)) return;
    made.packed = pd.diff_weights_desc();
    made.add(DNNL_ARG_SRC, d.src);
    made.add(DNNL_ARG_DIFF_DST, d.dst);
    made.add(DNNL_ARG_DIFF_WEIGHTS, made.packed);
    add_scratch(made, pd.scratchpad_desc());
    make_reorder(made, made.packed, plain_weight(out.dtype, at.weight));
  });
  if (!e.fits) return false;
  std::optional<Scratch> own;
  if (e.reorders) own.emplace(e.packed.get_size());
  e.set(0, src.data);
  e.set(1, diff.data);
  e.set(2, own ? own->as<void>() : out.data);
  run(op, e);
  if (own) run_reorder(op, e, own->as<void>(), out.data);
  return true;
}

}  // namespace mge::cpu::dnn
