"""Resizing, sampling and warping of images and features, and a UNet, through OpenMGE."""

from __future__ import annotations

import numpy as np

import megengine as mge
import megengine.functional as F
from benchmarks.workloads import Work, positions, workload
from benchmarks.workloads.openmge import backward, features, integers, normal
from examples.models.unet import UNet

resize = F.vision.interpolate


@workload
def bilinear_2x() -> Work:
    x = features(8, 64, 56, 56)
    return Work(lambda: resize(x, scale_factor=2.0))


@workload
def bilinear_2x_train() -> Work:
    x = features(8, 64, 56, 56)
    return backward(lambda: resize(x, scale_factor=2.0), [x])


@workload
def bilinear_logits() -> Work:
    x = normal(2, 21, 65, 65)
    return Work(lambda: resize(x, (513, 513), align_corners=True))


@workload
def bilinear_logits_train() -> Work:
    x = normal(2, 21, 65, 65)
    return backward(lambda: resize(x, (513, 513), align_corners=True), [x])


@workload
def bilinear_photo() -> Work:
    x = normal(8, 3, 512, 512)
    return Work(lambda: resize(x, (224, 224)))


@workload
def nearest_2x() -> Work:
    x = features(4, 256, 32, 32)
    return Work(lambda: resize(x, scale_factor=2.0, mode="nearest"))


@workload
def nearest_2x_train() -> Work:
    x = features(4, 256, 32, 32)
    return backward(lambda: resize(x, scale_factor=2.0, mode="nearest"), [x])


@workload
def bicubic_photo() -> Work:
    x = normal(8, 3, 224, 224)
    return Work(lambda: resize(x, scale_factor=2.0, mode="bicubic"))


@workload
def bicubic_photo_train() -> Work:
    x = normal(8, 3, 224, 224)
    return backward(lambda: resize(x, scale_factor=2.0, mode="bicubic"), [x])


@workload
def trilinear_2x() -> Work:
    x = normal(1, 16, 24, 48, 48)
    return Work(lambda: resize(x, scale_factor=2.0, mode="trilinear"))


@workload
def trilinear_2x_train() -> Work:
    x = normal(1, 16, 24, 48, 48)
    return backward(lambda: resize(x, scale_factor=2.0, mode="trilinear"), [x])


@workload
def linear_1d() -> Work:
    x = normal(16, 64, 1000)
    return Work(lambda: resize(x, scale_factor=2.0, mode="linear"))


@workload
def area_photo() -> Work:
    x = normal(8, 3, 512, 512)
    return Work(lambda: F.vision.resize(x, (256, 256), imode="area"))


def remapped(x: mge.Tensor, size: int, mode: str = "linear") -> Work:
    at = mge.tensor(positions.pixels(x.shape, size))
    return Work(lambda: F.vision.remap(x, at, interp_mode=mode))


@workload
def remap_photo() -> Work:
    return remapped(normal(8, 3, 256, 256), 224)


@workload
def remap_features() -> Work:
    return remapped(features(8, 64, 56, 56), 56)


@workload
def remap_nearest() -> Work:
    return remapped(features(8, 64, 56, 56), 56, "nearest")


@workload
def remap_cubic() -> Work:
    return remapped(features(4, 16, 128, 128), 128, "cubic")


@workload
def remap_photo_train() -> Work:
    x, at = normal(8, 3, 256, 256), mge.tensor(positions.pixels((8, 3, 256, 256), 224))
    return backward(lambda: F.vision.remap(x, at), [x, at])


@workload
def remap_features_train() -> Work:
    x, at = features(8, 64, 56, 56), mge.tensor(positions.pixels((8, 64, 56, 56), 56))
    return backward(lambda: F.vision.remap(x, at), [x, at])


@workload
def warp_affine_photo() -> Work:
    x, mat = normal(8, 3, 256, 256), mge.tensor(positions.pixel_matrices(8, 256, 224))
    return Work(lambda: F.vision.warp_affine(x, mat, (224, 224), "constant", format="NCHW"))


@workload
def warp_affine_train() -> Work:
    x, mat = normal(8, 32, 64, 64), mge.tensor(positions.pixel_matrices(8, 64, 64))
    return backward(
        lambda: F.vision.warp_affine(x, mat, (64, 64), "constant", format="NCHW"), [x, mat]
    )


@workload
def gray_photo() -> Work:
    x = integers(256, 8, 512, 512, 3).astype("uint8")
    return Work(lambda: F.vision.cvt_color(x, "RGB2GRAY"))


@workload
def unet_train() -> Work:
    net = UNet(3, 4, width=16, depth=3, padding=1, bilinear=True)
    x = mge.tensor(np.random.default_rng(0).standard_normal((4, 3, 128, 128)).astype("float32"))
    return backward(lambda: net(x), list(net.parameters()))


@workload
def unet_infer() -> Work:
    net = UNet(3, 4, width=16, depth=3, padding=1, bilinear=True)
    net.eval()
    x = normal(1, 3, 256, 256)
    return Work(lambda: net(x))
