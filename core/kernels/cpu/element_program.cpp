#include "core/kernels/cpu/element_program.h"

#include <cstring>
#include <list>

#include "core/kernels/cpu/copy.h"
#include "core/kernels/cpu/element_blocks.h"
#include "core/kernels/cpu/parallel.h"
#include "core/runtime/allocator.h"

namespace mge::cpu {
namespace {

constexpr std::size_t kMaxValues = kMaxProgramOperands + kMaxProgramSteps;
constexpr int kMaxBuffers = static_cast<int>(kMaxValues);
constexpr std::int64_t kMemory = 64 * 1024;  // of a thread's buffers
// What a block may touch: most of a first cache of 32 KiB.
constexpr std::int64_t kTouched = 28 * 1024;
// More than 1024 floats of results do not drain to memory while the next block is read.
constexpr std::int64_t kLeastBlock = 64, kMostBlock = 1024;
static_assert(kMemory / (8 * kMaxBuffers) >= kLeastBlock);

using Loop = NdLoop<static_cast<int>(kMaxProgramOperands)>;  // outputs, then inputs
using Offsets = std::array<std::int64_t, kMaxProgramOperands>;

struct Operand {
  char* data = nullptr;  // of an output, written through
  std::int64_t size = 0;
  std::int64_t step0 = 0, step1 = 0;  // elements, along the two inner axes

  bool lies_flat(std::int64_t rows, std::int64_t columns) const {
    return (step0 == 1 || columns == 1) && (rows == 1 || step1 == columns);
  }
};

struct Plan {
  explicit Plan(const ElementProgram& p, Views in, MutViews out)
      : program(p), outputs(out.size()), inputs(in.size()) {
    written_by.fill(-1);
    for (std::size_t k = 0; k < outputs; ++k) {
      const std::uint8_t step = p.outputs[k];
      written_by[step] = static_cast<std::int8_t>(k);
      operand[k].data = static_cast<char*>(out[k].data);
      operand[k].size = size_of(out[k].dtype);
      for (std::size_t i = 0; i < inputs; ++i) {
        in_place |= out[k].data == in[i].data;
        overwrites[k] |= out[k].data == in[i].data && p.last_use[i] > step;
      }
    }
    for (std::size_t i = 0; i < inputs; ++i) set_input(i, in[i]);
    for (std::size_t s = 0; s < p.steps.size(); ++s) {
      const ElementStep& step = p.steps[s];
      if (step.converts) continue;
      arity[s] = static_cast<std::uint8_t>(step.in.size());
      if (step.mode == ElementMode::POW && step.in[1] < inputs) {
        const View& exponent = in[step.in[1]];
        const Shape& base = step.in[0] < inputs ? in[step.in[0]].shape : out[0].shape;
        // As the op by itself does it: operands of one shape are powers of any number.
        const bool number = exponent.size() == 1 && exponent.shape != base;
        if (number) run[s] = find_power_run(exponent);
        if (run[s]) arity[s] = 1;
      }
      if (!run[s]) run[s] = find_element_run(step.mode, step.from);
    }
  }
  void set_input(std::size_t i, const View& v) {
    Operand& o = operand[outputs + i];
    o.data = const_cast<char*>(static_cast<const char*>(v.data));
    o.size = size_of(v.dtype);
  }
  // Elements of a block, so that what it touches fits: `gathered` inputs take a buffer each.
  void choose_block(std::int64_t gathered) {
    const std::int64_t buffers = program.slots + gathered;
    const auto direct = static_cast<std::int64_t>(inputs + outputs) - gathered;
    const std::int64_t most =
        std::min(kMemory / (buffers * size() + 1), kTouched / ((buffers + direct) * size()));
    block = std::clamp(most / 64 * 64, kLeastBlock, kMostBlock);
  }

  std::int64_t size() const { return program.size; }

  const ElementProgram& program;
  std::size_t outputs, inputs;
  std::array<Operand, kMaxProgramOperands> operand{};
  std::array<ElementRun, kMaxProgramSteps> run{};
  std::array<std::uint8_t, kMaxProgramSteps> arity{};
  std::array<std::int8_t, kMaxProgramSteps> written_by;  // the output that is the step's result
  std::array<bool, kMaxProgramOperands> overwrites{};    // an input that later steps read
  bool in_place = false;                                 // an output has an input's buffer
  bool stream = false;                                   // outputs go around the caches
  std::int64_t block = kMostBlock;
};

// The buffers of one thread.
class Blocks {
 public:
  explicit Blocks(const Plan& plan) : plan_(plan), bytes_(plan.block * plan.size()) {
    char* next = memory_;
    for (int i = 0; i < plan.program.slots; ++i, next += bytes_) slot_[i] = next;
    next_ = next;
  }

  // `rows` rows of `columns` elements, at most a block; offsets in elements of each operand.
  void run(const Offsets& offset, std::int64_t rows, std::int64_t columns) {
    const std::int64_t n = rows * columns;
    const void* value[kMaxValues];
    for (std::size_t i = 0; i < plan_.inputs; ++i) {
      value[i] = input(plan_.outputs + i, offset[plan_.outputs + i], rows, columns);
    }
    const ElementProgram& p = plan_.program;
    for (std::size_t s = 0; s < p.steps.size(); ++s) {
      const int k = plan_.written_by[s];
      char* to = slot_[p.slot[s]];
      char* target = nullptr;
      bool apart = false;
      if (k >= 0) {
        const auto o = static_cast<std::size_t>(k);
        target = plan_.operand[o].data + offset[o] * plan_.operand[o].size;
        apart = plan_.overwrites[o] || plan_.stream || !plan_.operand[o].lies_flat(rows, columns);
        if (!apart) to = target;
      }
      run_step(s, value, to, n);
      value[plan_.inputs + s] = to;
    }
    for (std::size_t o = 0; o < plan_.outputs; ++o) {
      const Operand& out = plan_.operand[o];
      char* target = out.data + offset[o] * out.size;
      const char* from = static_cast<const char*>(value[plan_.inputs + p.outputs[o]]);
      if (from == target) continue;
      if (plan_.stream) {
        MGE_DISPATCH(stream_run)(from, target, n * out.size);
      } else if (out.lies_flat(rows, columns)) {
        std::memcpy(target, from, static_cast<std::size_t>(n * out.size));
      } else {
        scatter_block(from, target, out.step0, out.step1, rows, columns, out.size);
      }
    }
  }

 private:
  static char* align(char* p) {
    return reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(p) + 63) / 64 * 64);
  }

  const void* input(std::size_t k, std::int64_t offset, std::int64_t rows, std::int64_t columns) {
    const Operand& o = plan_.operand[k];
    const char* source = o.data + offset * o.size;
    if (o.lies_flat(rows, columns)) return source;
    Held& held = held_[k];
    if (!held.buffer) {
      held.buffer = next_;
      next_ = align(next_ + plan_.block * o.size);
    }
    // An operand that repeats is often the same for many blocks on end.
    const bool repeats = o.step0 == 0 || o.step1 == 0;
    const bool same = held.source == source && held.columns == columns && held.rows >= rows;
    if (repeats && same) return held.buffer;
    held.source = repeats ? source : nullptr;
    held.rows = rows;
    held.columns = columns;
    gather_block(source, o.step0, o.step1, rows, columns, o.size, held.buffer);
    return held.buffer;
  }

  void run_step(std::size_t s, const void* const* value, char* to, std::int64_t n) {
    const ElementStep& step = plan_.program.steps[s];
    if (step.converts) {
      return convert(value[step.in[0]], step.from, to, step.to, n);
    }
    const void* in[kMaxOperands];
    for (std::size_t j = 0; j < plan_.arity[s]; ++j) in[j] = value[step.in[j]];
    plan_.run[s](in, to, n);
  }

  struct Held {
    char* buffer = nullptr;
    const char* source = nullptr;
    std::int64_t rows = 0, columns = 0;
  };
  const Plan& plan_;
  std::int64_t bytes_;
  std::array<char*, kMaxProgramSteps> slot_{};
  std::array<Held, kMaxProgramOperands> held_{};
  char* next_;
  alignas(64) char memory_[kMemory];
};

// Operands that lie as the outputs do, beside numbers.
void run_flat(const Plan& plan, std::int64_t n) {
  parallel_for(n, plan.program.grain, [&](std::int64_t begin, std::int64_t end) {
    Blocks blocks(plan);
    for (std::int64_t i = begin; i < end; i += plan.block) {
      Offsets offset;
      for (std::size_t k = 0; k < plan.outputs + plan.inputs; ++k) {
        offset[k] = i * plan.operand[k].step0;
      }
      blocks.run(offset, 1, std::min(plan.block, end - i));
    }
    if (plan.stream) MGE_DISPATCH(stream_end)();
  });
}

// Blocks of a loop nest: pieces of rows, or, where rows are short, several rows.
void run_nest(const Plan& plan, const Loop& loop) {
  const std::int64_t columns = loop.size_or_1(0);
  const bool whole_rows = columns < plan.block / 2;
  const std::int64_t per_block = whole_rows ? plan.block / columns : plan.block;
  const std::int64_t length = whole_rows ? loop.size_or_1(1) : columns;
  const std::int64_t blocks = (length + per_block - 1) / per_block;
  const int first = whole_rows ? 2 : 1;
  std::int64_t outer = 1;
  for (int i = first; i < loop.ndim; ++i) outer *= loop.size[static_cast<std::size_t>(i)];
  const std::int64_t elements = whole_rows ? per_block * columns : per_block;
  const std::int64_t grain = std::max<std::int64_t>(1, plan.program.grain / elements);
  parallel_for(outer * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    Blocks buffers(plan);
    NdWalk<static_cast<int>(kMaxProgramOperands)> walk(loop, first, begin / blocks);
    std::int64_t block = begin % blocks;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t at = block * per_block, some = std::min(per_block, length - at);
      Offsets offset = walk.offset;
      for (std::size_t k = 0; k < plan.outputs + plan.inputs; ++k) {
        offset[k] += at * (whole_rows ? plan.operand[k].step1 : plan.operand[k].step0);
      }
      buffers.run(offset, whole_rows ? some : 1, whole_rows ? columns : some);
      if (++block == blocks) {
        block = 0;
        walk.next();
      }
    }
  });
}

void run_strided(Plan& plan, Views in, MutViews out) {
  const Shape& shape = out[0].shape;
  const std::int64_t n = out[0].size();
  std::array<Strides, kMaxProgramOperands> own;
  const Strides none = Dims::filled(shape.size(), 0);
  std::array<const Strides*, kMaxProgramOperands> strides;
  strides.fill(&none);
  for (std::size_t k = 0; k < plan.outputs; ++k) strides[k] = &out[k].strides;
  for (std::size_t i = 0; i < plan.inputs; ++i) {
    own[i] = broadcast_strides(in[i].shape, in[i].strides, shape);
    strides[plan.outputs + i] = &own[i];
  }
  Loop loop(shape, strides);

  std::list<Scratch> copies;
  for (std::size_t i = 0; n >= kTransposeFirst && i < plan.inputs; ++i) {
    if (!runs_across(loop, static_cast<int>(plan.outputs + i))) continue;
    const View& v = in[i];
    copies.emplace_back(static_cast<std::size_t>(v.size() * size_of(v.dtype)));
    const MutView copied{copies.back().as<void>(), v.dtype, v.shape,
                         ordered_as(v.shape, out[0].strides)};
    copy(v, copied);
    plan.set_input(i, copied);
    own[i] = broadcast_strides(v.shape, copied.strides, shape);
  }
  if (!copies.empty()) loop = Loop(shape, strides);

  std::int64_t gathered = 0;
  for (std::size_t k = 0; k < plan.outputs + plan.inputs; ++k) {
    plan.operand[k].step0 = loop.ndim == 0 ? 1 : loop.stride_or_0(static_cast<int>(k), 0);
    plan.operand[k].step1 = loop.stride_or_0(static_cast<int>(k), 1);
    // Rows that are cut may need a buffer in one block and none in another.
    if (k >= plan.outputs && !loop.flat()) ++gathered;
  }
  plan.choose_block(gathered);
  run_nest(plan, loop);
}

}  // namespace

void ElementProgram::prepare() {
  last_use.assign(inputs.size() + steps.size(), 0);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    for (const std::uint8_t i : steps[s].in) last_use[i] = static_cast<std::uint8_t>(s);
  }
  for (const std::uint8_t o : outputs) last_use[inputs.size() + o] = 255;
  std::vector<std::uint8_t> free;
  double share = 0;
  slots = 0;
  for (const DType dtype : inputs) size = std::max(size, size_of(dtype));
  for (std::size_t s = 0; s < steps.size(); ++s) {
    const ElementStep& step = steps[s];
    size = std::max(size, size_of(step.to));
    // What comes from the first cache takes half the time or less, of the cheapest modes.
    const std::int64_t alone = step.converts ? kCheapGrain : element_grain(step.mode);
    share += (alone == kCheapGrain ? 0.5 : 1.0) / static_cast<double>(alone);
    // A result takes the place of an operand that is not read again, where neither overtakes the
    // other.
    const auto release = [&](bool same_size) {
      for (std::size_t j = 0; j < step.in.size(); ++j) {
        const std::size_t i = step.in[j];
        if (i < inputs.size() || last_use[i] != s) continue;
        if (std::find(step.in.begin(), step.in.begin() + j, step.in[j]) != step.in.begin() + j) {
          continue;
        }
        const ElementStep& from = steps[i - inputs.size()];
        if ((size_of(from.to) == size_of(step.to)) == same_size) {
          free.push_back(slot[i - inputs.size()]);
        }
      }
    };
    if (!step.converts) release(true);
    if (free.empty()) free.push_back(static_cast<std::uint8_t>(slots++));
    slot.push_back(free.back());
    free.pop_back();
    release(false);
    if (step.converts) release(true);
    // A result that nobody reads and nobody asked for.
    if (last_use[inputs.size() + s] == 0) free.push_back(slot.back());
  }
  grain = std::max<std::int64_t>(1, static_cast<std::int64_t>(1 / share));
}

void run_program(const ElementProgram& program, Views in, MutViews out) {
  const std::int64_t n = out[0].size();
  if (n == 0) return;
  Plan plan(program, in, out);
  const bool row_major = out[0].row_major();
  bool flat = row_major || is_dense(out[0].shape, out[0].strides);
  for (std::size_t k = 0; flat && k < plan.outputs; ++k) {
    flat = lies_as(out[k], out[0], row_major);
    plan.operand[k].step0 = 1;
    plan.stream |= n * plan.operand[k].size >= kStreamBytes;
  }
  std::int64_t numbers = 0;
  for (std::size_t i = 0; flat && i < plan.inputs; ++i) {
    const bool same = lies_as(in[i], out[0], row_major);
    flat = same || in[i].size() == 1;
    plan.operand[plan.outputs + i].step0 = same ? 1 : 0;
    if (!same) ++numbers;
  }
  if (!flat) {
    plan.stream = false;
    return run_strided(plan, in, out);
  }
  plan.stream &= !plan.in_place;
  plan.choose_block(numbers);
  run_flat(plan, n);
}

}  // namespace mge::cpu
