#include <algorithm>
#include <vector>

#include "core/kernels/cpu/packed.h"
#include "core/ops/ctc_loss/ctc_loss.h"
#include "core/ops/ctc_loss/ctc_loss.loops.h"

namespace mge {
namespace {

using cpu::Packed;
using std::int64_t;

// The lengths and labels of a batch, checked.
class Batch {
 public:
  // in: probs, input_lengths, labels, label_lengths
  Batch(const char* op, Views in, int64_t blank, double* alpha)
      : probs_(in[0], in[0].dtype),
        input_lengths_(in[1], DType::int64),
        labels_(in[2], DType::int64),
        label_lengths_(in[3], DType::int64) {
    const Shape &probs = in[0].shape, &labels = in[2].shape;
    batch_ = {.dtype = in[0].dtype,
              .probs = probs_.data(),
              .frames = probs[0],
              .samples = probs[1],
              .classes = probs[2],
              .blank = blank,
              .input_lengths = input_lengths_.as<int64_t>(),
              .label_lengths = label_lengths_.as<int64_t>(),
              .labels = nullptr,
              .alpha = nullptr,
              .most_labels = 0};
    const bool joined = labels.size() == 1;
    check_lengths(op, joined ? labels[0] : labels[1]);
    int64_t used = 0;
    for (int64_t n = 0; n < batch_.samples; ++n) {
      const int64_t size = batch_.label_lengths[n];
      rows_.push_back(labels_.as<int64_t>() + (joined ? used : n * labels[1]));
      alpha_.push_back(alpha + batch_.frames * (2 * used + n));
      batch_.most_labels = std::max(batch_.most_labels, size);
      used += size;
      if (joined && used > labels[0]) break;
    }
    if (joined && used != labels[0]) {
      fail_value(op, "expected as many labels as label_lengths add up to, got ", labels[0]);
    }
    check_labels(op);
    batch_.labels = rows_.data();
    batch_.alpha = alpha_.data();
  }
  const cpu::CTCBatch& get() const { return batch_; }

 private:
  void check_lengths(const char* op, int64_t most_labels) const {
    for (int64_t n = 0; n < batch_.samples; ++n) {
      const int64_t frames = batch_.input_lengths[n], size = batch_.label_lengths[n];
      if (frames < 0 || frames > batch_.frames) {
        fail_value(op, "expected pred_lengths in [0, ", batch_.frames, "], got ", frames);
      }
      if (size < 0 || size > most_labels) {
        fail_value(op, "expected label_lengths in [0, ", most_labels, "], got ", size);
      }
    }
  }
  void check_labels(const char* op) const {
    for (int64_t n = 0; n < batch_.samples; ++n) {
      for (int64_t i = 0; i < batch_.label_lengths[n]; ++i) {
        const int64_t label = rows_[static_cast<std::size_t>(n)][i];
        if (label < 0 || label >= batch_.classes) {
          fail_index(op, "label ", label, " is out of range for ", batch_.classes, " classes");
        }
      }
    }
  }

  Packed probs_, input_lengths_, labels_, label_lengths_;
  std::vector<const int64_t*> rows_;
  std::vector<double*> alpha_;
  cpu::CTCBatch batch_;
};

}  // namespace

void kernel(const CTCLoss& op, CpuContext&, Views in, MutViews out) {
  const Batch batch("CTCLoss", in, op.blank, static_cast<double*>(out[1].data));
  std::vector<double> loss(static_cast<std::size_t>(batch.get().samples));
  MGE_DISPATCH(ctc_loss)(batch.get(), loss.data());
  cpu::store_doubles(loss, out[0]);
}
REGISTER_KERNEL(CTCLoss, cpu);

void kernel(const CTCLossBackward& op, CpuContext&, Views in, MutViews out) {
  const Packed alpha(in[5], DType::float64);
  // Only read here.
  const Batch batch("CTCLossBackward", in.subspan(1, 4), op.blank,
                    const_cast<double*>(alpha.as<double>()));
  if (out[0].size() == 0) return;
  const std::vector<double> dloss = cpu::doubles(in[0]);
  MGE_DISPATCH(ctc_loss_backward)(batch.get(), dloss.data(), out[0].data);
}
REGISTER_KERNEL(CTCLossBackward, cpu);

}  // namespace mge
