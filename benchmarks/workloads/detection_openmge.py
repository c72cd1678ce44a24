"""Object detection and deformable networks, at the sizes of a feature pyramid, through OpenMGE."""

from __future__ import annotations

import megengine as mge
import megengine.functional as F
from benchmarks.workloads import Work, boxes, workload
from benchmarks.workloads.openmge import backward, features, normal

FEATURES = (2, 256, 100, 136)  # of two images of 800 x 1088 pixels, an eighth of their size


def proposals(count: int) -> mge.Tensor:
    return mge.tensor(boxes.boxes(count))


@workload
def roi_align_512() -> Work:
    x, rois = features(*FEATURES), proposals(512)
    return Work(lambda: F.vision.roi_align(x, rois, 7, spatial_scale=0.125))


@workload
def roi_align_few() -> Work:
    x, rois = features(*FEATURES), proposals(16)
    return Work(lambda: F.vision.roi_align(x, rois, 7, spatial_scale=0.125))


@workload
def roi_align_masks() -> Work:
    x, rois = features(*FEATURES), proposals(100)
    return Work(lambda: F.vision.roi_align(x, rois, 14, spatial_scale=0.125))


@workload
def roi_align_train() -> Work:
    x, rois = features(*FEATURES), proposals(512)
    return backward(lambda: F.vision.roi_align(x, rois, 7, spatial_scale=0.125), [x])


@workload
def roi_pooling_512() -> Work:
    x, rois = features(*FEATURES), proposals(512)
    return Work(lambda: F.vision.roi_pooling(x, rois, 7, scale=0.125))


@workload
def roi_pooling_train() -> Work:
    x, rois = features(*FEATURES), proposals(512)
    return backward(lambda: F.vision.roi_pooling(x, rois, 7, scale=0.125), [x])


def suppression(count: int, threshold: float) -> Work:
    box, score = proposals(count)[:, 1:], mge.tensor(boxes.scores(count))
    return Work(lambda: F.vision.nms(box, score, threshold).numpy())


@workload
def nms_200() -> Work:
    return suppression(200, 0.5)


@workload
def nms_2000() -> Work:
    return suppression(2000, 0.7)


@workload
def nms_20000() -> Work:
    return suppression(20000, 0.5)


@workload
def deformable_conv() -> Work:
    x, w = normal(2, 256, 50, 68), normal(256, 256, 3, 3)
    offset, mask = normal(2, 18, 50, 68), normal(2, 9, 50, 68)
    return Work(lambda: F.deformable_conv2d(x, w, offset, mask, padding=1))


@workload
def deformable_conv_train() -> Work:
    x, w = normal(2, 256, 50, 68), normal(256, 256, 3, 3)
    offset, mask = normal(2, 18, 50, 68), normal(2, 9, 50, 68)
    operands = [x, w, offset, mask]
    return backward(lambda: F.deformable_conv2d(*operands, padding=1), operands)


@workload
def correlation_flownet() -> Work:
    a, b = normal(1, 256, 48, 64), normal(1, 256, 48, 64)
    return Work(lambda: F.vision.correlation(a, b, 1, 20, 1, 2, 20))


@workload
def correlation_train() -> Work:
    a, b = normal(1, 64, 48, 64), normal(1, 64, 48, 64)
    return backward(lambda: F.vision.correlation(a, b, 1, 8, 1, 2, 8), [a, b])


@workload
def deformable_psroi_pooling() -> Work:
    x, rois, trans = features(*FEATURES), proposals(512), normal(512, 2, 7, 7)
    return Work(lambda: F.deformable_psroi_pooling(x, rois, trans, False, 7, 7, 7, 4, 0.125, 0.1))
