#include "core/ops/optical_flow/optical_flow.h"

namespace mge {

Values execute(const NvOf&, Values&) {
  fail(ErrorKind::not_implemented, "NvOf",
       "needs the optical flow unit of an NVIDIA GPU, which no device here has; compute the flow "
       "with a network, or outside with OpenCV's DISOpticalFlow");
}

REGISTER_OP(NvOf);

}  // namespace mge
