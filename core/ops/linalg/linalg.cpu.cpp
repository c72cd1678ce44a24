#include "core/ops/linalg/linalg.h"

#include <atomic>
#include <optional>

#include "core/kernels/cpu/copy.h"
#include "core/kernels/cpu/parallel.h"
#include "core/ops/linalg/linalg.loops.h"
#include "core/runtime/allocator.h"

namespace mge {
namespace {

using std::int64_t;

// What a thread is worth waking for, in steps of about a nanosecond.
constexpr int64_t kThreadSteps = 100000;

DType working_dtype(DType dtype) { return is_low_float(dtype) ? DType::float32 : dtype; }

// The matrices of a view in the working dtype, row-major (or each transposed), in a buffer of their
// own.
class Matrices {
 public:
  Matrices(View v, DType dtype, bool transposed)
      : scratch_(static_cast<std::size_t>(v.size() * size_of(dtype))) {
    if (transposed) {
      std::swap(v.shape[v.ndim() - 2], v.shape[v.ndim() - 1]);
      std::swap(v.strides[v.ndim() - 2], v.strides[v.ndim() - 1]);
    }
    if (v.size() > 0) cpu::copy(v, {scratch_.as<void>(), dtype, v.shape, row_major(v.shape)});
  }
  void* data() const { return scratch_.as<void>(); }

 private:
  Scratch scratch_;
};

// An output in the working dtype: itself, or a buffer that done() converts.
class Output {
 public:
  Output(const MutView& out, DType dtype, bool transposed) : out_(out), shape_(out.shape) {
    transposed_ = transposed;
    if (transposed) std::swap(shape_[out.ndim() - 2], shape_[out.ndim() - 1]);
    dtype_ = dtype;
    if (transposed || out.dtype != dtype) {
      scratch_.emplace(static_cast<std::size_t>(out.size() * size_of(dtype)));
    }
  }
  void* data() const { return scratch_ ? scratch_->as<void>() : out_.data; }
  void done() const {
    if (!scratch_ || out_.size() == 0) return;
    View v{data(), dtype_, shape_, row_major(shape_)};
    if (transposed_) {
      std::swap(v.shape[v.ndim() - 2], v.shape[v.ndim() - 1]);
      std::swap(v.strides[v.ndim() - 2], v.strides[v.ndim() - 1]);
    }
    cpu::copy(v, out_);
  }

 private:
  MutView out_;
  Shape shape_;
  bool transposed_;
  DType dtype_;
  std::optional<Scratch> scratch_;
};

int64_t batch_size(const Shape& shape) {
  int64_t n = 1;
  for (int i = 0; i < shape.size() - 2; ++i) n *= shape[i];
  return n;
}

char* at(void* p, int64_t bytes) { return p ? static_cast<char*>(p) + bytes : nullptr; }

// Calls one(matrix, scratch) for each matrix of a batch; returns the first for which it is false,
// or -1. The threads share the batch; the steps of each matrix are counted roughly.
template <class F>
int64_t each_matrix(int64_t batch, int64_t steps, int64_t scratch_bytes, F&& one) {
  std::atomic<int64_t> failed{batch};
  const int64_t threads = std::min<int64_t>(cpu::num_threads(), batch);
  const int64_t each = (scratch_bytes + 63) / 64 * 64;
  const Scratch scratch(static_cast<std::size_t>(each * threads));
  const auto run = [&](int64_t begin, int64_t end) {
    void* const mine = at(scratch.as<void>(), omp_get_thread_num() % threads * each);
    for (int64_t i = begin; i < end && i < failed.load(std::memory_order_relaxed); ++i) {
      if (one(i, mine)) continue;
      int64_t first = failed.load();
      while (i < first && !failed.compare_exchange_weak(first, i)) {
      }
      break;
    }
  };
  cpu::parallel_for(batch, 1 + kThreadSteps / steps, run);
  return failed == batch ? -1 : failed.load();
}

}  // namespace

void kernel(const MatrixInverse&, CpuContext&, Views in, MutViews out) {
  const View& x = in[0];
  if (x.size() == 0) return;
  const DType dtype = working_dtype(x.dtype);
  const int64_t n = x.shape.back(), step = n * n * size_of(dtype);
  const Matrices a(x, dtype, false);
  const Output y(out[0], dtype, false);
  const int64_t failed =
      each_matrix(batch_size(x.shape), n * n * n + 30, cpu::inverse_block(n) * n * size_of(dtype),
                  [&](int64_t i, void* scratch) {
                    return MGE_DISPATCH(invert)(dtype, n, at(a.data(), i * step),
                                                at(y.data(), i * step), scratch);
                  });
  if (failed >= 0) {
    if (x.ndim() == 2) fail_value("MatrixInverse", "expected an invertible matrix: it is singular");
    fail_value("MatrixInverse", "expected invertible matrices: number ", failed, " is singular");
  }
  y.done();
}
REGISTER_KERNEL(MatrixInverse, cpu);

namespace {

// 1 on the diagonal of each matrix, 0 elsewhere.
void set_identity(const MutView& out) {
  if (out.size() == 0) return;
  const int64_t zero = 0, one = 1;
  cpu::copy({&zero, DType::int64, Shape{}, Strides{}}, out);
  MutView diagonal = out;
  diagonal.strides[out.ndim() - 2] += diagonal.strides[out.ndim() - 1];
  diagonal.shape.erase(out.ndim() - 1);
  diagonal.strides.erase(out.ndim() - 1);
  cpu::copy({&one, DType::int64, Shape{}, Strides{}}, diagonal);
}

}  // namespace

void kernel(const SVD& op, CpuContext&, Views in, MutViews out) {
  const View& x = in[0];
  if (x.size() == 0) {
    for (const MutView& v : out) {
      if (v.ndim() == x.ndim()) set_identity(v);
    }
    return;
  }
  const DType dtype = working_dtype(x.dtype);
  const int64_t m = x.shape[x.ndim() - 2], n = x.shape.back();
  // A wide matrix is decomposed as its transpose, whose U is V transposed.
  const bool wide = m < n, uv = op.compute_uv, full = uv && op.full_matrices;
  const int64_t rows = std::max(m, n), cols = std::min(m, n), size = size_of(dtype);
  const Matrices a(x, dtype, m > n);
  std::optional<Output> left, right;
  if (uv) {
    left.emplace(out[wide ? 2 : 0], dtype, wide);
    right.emplace(out[wide ? 0 : 2], dtype, wide);
  }
  const Output s(out[uv ? 1 : 0], dtype, false);
  void* const u = left ? left->data() : nullptr;
  void* const vt = right ? right->data() : nullptr;
  std::atomic<bool> finite{true};
  const int64_t failed = each_matrix(
      batch_size(x.shape), 8 * rows * cols * cols + 300,
      MGE_DISPATCH(svd_workspace)(dtype, rows, cols, full), [&](int64_t i, void* scratch) {
        const cpu::SvdResult result = MGE_DISPATCH(svd)(
            dtype, rows, cols, at(a.data(), i * rows * cols * size), full,
            at(u, i * rows * (full ? rows : cols) * size), at(s.data(), i * cols * size),
            at(vt, i * cols * cols * size), scratch);
        if (result == cpu::SvdResult::not_finite) finite = false;
        return result == cpu::SvdResult::done;
      });
  if (failed >= 0) {
    const char* what = finite ? "did not converge" : "expected finite values, got NaN or infinity";
    fail_value("SVD", what, " in matrix ", failed, " of the batch");
  }
  s.done();
  if (left) left->done();
  if (right) right->done();
}
REGISTER_KERNEL(SVD, cpu);

}  // namespace mge
