"""Object detection and deformable networks, at the sizes of a feature pyramid, through torchvision.

Correlation is written out of PyTorch's functions; torchvision has none.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torchvision import ops

from benchmarks.workloads import Work, boxes, workload
from benchmarks.workloads.torch_peer import backward, forward, images, workload_of_images

FEATURES = (2, 256, 100, 136)  # of two images of 800 x 1088 pixels, an eighth of their size


def proposals(count: int) -> torch.Tensor:
    return torch.from_numpy(boxes.boxes(count))


def align(x: torch.Tensor, rois: torch.Tensor, size: int) -> torch.Tensor:
    return ops.roi_align(x, rois, size, 0.125, 2, True)


@workload_of_images
def roi_align_512() -> Work:
    x, rois = images(*FEATURES), proposals(512)
    return forward(lambda: align(x, rois, 7))


@workload_of_images
def roi_align_few() -> Work:
    x, rois = images(*FEATURES), proposals(16)
    return forward(lambda: align(x, rois, 7))


@workload_of_images
def roi_align_masks() -> Work:
    x, rois = images(*FEATURES), proposals(100)
    return forward(lambda: align(x, rois, 14))


@workload_of_images
def roi_align_train() -> Work:
    x, rois = images(*FEATURES), proposals(512)
    return backward(lambda: align(x, rois, 7), [x])


@workload_of_images
def roi_pooling_512() -> Work:
    x, rois = images(*FEATURES), proposals(512)
    return forward(lambda: ops.roi_pool(x, rois, 7, 0.125))


@workload_of_images
def roi_pooling_train() -> Work:
    x, rois = images(*FEATURES), proposals(512)
    return backward(lambda: ops.roi_pool(x, rois, 7, 0.125), [x])


def suppression(count: int, threshold: float) -> Work:
    box, score = proposals(count)[:, 1:].contiguous(), torch.from_numpy(boxes.scores(count))
    return forward(lambda: ops.nms(box, score, threshold))


@workload
def nms_200() -> Work:
    return suppression(200, 0.5)


@workload
def nms_2000() -> Work:
    return suppression(2000, 0.7)


@workload
def nms_20000() -> Work:
    return suppression(20000, 0.5)


def deformable() -> tuple[torch.Tensor, ...]:
    return (
        images(2, 256, 50, 68),
        images(2, 18, 50, 68),
        torch.randn(256, 256, 3, 3),
        images(2, 9, 50, 68),
    )


@workload_of_images
def deformable_conv() -> Work:
    x, offset, w, mask = deformable()
    return forward(lambda: ops.deform_conv2d(x, offset, w, padding=1, mask=mask))


@workload_of_images
def deformable_conv_train() -> Work:
    x, offset, w, mask = deformable()
    return backward(
        lambda: ops.deform_conv2d(x, offset, w, padding=1, mask=mask), [x, w, offset, mask]
    )


def correlate(a: torch.Tensor, b: torch.Tensor, far: int) -> torch.Tensor:
    """Products of a with b moved by up to `far` pixels in steps of 2."""
    h, w = a.shape[2:]
    padded = F.pad(b, (far,) * 4)
    steps = range(0, 2 * far + 1, 2)
    moved = [padded[:, :, y : y + h, x : x + w] for y in steps for x in steps]
    return torch.stack([(a * m).mean(1) for m in moved], 1)


@workload_of_images
def correlation_flownet() -> Work:
    a, b = images(1, 256, 48, 64), images(1, 256, 48, 64)
    return forward(lambda: correlate(a, b, 20))


@workload_of_images
def correlation_train() -> Work:
    a, b = images(1, 64, 48, 64), images(1, 64, 48, 64)
    return backward(lambda: correlate(a, b, 8), [a, b])
