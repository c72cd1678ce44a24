#include "core/kernels/cpu/elementwise.h"

#include <array>
#include <cstring>

#include "core/kernels/cpu/copy.h"
#include "core/kernels/cpu/element_blocks.h"
#include "core/kernels/cpu/parallel.h"
#include "core/runtime/allocator.h"

namespace mge::cpu {
namespace {

// Elements of a block: six buffers of it take at most 48 KiB, usually two or three of 4 KiB.
constexpr std::int64_t kBlock = 1024;
constexpr std::int64_t kBufferBytes = kBlock * 8;
using Loop = NdLoop<kMaxOperands + 1>;  // operand 0 is the output

const char* at(const void* p, std::int64_t bytes) { return static_cast<const char*>(p) + bytes; }
char* at(void* p, std::int64_t bytes) { return static_cast<char*>(p) + bytes; }

// One operand as the blocks need it.
struct Operand {
  const char* data = nullptr;
  std::int64_t size = 0;  // of an element, bytes
  DType dtype = DType::float32;
  bool low = false;                   // a 16-bit float: widened into a buffer
  std::int64_t step0 = 0, step1 = 0;  // elements, along the two inner axes
};

struct Plan {
  ElementRun run;
  int inputs;
  std::array<Operand, kMaxOperands + 1> operand;  // 0 is the output
};

// The buffers of one thread, and what the buffer of each operand holds.
class Blocks {
 public:
  explicit Blocks(const Plan& plan) : plan_(plan) {}

  // Rows of `columns` elements, `rows` of them; offsets in elements of each operand's first one.
  // rows * columns <= kBlock, or any number of columns where rows == 1 and no buffer is needed.
  void run(const std::array<std::int64_t, kMaxOperands + 1>& offset, std::int64_t rows,
           std::int64_t columns) {
    const void* in[kMaxOperands];
    for (int k = 1; k <= plan_.inputs; ++k) in[k - 1] = input(k, offset[index(k)], rows, columns);
    const Operand& out = plan_.operand[0];
    char* target = const_cast<char*>(out.data) + offset[0] * out.size;
    const std::int64_t n = rows * columns;
    if (!out.low && lies_flat(out, rows, columns)) return plan_.run(in, target, n);
    char* computed = buffer_[0];
    plan_.run(in, computed, n);
    if (out.low) {
      char* narrowed = lies_flat(out, rows, columns) ? target : narrow_;
      MGE_DISPATCH(narrow_low)(reinterpret_cast<const float*>(computed), narrowed, out.dtype, n);
      computed = narrow_;
      if (narrowed == target) return;
    }
    scatter_block(computed, target, out.step0, out.step1, rows, columns, out.size);
  }

 private:
  static std::size_t index(int k) { return static_cast<std::size_t>(k); }
  static bool lies_flat(const Operand& o, std::int64_t rows, std::int64_t columns) {
    return (o.step0 == 1 || columns == 1) && (rows == 1 || o.step1 == columns);
  }

  const void* input(int k, std::int64_t offset, std::int64_t rows, std::int64_t columns) {
    const Operand& o = plan_.operand[index(k)];
    const char* source = o.data + offset * o.size;
    const bool flat = lies_flat(o, rows, columns);
    if (flat && !o.low) return source;
    const std::int64_t n = rows * columns;
    Held& held = held_[index(k)];
    // An operand that repeats is often the same for many blocks on end.
    const bool repeats = (o.step0 == 0 || o.step1 == 0) && !flat;
    if (repeats && held.source == source && held.columns == columns && held.rows >= rows) {
      return buffer_[k];
    }
    held = {repeats ? source : nullptr, rows, columns};
    if (flat) {
      MGE_DISPATCH(widen_low)(source, o.dtype, reinterpret_cast<float*>(buffer_[k]), n);
      return buffer_[k];
    }
    char* gathered = o.low ? narrow_ : buffer_[k];
    gather_block(source, o.step0, o.step1, rows, columns, o.size, gathered);
    if (o.low) MGE_DISPATCH(widen_low)(narrow_, o.dtype, reinterpret_cast<float*>(buffer_[k]), n);
    return buffer_[k];
  }

  struct Held {
    const char* source = nullptr;
    std::int64_t rows = 0, columns = 0;
  };
  const Plan& plan_;
  std::array<Held, kMaxOperands + 1> held_{};
  alignas(64) char buffer_[kMaxOperands + 1][kBufferBytes];
  alignas(64) char narrow_[kBlock * 2];
};

// Rows shorter than a block: several at a time.
void run_short_rows(const Plan& plan, const Loop& loop, std::int64_t least) {
  const std::int64_t columns = loop.size_or_1(0), rows = loop.size_or_1(1);
  const std::int64_t per_block = std::max<std::int64_t>(1, kBlock / columns);
  const std::int64_t blocks = (rows + per_block - 1) / per_block;
  std::int64_t outer = 1;
  for (int i = 2; i < loop.ndim; ++i) outer *= loop.size[static_cast<std::size_t>(i)];
  const auto work = [&](std::int64_t begin, std::int64_t end) {
    Blocks buffers(plan);
    NdWalk<kMaxOperands + 1> walk(loop, 2, begin / blocks);
    std::int64_t block = begin % blocks;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t row = block * per_block;
      auto offset = walk.offset;
      for (int k = 0; k <= plan.inputs; ++k) {
        const auto i = static_cast<std::size_t>(k);
        offset[i] += row * plan.operand[i].step1;
      }
      buffers.run(offset, std::min(per_block, rows - row), columns);
      if (++block == blocks) {
        block = 0;
        walk.next();
      }
    }
  };
  parallel_for(outer * blocks, std::max<std::int64_t>(1, least / (per_block * columns)), work);
}

// Rows of at least a block, cut into blocks.
void run_long_rows(const Plan& plan, const Loop& loop, std::int64_t least) {
  const std::int64_t columns = loop.size_or_1(0);
  const std::int64_t blocks = (columns + kBlock - 1) / kBlock;
  std::int64_t outer = 1;
  for (int i = 1; i < loop.ndim; ++i) outer *= loop.size[static_cast<std::size_t>(i)];
  const auto work = [&](std::int64_t begin, std::int64_t end) {
    Blocks buffers(plan);
    NdWalk<kMaxOperands + 1> walk(loop, 1, begin / blocks);
    std::int64_t block = begin % blocks;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t column = block * kBlock;
      auto offset = walk.offset;
      for (int k = 0; k <= plan.inputs; ++k) {
        const auto i = static_cast<std::size_t>(k);
        offset[i] += column * plan.operand[i].step0;
      }
      buffers.run(offset, 1, std::min(kBlock, columns - column));
      if (++block == blocks) {
        block = 0;
        walk.next();
      }
    }
  };
  parallel_for(outer * blocks, std::max<std::int64_t>(1, least / kBlock), work);
}

Operand make_operand(ElementMode mode, const void* data, DType dtype, const Loop& loop, int k) {
  Operand o;
  o.data = static_cast<const char*>(data);
  o.size = size_of(dtype);
  o.dtype = dtype;
  o.low = is_low_float(dtype) && mode != ElementMode::WHERE;  // which only moves bits
  o.step0 = loop.stride_or_0(k, 0);
  o.step1 = loop.stride_or_0(k, 1);
  // A single element may be called contiguous.
  if (loop.ndim == 0) o.step0 = 1;
  return o;
}

// Operands before `straight` are not looked at for a transpose again.
void run_strided(ElementMode mode, ElementRun run, Views in, const MutView& out,
                 std::size_t straight = 0) {
  std::array<Strides, kMaxOperands> in_strides;
  const Strides none = Dims::filled(out.shape.size(), 0);
  std::array<const Strides*, kMaxOperands + 1> strides;
  strides.fill(&none);
  strides[0] = &out.strides;
  for (std::size_t k = 0; k < in.size(); ++k) {
    in_strides[k] = broadcast_strides(in[k].shape, in[k].strides, out.shape);
    strides[k + 1] = &in_strides[k];
  }
  const Loop loop(out.shape, strides);

  if (loop.total() >= kTransposeFirst) {
    for (std::size_t k = straight; k < in.size(); ++k) {
      if (!runs_across(loop, static_cast<int>(k) + 1)) continue;
      const Scratch scratch(static_cast<std::size_t>(in[k].size() * size_of(in[k].dtype)));
      const MutView copied{scratch.as<void>(), in[k].dtype, in[k].shape,
                           ordered_as(in[k].shape, out.strides)};
      copy(in[k], copied);
      std::array<View, kMaxOperands> again;
      std::copy(in.begin(), in.end(), again.begin());
      again[k] = copied;
      return run_strided(mode, run, Views(again.data(), in.size()), out, k + 1);
    }
  }

  Plan plan{run, static_cast<int>(in.size()), {}};
  plan.operand[0] = make_operand(mode, out.data, out.dtype, loop, 0);
  for (int k = 1; k <= plan.inputs; ++k) {
    const View& v = in[static_cast<std::size_t>(k - 1)];
    plan.operand[static_cast<std::size_t>(k)] = make_operand(mode, v.data, v.dtype, loop, k);
  }
  if (loop.size_or_1(0) >= kBlock / 2) {
    run_long_rows(plan, loop, element_grain(mode));
  } else {
    run_short_rows(plan, loop, element_grain(mode));
  }
}

// Flat operands beside single numbers (bit k of `numbers`), which are written out once per thread.
void run_with_numbers(ElementMode mode, ElementRun run, const void* const* in, int inputs,
                      unsigned numbers, void* out, DType in_dtype, DType out_dtype,
                      std::int64_t n) {
  const std::int64_t in_size = size_of(in_dtype), out_size = size_of(out_dtype);
  parallel_for(n, element_grain(mode), [=](std::int64_t begin, std::int64_t end) {
    alignas(64) char repeated[kMaxOperands][kBufferBytes];
    const void* data[kMaxOperands];
    for (int k = 0; k < inputs; ++k) {
      if (!(numbers >> k & 1u)) continue;
      MGE_DISPATCH(gather_run)(in[k], 0, repeated[k], std::min(kBlock, end - begin), in_size);
      data[k] = repeated[k];
    }
    for (std::int64_t i = begin; i < end; i += kBlock) {
      for (int k = 0; k < inputs; ++k) {
        if (!(numbers >> k & 1u)) data[k] = at(in[k], i * in_size);
      }
      run(data, at(out, i * out_size), std::min(kBlock, end - i));
    }
  });
}

void run_any(ElementMode mode, ElementRun run, Views in, const MutView& out) {
  const std::int64_t n = out.size();
  if (n == 0) return;
  const DType dtype = in.back().dtype;
  if (is_low_float(dtype) || mode == ElementMode::WHERE) return run_strided(mode, run, in, out);
  const bool row_major = out.row_major();
  // Numbers go with any dense output: its order does not matter to them.
  const bool dense = row_major || is_dense(out.shape, out.strides);
  const void* data[kMaxOperands];
  unsigned numbers = 0;
  for (std::size_t k = 0; k < in.size(); ++k) {
    data[k] = in[k].data;
    if (lies_as(in[k], out, row_major)) continue;
    if (!dense || in[k].size() != 1) return run_strided(mode, run, in, out);
    numbers |= 1u << k;
  }
  const int inputs = static_cast<int>(in.size());
  if (numbers) {
    run_with_numbers(mode, run, data, inputs, numbers, out.data, dtype, out.dtype, n);
  } else {
    elementwise_flat(run, mode, data, inputs, out.data, dtype, out.dtype, n);
  }
}

}  // namespace

std::int64_t element_grain(ElementMode mode) {
  using M = ElementMode;
  switch (mode) {
    case M::RELU:
    case M::ABS:
    case M::NEGATE:
    case M::ABS_GRAD:
    case M::ADD:
    case M::MAX:
    case M::MIN:
    case M::MUL:
    case M::SUB:
    case M::SWITCH_GT0:
    case M::LT:
    case M::LEQ:
    case M::EQ:
    case M::NEQ:
    case M::AND:
    case M::OR:
    case M::XOR:
    case M::NOT:
    case M::SQUARE:
    case M::SIGN:
    case M::CLIP:
    case M::WHERE:
      return kCheapGrain;
    default:
      return 8192;
  }
}

bool lies_as(const View& in, const MutView& out, bool row_major) {
  if (in.shape != out.shape) return false;
  return row_major ? in.row_major() : in.strides == out.strides && is_dense(out.shape, out.strides);
}

ElementRun find_power_run(const View& exponent) {
  double value = 0;
  convert(exponent.data, exponent.dtype, &value, DType::float64, 1);
  return exponent.dtype == DType::float64 ? MGE_DISPATCH(float64_power)(value)
                                          : MGE_DISPATCH(float32_power)(value);
}

ElementRun find_element_run(ElementMode mode, DType dtype) {
  struct Table {
    ElementRun run[kElementModes][kDTypeCount];
  };
  static const Table table = [] {
    Table t{};
    for (int m = 0; m < kElementModes; ++m) {
      const auto mode = static_cast<ElementMode>(m);
      for (int d = 0; d < kDTypeCount; ++d) {
        const auto dtype = static_cast<DType>(d);
        ElementRun& run = t.run[m][d];
        if (is_complex(dtype)) {
          continue;  // complex numbers go by parts (core/ops/complex)
        }
        if (mode == ElementMode::WHERE) {
          run = MGE_DISPATCH(where_loop)(size_of(dtype));
        } else if (dtype == DType::float64) {
          run = MGE_DISPATCH(float64_loop)(mode);
        } else if (is_float(dtype)) {
          run = MGE_DISPATCH(float32_loop)(mode);
        } else {
          run = MGE_DISPATCH(integer_loop)(mode, dtype);
        }
      }
    }
    return t;
  }();
  return table.run[static_cast<int>(mode)][static_cast<int>(dtype)];
}

void elementwise_flat(ElementRun run, ElementMode mode, const void* const* in, int inputs,
                      void* out, DType in_dtype, DType out_dtype, std::int64_t n) {
  const std::int64_t least = element_grain(mode);
  if (n <= least) {
    if (n > 0) run(in, out, n);
    return;
  }
  const std::int64_t in_size = size_of(in_dtype), out_size = size_of(out_dtype);
  bool stream = inputs > 1 && least == kCheapGrain && n * out_size >= kStreamBytes;
  for (int k = 0; k < inputs; ++k) stream &= in[k] != out;
  parallel_for(n, least, [=](std::int64_t begin, std::int64_t end) {
    const void* data[kMaxOperands];
    if (!stream) {
      for (int k = 0; k < inputs; ++k) data[k] = at(in[k], begin * in_size);
      run(data, at(out, begin * out_size), end - begin);
      return;
    }
    alignas(64) char computed[kBufferBytes];
    for (std::int64_t i = begin; i < end; i += kBlock) {
      const std::int64_t some = std::min(kBlock, end - i);
      for (int k = 0; k < inputs; ++k) data[k] = at(in[k], i * in_size);
      run(data, computed, some);
      MGE_DISPATCH(stream_run)(computed, at(out, i * out_size), some * out_size);
    }
    MGE_DISPATCH(stream_end)();
  });
}

void elementwise(ElementMode mode, Views in, const MutView& out) {
  if (mode == ElementMode::POW && in[1].size() == 1) {
    if (const ElementRun run = find_power_run(in[1])) {
      return run_any(ElementMode::SQUARE, run, in.first(1), out);
    }
  }
  run_any(mode, find_element_run(mode, in.back().dtype), in, out);
}

}  // namespace mge::cpu
