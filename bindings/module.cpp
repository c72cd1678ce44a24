#include "bindings/exchange.h"
#include "bindings/pixels.h"
#include "bindings/symbol.h"
#include "bindings/tensor.h"

NB_MODULE(_core, m) {
  using namespace mge::py;
  nanobind::set_leak_warnings(
      false);  // tensors in module globals outlive the interpreter's clean-up
  bind_runtime(m);
  bind_random(m);
  bind_graph(m);
  bind_symbol(m);
  bind_trace(m);
  bind_convert(m);
  bind_tensor(m);
  bind_exchange(m);
  bind_ops(m);
  bind_shape(m);
  bind_indexing(m);
  bind_autodiff(m);
  bind_amp(m);
  bind_optimizer(m);
  bind_pixels(m);
}
