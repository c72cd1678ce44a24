"""Convolutions of 3 x 3 and other ranks, transposed, local and restricted ones, through OpenMGE.

Also windows, padding, pixel shuffle and response normalisation.
"""

from __future__ import annotations

import numpy as np

import megengine as mge
import megengine.functional as F
from benchmarks.workloads import Work, workload
from benchmarks.workloads.openmge import backward, features, normal


def grouped(groups: int, *shape: int) -> mge.Tensor:
    """A weight (out, in / groups, ...) in the shape that groups have here."""
    return normal(groups, shape[0] // groups, *shape[1:])


def regions(*shape: int) -> mge.Tensor:
    """Four regions, in blocks of 8 x 8 pixels."""
    at = np.indices(shape)
    return mge.tensor(((at[1] // 8 + at[2] // 8) % 4).astype("int32"))


@workload
def conv1d_tcn() -> Work:
    x, w = normal(16, 64, 1000), normal(64, 64, 3)
    return Work(lambda: F.conv1d(x, w, padding=1))


@workload
def conv1d_tcn_train() -> Work:
    x, w = normal(16, 64, 1000), normal(64, 64, 3)
    return backward(lambda: F.conv1d(x, w, padding=1), [x, w])


@workload
def conv1d_wide() -> Work:
    x, w = normal(8, 256, 500), normal(256, 256, 9)
    return Work(lambda: F.conv1d(x, w, padding=4))


@workload
def conv1d_wide_train() -> Work:
    x, w = normal(8, 256, 500), normal(256, 256, 9)
    return backward(lambda: F.conv1d(x, w, padding=4), [x, w])


@workload
def conv1d_dilated() -> Work:
    x, w = normal(8, 64, 4000), normal(128, 64, 2)
    return Work(lambda: F.conv1d(x, w, dilation=16))


@workload
def conv1d_dilated_train() -> Work:
    x, w = normal(8, 64, 4000), normal(128, 64, 2)
    return backward(lambda: F.conv1d(x, w, dilation=16), [x, w])


@workload
def conv1d_depthwise() -> Work:
    x, w = normal(8, 512, 500), grouped(512, 512, 1, 31)
    return Work(lambda: F.conv1d(x, w, padding=15, groups=512))


@workload
def conv1d_depthwise_train() -> Work:
    x, w = normal(8, 512, 500), grouped(512, 512, 1, 31)
    return backward(lambda: F.conv1d(x, w, padding=15, groups=512), [x, w])


@workload
def conv1d_pointwise() -> Work:
    x, w = normal(8, 512, 200), normal(512, 512, 1)
    return Work(lambda: F.conv1d(x, w))


@workload
def conv1d_pointwise_train() -> Work:
    x, w = normal(8, 512, 200), normal(512, 512, 1)
    return backward(lambda: F.conv1d(x, w), [x, w])


@workload
def conv1d_stft() -> Work:
    x, w = normal(4, 1, 16000), normal(201, 1, 400)
    return Work(lambda: F.conv1d(x, w, stride=160))


@workload
def conv1d_stft_train() -> Work:
    x, w = normal(4, 1, 16000), normal(201, 1, 400)
    return backward(lambda: F.conv1d(x, w, stride=160), [x, w])


@workload
def conv1d_small() -> Work:
    x, w = normal(1, 32, 128), normal(32, 32, 3)
    return Work(lambda: F.conv1d(x, w, padding=1))


@workload
def conv1d_small_train() -> Work:
    x, w = normal(1, 32, 128), normal(32, 32, 3)
    return backward(lambda: F.conv1d(x, w, padding=1), [x, w])


@workload
def conv3d_stem() -> Work:
    x, w = normal(2, 3, 16, 112, 112), normal(64, 3, 3, 7, 7)
    return Work(lambda: F.conv3d(x, w, stride=(1, 2, 2), padding=(1, 3, 3)))


@workload
def conv3d_stem_train() -> Work:
    x, w = normal(2, 3, 16, 112, 112), normal(64, 3, 3, 7, 7)
    return backward(lambda: F.conv3d(x, w, stride=(1, 2, 2), padding=(1, 3, 3)), [x, w])


@workload
def conv3d_block() -> Work:
    x, w = normal(2, 16, 16, 56, 56), normal(32, 16, 3, 3, 3)
    return Work(lambda: F.conv3d(x, w, padding=1))


@workload
def conv3d_block_train() -> Work:
    x, w = normal(2, 16, 16, 56, 56), normal(32, 16, 3, 3, 3)
    return backward(lambda: F.conv3d(x, w, padding=1), [x, w])


@workload
def conv3d_medical() -> Work:
    x, w = normal(1, 1, 64, 64, 64), normal(16, 1, 3, 3, 3)
    return Work(lambda: F.conv3d(x, w, padding=1))


@workload
def conv3d_medical_train() -> Work:
    x, w = normal(1, 1, 64, 64, 64), normal(16, 1, 3, 3, 3)
    return backward(lambda: F.conv3d(x, w, padding=1), [x, w])


@workload
def conv3d_pointwise() -> Work:
    x, w = normal(1, 64, 8, 28, 28), normal(128, 64, 1, 1, 1)
    return Work(lambda: F.conv3d(x, w))


@workload
def conv3d_pointwise_train() -> Work:
    x, w = normal(1, 64, 8, 28, 28), normal(128, 64, 1, 1, 1)
    return backward(lambda: F.conv3d(x, w), [x, w])


@workload
def conv3x3_64_train() -> Work:
    x, w = features(16, 64, 56, 56), normal(64, 64, 3, 3)
    return backward(lambda: F.conv2d(x, w, padding=1), [x, w])


@workload
def conv3x3_128_train() -> Work:
    x, w = features(16, 128, 28, 28), normal(128, 128, 3, 3)
    return backward(lambda: F.conv2d(x, w, padding=1), [x, w])


@workload
def conv3x3_256_train() -> Work:
    x, w = features(16, 256, 14, 14), normal(256, 256, 3, 3)
    return backward(lambda: F.conv2d(x, w, padding=1), [x, w])


@workload
def conv3x3_512_train() -> Work:
    x, w = features(16, 512, 7, 7), normal(512, 512, 3, 3)
    return backward(lambda: F.conv2d(x, w, padding=1), [x, w])


@workload
def conv_transpose2d_gan() -> Work:
    x, w = normal(4, 256, 16, 16), normal(256, 128, 4, 4)
    return Work(lambda: F.conv_transpose2d(x, w, stride=2, padding=1))


@workload
def conv_transpose2d_gan_train() -> Work:
    x, w = normal(4, 256, 16, 16), normal(256, 128, 4, 4)
    return backward(lambda: F.conv_transpose2d(x, w, stride=2, padding=1), [x, w])


@workload
def conv_transpose2d_unet() -> Work:
    x, w = normal(4, 64, 64, 64), normal(64, 32, 2, 2)
    return Work(lambda: F.conv_transpose2d(x, w, stride=2))


@workload
def conv_transpose2d_unet_train() -> Work:
    x, w = normal(4, 64, 64, 64), normal(64, 32, 2, 2)
    return backward(lambda: F.conv_transpose2d(x, w, stride=2), [x, w])


@workload
def conv_transpose2d_latent() -> Work:
    x, w = normal(8, 100, 1, 1), normal(100, 512, 4, 4)
    return Work(lambda: F.conv_transpose2d(x, w))


@workload
def conv_transpose2d_latent_train() -> Work:
    x, w = normal(8, 100, 1, 1), normal(100, 512, 4, 4)
    return backward(lambda: F.conv_transpose2d(x, w), [x, w])


@workload
def conv_transpose2d_fcn() -> Work:
    x, w = normal(2, 21, 32, 32), normal(21, 21, 16, 16)
    return Work(lambda: F.conv_transpose2d(x, w, stride=8, padding=4))


@workload
def conv_transpose2d_fcn_train() -> Work:
    x, w = normal(2, 21, 32, 32), normal(21, 21, 16, 16)
    return backward(lambda: F.conv_transpose2d(x, w, stride=8, padding=4), [x, w])


@workload
def conv_transpose2d_rgb() -> Work:
    x, w = normal(8, 64, 32, 32), normal(64, 3, 4, 4)
    return Work(lambda: F.conv_transpose2d(x, w, stride=2, padding=1))


@workload
def conv_transpose2d_rgb_train() -> Work:
    x, w = normal(8, 64, 32, 32), normal(64, 3, 4, 4)
    return backward(lambda: F.conv_transpose2d(x, w, stride=2, padding=1), [x, w])


@workload
def conv_transpose3d_unet() -> Work:
    x, w = normal(1, 64, 8, 16, 16), normal(64, 32, 2, 2, 2)
    return Work(lambda: F.conv_transpose3d(x, w, stride=2))


@workload
def conv_transpose3d_unet_train() -> Work:
    x, w = normal(1, 64, 8, 16, 16), normal(64, 32, 2, 2, 2)
    return backward(lambda: F.conv_transpose3d(x, w, stride=2), [x, w])


@workload
def conv_transpose3d_gan() -> Work:
    x, w = normal(1, 32, 8, 16, 16), normal(32, 16, 4, 4, 4)
    return Work(lambda: F.conv_transpose3d(x, w, stride=2, padding=1))


@workload
def conv_transpose3d_gan_train() -> Work:
    x, w = normal(1, 32, 8, 16, 16), normal(32, 16, 4, 4, 4)
    return backward(lambda: F.conv_transpose3d(x, w, stride=2, padding=1), [x, w])


@workload
def conv_relu() -> Work:
    x, w, b = normal(8, 64, 56, 56), normal(64, 64, 3, 3), normal(64)
    return Work(lambda: F.quantized.conv_bias_activation(x, w, b, padding=1, nonlinear_mode="relu"))


@workload
def conv_relu_train() -> Work:
    x, w, b = normal(8, 64, 56, 56), normal(64, 64, 3, 3), normal(64)
    return backward(
        lambda: F.quantized.conv_bias_activation(x, w, b, padding=1, nonlinear_mode="relu"),
        [x, w, b],
    )


@workload
def local_conv() -> Work:
    x, w = normal(8, 32, 28, 28), normal(1, 28, 28, 32, 3, 3, 32)
    return Work(lambda: F.local_conv2d(x, w, padding=1))


@workload
def local_conv_train() -> Work:
    x, w = normal(8, 32, 28, 28), normal(1, 28, 28, 32, 3, 3, 32)
    return backward(lambda: F.local_conv2d(x, w, padding=1), [x, w])


@workload
def region_conv() -> Work:
    x, w, r = normal(4, 64, 56, 56), normal(64, 1, 1, 3, 3), regions(4, 56, 56)
    return Work(lambda: F.region_restricted_conv(x, w, r, r, padding=1, groups=64))


@workload
def region_conv_train() -> Work:
    x, w, r = normal(4, 64, 56, 56), normal(64, 1, 1, 3, 3), regions(4, 56, 56)
    return backward(lambda: F.region_restricted_conv(x, w, r, r, padding=1, groups=64), [x, w])


@workload
def unfold_sum() -> Work:
    x, w = normal(8, 64, 56, 56), normal(8, 64, 56, 56, 3, 3)
    return Work(lambda: (F.sliding_window(x, 3, 1) * w).sum())


@workload
def unfold_sum_train() -> Work:
    x, w = normal(8, 64, 56, 56), normal(8, 64, 56, 56, 3, 3)
    return backward(lambda: (F.sliding_window(x, 3, 1) * w).sum(), [x])


@workload
def unfold_matrix() -> Work:
    x = normal(8, 64, 56, 56)
    return Work(
        lambda: F.sliding_window(x, 3, 1).transpose(0, 1, 4, 5, 2, 3).reshape(8, 64 * 9, 56 * 56)
    )


@workload
def unfold_matrix_train() -> Work:
    x = normal(8, 64, 56, 56)
    return backward(
        lambda: F.sliding_window(x, 3, 1).transpose(0, 1, 4, 5, 2, 3).reshape(8, 64 * 9, 56 * 56),
        [x],
    )


@workload
def unfold_patches() -> Work:
    x = normal(8, 3, 224, 224)
    return Work(
        lambda: (
            F.sliding_window(x, 16, 0, 16).transpose(0, 2, 3, 1, 4, 5).reshape(8, 14 * 14, 3 * 256)
        )
    )


@workload
def unfold_patches_train() -> Work:
    x = normal(8, 3, 224, 224)
    return backward(
        lambda: (
            F.sliding_window(x, 16, 0, 16).transpose(0, 2, 3, 1, 4, 5).reshape(8, 14 * 14, 3 * 256)
        ),
        [x],
    )


@workload
def fold() -> Work:
    x = normal(8, 64, 56, 56, 3, 3)
    return Work(lambda: F.sliding_window_transpose(x, 56, 3, 1))


@workload
def fold_train() -> Work:
    x = normal(8, 64, 56, 56, 3, 3)
    return backward(lambda: F.sliding_window_transpose(x, 56, 3, 1), [x])


@workload
def fold_patches() -> Work:
    x = normal(8, 3, 14, 14, 16, 16)
    return Work(lambda: F.sliding_window_transpose(x, 224, 16, 0, 16))


@workload
def fold_patches_train() -> Work:
    x = normal(8, 3, 14, 14, 16, 16)
    return backward(lambda: F.sliding_window_transpose(x, 224, 16, 0, 16), [x])


@workload
def pad_constant() -> Work:
    x = features(8, 64, 56, 56)
    return Work(lambda: F.nn.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), "constant"))


@workload
def pad_constant_train() -> Work:
    x = features(8, 64, 56, 56)
    return backward(lambda: F.nn.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), "constant"), [x])


@workload
def pad_reflect() -> Work:
    x = features(8, 64, 56, 56)
    return Work(lambda: F.nn.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), "reflect"))


@workload
def pad_reflect_train() -> Work:
    x = features(8, 64, 56, 56)
    return backward(lambda: F.nn.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), "reflect"), [x])


@workload
def pad_replicate() -> Work:
    x = features(8, 64, 56, 56)
    return Work(lambda: F.nn.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), "replicate"))


@workload
def pad_replicate_train() -> Work:
    x = features(8, 64, 56, 56)
    return backward(lambda: F.nn.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), "replicate"), [x])


@workload
def pixel_shuffle_2() -> Work:
    x = normal(4, 256, 64, 64)
    return Work(lambda: F.pixel_shuffle(x, 2))


@workload
def pixel_shuffle_2_train() -> Work:
    x = normal(4, 256, 64, 64)
    return backward(lambda: F.pixel_shuffle(x, 2), [x])


@workload
def pixel_shuffle_4() -> Work:
    x = normal(1, 48, 90, 160)
    return Work(lambda: F.pixel_shuffle(x, 4))


@workload
def pixel_shuffle_4_train() -> Work:
    x = normal(1, 48, 90, 160)
    return backward(lambda: F.pixel_shuffle(x, 4), [x])


@workload
def response_norm() -> Work:
    x = normal(8, 96, 55, 55)
    return Work(lambda: F.local_response_norm(x))


@workload
def response_norm_train() -> Work:
    x = normal(8, 96, 55, 55)
    return backward(lambda: F.local_response_norm(x), [x])
