#include <optional>

#include "core/kernels/cpu/copy.h"
#include "core/kernels/cpu/gemm.h"
#include "core/kernels/cpu/onednn.h"
#include "core/kernels/cpu/packed_weights.h"
#include "core/kernels/cpu/panel_product.h"
#include "core/ops/matmul/matmul.h"
#include "core/runtime/allocator.h"

namespace mge {
namespace {

using std::int64_t;

// A dense copy of a view in another dtype, or in row-major order.
class Copied {
 public:
  Copied(const View& from, DType dtype)
      : scratch_(static_cast<std::size_t>(from.size() * size_of(dtype))),
        view_{scratch_.as<void>(), dtype, from.shape, mge::row_major(from.shape)} {
    cpu::copy(from, view_);
  }
  const MutView& view() const { return view_; }

 private:
  Scratch scratch_;
  MutView view_;
};

// a, b and c with as many leading axes each: those of c, where a and b may repeat (stride 0).
struct Product {
  View a, b;
  MutView c;
  int batch_axes() const { return c.ndim() - 2; }
  int64_t rows() const { return c.shape[c.ndim() - 2]; }
  int64_t cols() const { return c.shape.back(); }
  int64_t depth() const { return a.shape.back(); }
};

View transposed(View v, bool flag) {
  if (flag) {
    std::swap(v.shape[v.ndim() - 2], v.shape[v.ndim() - 1]);
    std::swap(v.strides[v.ndim() - 2], v.strides[v.ndim() - 1]);
  }
  return v;
}

template <class V>
void insert_axis(V& v, int at) {
  v.shape.insert(at, 1);
  v.strides.insert(at, 0);
}

// The operands as matrices with equal leading axes.
Product product_of(View a, View b, MutView c) {
  if (a.ndim() == 1) {
    insert_axis(a, 0);
    insert_axis(c, b.ndim() == 1 ? c.ndim() : c.ndim() - 1);
  }
  if (b.ndim() == 1) {
    insert_axis(b, 1);
    insert_axis(c, c.ndim());
  }
  for (View* v : {&a, &b}) {
    Shape shape = c.shape;
    shape[c.ndim() - 2] = v->shape[v->ndim() - 2];
    shape[c.ndim() - 1] = v->shape[v->ndim() - 1];
    v->strides = broadcast_strides(v->shape, v->strides, shape);
    v->shape = shape;
  }
  return {a, b, c};
}

void drop_axis(Product& p, int axis) {
  for (View* v : {&p.a, &p.b}) {
    v->shape.erase(axis);
    v->strides.erase(axis);
  }
  p.c.shape.erase(axis);
  p.c.strides.erase(axis);
}

// Fewer leading axes: those of one element go, neighbours that step alike become one, and where b
// repeats over the last of them it becomes part of a's rows.
void collapse(Product& p) {
  for (int d = p.batch_axes() - 1; d >= 0; --d) {
    if (p.c.shape[d] == 1) drop_axis(p, d);
  }
  const auto nested = [](const Dims& strides, int outer, int64_t inner_size) {
    return strides[outer] == strides[outer + 1] * inner_size;
  };
  for (int d = p.batch_axes() - 2; d >= 0; --d) {
    const int64_t inner = p.c.shape[d + 1];
    if (!nested(p.a.strides, d, inner) || !nested(p.b.strides, d, inner) ||
        !nested(p.c.strides, d, inner)) {
      continue;
    }
    p.a.shape[d + 1] *= p.a.shape[d];
    p.b.shape[d + 1] *= p.b.shape[d];
    p.c.shape[d + 1] *= p.c.shape[d];
    drop_axis(p, d);
  }
  while (p.batch_axes() > 0) {
    const int d = p.batch_axes() - 1;
    const int64_t m = p.rows();
    const bool a_flat = m == 1 ? true : nested(p.a.strides, d, m);
    const bool c_flat = m == 1 ? true : nested(p.c.strides, d, m);
    if (p.b.strides[d] != 0 || !a_flat || !c_flat) return;
    const int64_t all = m * p.c.shape[d];
    if (m == 1) {
      p.a.strides[d + 1] = p.a.strides[d];
      p.c.strides[d + 1] = p.c.strides[d];
    }
    p.a.shape[d + 1] = p.c.shape[d + 1] = all;
    drop_axis(p, d);
  }
}

Dims leading(const Dims& d) {
  Dims out = d;
  out.resize(d.size() - 2);
  return out;
}

void own_gemm(const Product& p, bool accumulate) {
  const int row = p.batch_axes(), col = row + 1;
  cpu::Gemm g;
  g.m = p.rows();
  g.n = p.cols();
  g.k = p.depth();
  g.a = p.a.data;
  g.b = p.b.data;
  g.c = p.c.data;
  g.a_row = p.a.strides[row];
  g.a_col = p.a.strides[col];
  g.b_row = p.b.strides[row];
  g.b_col = p.b.strides[col];
  g.c_row = p.c.strides[row];
  g.c_col = p.c.strides[col];
  g.accumulate = accumulate;
  g.batch = leading(p.c.shape);
  g.a_batch = leading(p.a.strides);
  g.b_batch = leading(p.b.strides);
  g.c_batch = leading(p.c.strides);
  cpu::gemm(p.c.dtype, g);
}

// Gives axes of one element strides that say nothing false; true where oneDNN can read the rest.
template <class V>
bool tidy(V& v) {
  const int row = v.ndim() - 2, col = row + 1;
  const int64_t m = v.shape[row], n = v.shape[col];
  if (n == 1 && m == 1) v.strides[row] = v.strides[col] = 1;
  if (n == 1 && m > 1) v.strides[col] = v.strides[row] == 1 ? m : 1;
  if (m == 1 && n > 1) v.strides[row] = v.strides[col] == 1 ? n : 1;
  const int64_t rs = v.strides[row], cs = v.strides[col];
  if (!(cs == 1 && rs >= n) && !(rs == 1 && cs >= m)) return false;
  for (int d = 0; d < row; ++d) {
    if (v.strides[d] == 0) v.shape[d] = 1;
    if (v.shape[d] == 1) v.strides[d] = std::max(m * rs, n * cs);
    if (v.strides[d] < 0) return false;
  }
  return true;
}

// A copy of what repeats, once.
View without_repeats(View v) {
  for (int d = 0; d < v.ndim() - 2; ++d) {
    if (v.strides[d] == 0) v.shape[d] = 1;
  }
  return v;
}

// A bias as neighbouring numbers of the result's dtype.
class FlatBias {
 public:
  FlatBias(const View* bias, DType dtype) {
    if (!bias) return;
    const bool as_is = bias->row_major() && bias->dtype == dtype;
    view_ = as_is ? *bias : copy_.emplace(*bias, dtype).view();
  }
  const View* view() const { return view_ ? &*view_ : nullptr; }
  const float* floats() const { return view_ ? static_cast<const float*>(view_->data) : nullptr; }

 private:
  std::optional<Copied> copy_;
  std::optional<View> view_;
};

bool onednn(const char* op, const Product& p, const View* bias, const cpu::dnn::PostOps& post = {},
            ValueImpl* owner_of_b = nullptr) {
  View a = p.a, b = p.b;
  MutView c = p.c;
  std::optional<Copied> own_a, own_b;
  if (!tidy(a)) {
    a = own_a.emplace(without_repeats(p.a), p.a.dtype).view();
    tidy(a);
  }
  if (!tidy(b)) {
    b = own_b.emplace(without_repeats(p.b), p.b.dtype).view();
    tidy(b);
  }
  const FlatBias flat(bias, c.dtype);
  return tidy(c) && cpu::dnn::matmul(op, a, b, flat.view(), c, post, own_b ? nullptr : owner_of_b);
}

// Measured with oneDNN 3.2: below these sizes its call costs more than the product on one thread,
// and products with a vector run at the speed of memory either way.
bool own_is_faster(int64_t m, int64_t n, int64_t k, bool batched) {
  if (m == 1 || n == 1) return true;
  if (m * n <= 64 && k >= (1 << 16)) return true;  // and more exact
  const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  return work <= (batched ? 30e3 : 300e3);
}
bool own_is_faster(const Product& p) {
  return own_is_faster(p.rows(), p.cols(), p.depth(), p.batch_axes() > 0);
}

void multiply_float32(const char* op, const Product& p, const View* bias) {
  if (!own_is_faster(p) && onednn(op, p, bias)) return;
  if (bias) cpu::copy(*bias, p.c);
  own_gemm(p, bias != nullptr);
}

// 16-bit floats that the machine cannot multiply, or too few of them for oneDNN to pay.
void multiply_widened(const char* op, const Product& p, const View* bias) {
  const Copied a(without_repeats(p.a), DType::float32), b(without_repeats(p.b), DType::float32);
  const auto repeated = [](View v, const View& like) {
    v.strides = broadcast_strides(v.shape, v.strides, like.shape);
    v.shape = like.shape;
    return v;
  };
  const Scratch c(static_cast<std::size_t>(p.c.size()) * sizeof(float));
  const MutView c32{c.as<void>(), DType::float32, p.c.shape, row_major(p.c.shape)};
  multiply_float32(op, {repeated(a.view(), p.a), repeated(b.view(), p.b), c32}, bias);
  cpu::copy(c32, p.c);
}

void fill(const View* bias, const MutView& c) {
  const std::int64_t zero = 0;
  cpu::copy(bias ? *bias : View{&zero, DType::int64, Shape{}, Strides{}}, c);
}

void multiply(const char* op, Product p, const View* bias) {
  if (p.c.size() == 0) return;
  if (p.depth() == 0) return fill(bias, p.c);
  collapse(p);
  const DType dtype = p.c.dtype;
  if (dtype == DType::float32) return multiply_float32(op, p, bias);
  if (is_low_float(dtype)) {
    const bool done = cpu::dnn::computes(dtype) && !own_is_faster(p) && onednn(op, p, bias);
    if (!done) multiply_widened(op, p, bias);
    return;
  }
  if (bias) cpu::copy(*bias, p.c);
  own_gemm(p, bias != nullptr);
}

// 8- and 16-bit integers are multiplied as int32.
void multiply_any(const char* op, const View& a, const View& b, const View* bias,
                  const MutView& c) {
  std::optional<Copied> a32, b32;
  const bool widen = is_integer(a.dtype) && a.dtype != c.dtype;
  const View wide_a = widen ? a32.emplace(a, c.dtype).view() : a;
  const View wide_b = widen ? b32.emplace(b, c.dtype).view() : b;
  multiply(op, product_of(wide_a, wide_b, c), bias);
}

}  // namespace

void kernel(const MatrixMul& op, CpuContext&, Views in, MutViews out) {
  multiply_any("MatrixMul", transposed(in[0], op.transposeA), transposed(in[1], op.transposeB),
               nullptr, out[0]);
}
REGISTER_KERNEL(MatrixMul, cpu);

void kernel(const BatchedMatrixMul& op, CpuContext&, Views in, MutViews out) {
  multiply_any("BatchedMatrixMul", transposed(in[0], op.transposeA),
               transposed(in[1], op.transposeB), nullptr, out[0]);
}
REGISTER_KERNEL(BatchedMatrixMul, cpu);

void kernel(const Dot&, CpuContext&, Views in, MutViews out) {
  View a = in[0], b = in[1];
  for (View* v : {&a, &b}) {
    if (v->ndim() == 0) insert_axis(*v, 0);
  }
  multiply_any("Dot", a, b, nullptr, out[0]);
}
REGISTER_KERNEL(Dot, cpu);

namespace {

// Beside oneDNN 3.2 with weights in its own layout, our product takes 0.98 of the time for weights
// that come from memory, by what it fetches ahead; from 512 rows on that is made good. oneDNN's for
// AVX2 takes 1.1 to 2 times as long as ours at any size. Fewer rows do not fill a tile.
bool takes_panels(const Product& p, const cpu::dnn::PostOps& post) {
  const bool pays = p.rows() >= 12 && (p.rows() < 512 || cpu::isa() != cpu::Isa::avx512);
  return pays && p.c.dtype == DType::float32 && p.a.strides[1] == 1 && p.c.strides[1] == 1 &&
         post.add != cpu::dnn::PostOps::Add::after_activation;
}

void multiply_panels(const Product& p, const View* bias, cpu::dnn::PostOps post,
                     const Value& weight) {
  const auto panels = cpu::packed_weights(
      *weight.impl(), cpu::layout_for(cpu::OwnLayout::panels), cpu::KeepWeights::at_once, [&] {
        const int64_t size = MGE_DISPATCH(weight_panels_size)(p.depth(), p.cols());
        auto made = std::make_shared<Scratch>(static_cast<std::size_t>(size) * sizeof(float));
        MGE_DISPATCH(pack_weight_panels)
        (static_cast<const float*>(p.b.data), p.b.strides[0], p.b.strides[1], p.depth(), p.cols(),
         made->as<float>());
        return made;
      });
  const FlatBias flat(bias, p.c.dtype);
  cpu::PanelProduct g;
  g.rows = p.rows(), g.depth = p.depth(), g.cols = p.cols();
  g.a = static_cast<const float*>(p.a.data);
  g.a_row = p.a.strides[0];
  g.panels = panels->as<float>();
  g.bias = flat.floats();
  g.c = static_cast<float*>(p.c.data);
  g.c_row = p.c.strides[0];
  g.add = post.add == cpu::dnn::PostOps::Add::before_activation;
  post.add = cpu::dnn::PostOps::Add::none;
  if (post.activation || post.scale != 1 || post.shift != 0) g.post = &post;
  MGE_DISPATCH(panel_product)(g);
}

}  // namespace

bool linear_takes_post_ops(const Spec& x, const Spec& weight) {
  if (x.ndim() < 2 || x.size() == 0 || weight.size() == 0) return false;
  if (!cpu::dnn::computes(x.dtype)) return false;
  const int64_t depth = x.shape.back();
  return !own_is_faster(x.size() / depth, weight.shape[0], depth, false);
}

bool run_linear_with(const char* op, const Values& in, const cpu::dnn::PostOps& post,
                     const MutView& out) {
  if (!linear_takes_post_ops(in[0].spec(), in[1].spec())) return false;
  Product p = product_of(in[0].view(), transposed(in[1].view(), true), out);
  collapse(p);
  if (p.batch_axes() > 0) return false;
  View view;
  if (in.size() > 2) view = in[2].view();
  const View* const bias = in.size() > 2 ? &view : nullptr;
  if (takes_panels(p, post)) {
    multiply_panels(p, bias, post, in[1]);
    return true;
  }
  return onednn(op, p, bias, post, in[1].impl());
}

void kernel(const Linear&, CpuContext&, Views in, MutViews out) {
  View bias;
  if (in.size() > 2) bias = in[2];
  multiply_any("Linear", in[0], transposed(in[1], true), in.size() > 2 ? &bias : nullptr, out[0]);
}
REGISTER_KERNEL(Linear, cpu);

}  // namespace mge
