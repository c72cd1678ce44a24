"""Convolutions of 3 x 3 and other ranks, transposed, local and restricted ones, through PyTorch.

Also windows, padding, pixel shuffle and response normalisation. Local and region restricted
convolutions are written out of PyTorch's functions; it has none.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks.workloads import Work, workload
from benchmarks.workloads.torch_peer import backward, forward, images, workload_of_images


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def regions(*shape: int) -> torch.Tensor:
    """Four regions, in blocks of 8 x 8 pixels."""
    at = np.indices(shape)
    return torch.from_numpy(((at[1] // 8 + at[2] // 8) % 4).astype("int32"))


def local(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A kernel of 3 x 3 of each position's own, (positions, out, in * 9)."""
    n, _, height, width = x.shape
    patches = F.unfold(x, 3, padding=1)  # (N, in * 9, positions)
    y = torch.bmm(w, patches.permute(2, 1, 0))  # (positions, out, N)
    return y.permute(2, 1, 0).reshape(n, -1, height, width)


def restricted(
    x: torch.Tensor, w: torch.Tensor, rin: torch.Tensor, rout: torch.Tensor
) -> torch.Tensor:
    """A depthwise convolution of 3 x 3 within regions."""
    n, c, height, width = x.shape
    patches = F.unfold(x, 3, padding=1).view(n, c, 9, height, width)
    near = F.unfold(rin[:, None].float(), 3, padding=1).view(n, 1, 9, height, width)
    inside = near == rout[:, None, None]
    return (torch.where(inside, patches, 0.0) * w.view(1, c, 9, 1, 1)).sum(2)


@workload
def conv1d_tcn() -> Work:
    x, w = normal(16, 64, 1000), normal(64, 64, 3)
    return forward(lambda: F.conv1d(x, w, padding=1))


@workload
def conv1d_tcn_train() -> Work:
    x, w = normal(16, 64, 1000), normal(64, 64, 3)
    return backward(lambda: F.conv1d(x, w, padding=1), [x, w])


@workload
def conv1d_wide() -> Work:
    x, w = normal(8, 256, 500), normal(256, 256, 9)
    return forward(lambda: F.conv1d(x, w, padding=4))


@workload
def conv1d_wide_train() -> Work:
    x, w = normal(8, 256, 500), normal(256, 256, 9)
    return backward(lambda: F.conv1d(x, w, padding=4), [x, w])


@workload
def conv1d_dilated() -> Work:
    x, w = normal(8, 64, 4000), normal(128, 64, 2)
    return forward(lambda: F.conv1d(x, w, dilation=16))


@workload
def conv1d_dilated_train() -> Work:
    x, w = normal(8, 64, 4000), normal(128, 64, 2)
    return backward(lambda: F.conv1d(x, w, dilation=16), [x, w])


@workload
def conv1d_depthwise() -> Work:
    x, w = normal(8, 512, 500), normal(512, 1, 31)
    return forward(lambda: F.conv1d(x, w, padding=15, groups=512))


@workload
def conv1d_depthwise_train() -> Work:
    x, w = normal(8, 512, 500), normal(512, 1, 31)
    return backward(lambda: F.conv1d(x, w, padding=15, groups=512), [x, w])


@workload
def conv1d_pointwise() -> Work:
    x, w = normal(8, 512, 200), normal(512, 512, 1)
    return forward(lambda: F.conv1d(x, w))


@workload
def conv1d_pointwise_train() -> Work:
    x, w = normal(8, 512, 200), normal(512, 512, 1)
    return backward(lambda: F.conv1d(x, w), [x, w])


@workload
def conv1d_stft() -> Work:
    x, w = normal(4, 1, 16000), normal(201, 1, 400)
    return forward(lambda: F.conv1d(x, w, stride=160))


@workload
def conv1d_stft_train() -> Work:
    x, w = normal(4, 1, 16000), normal(201, 1, 400)
    return backward(lambda: F.conv1d(x, w, stride=160), [x, w])


@workload
def conv1d_small() -> Work:
    x, w = normal(1, 32, 128), normal(32, 32, 3)
    return forward(lambda: F.conv1d(x, w, padding=1))


@workload
def conv1d_small_train() -> Work:
    x, w = normal(1, 32, 128), normal(32, 32, 3)
    return backward(lambda: F.conv1d(x, w, padding=1), [x, w])


@workload
def conv3d_stem() -> Work:
    x, w = normal(2, 3, 16, 112, 112), normal(64, 3, 3, 7, 7)
    return forward(lambda: F.conv3d(x, w, stride=(1, 2, 2), padding=(1, 3, 3)))


@workload
def conv3d_stem_train() -> Work:
    x, w = normal(2, 3, 16, 112, 112), normal(64, 3, 3, 7, 7)
    return backward(lambda: F.conv3d(x, w, stride=(1, 2, 2), padding=(1, 3, 3)), [x, w])


@workload
def conv3d_block() -> Work:
    x, w = normal(2, 16, 16, 56, 56), normal(32, 16, 3, 3, 3)
    return forward(lambda: F.conv3d(x, w, padding=1))


@workload
def conv3d_block_train() -> Work:
    x, w = normal(2, 16, 16, 56, 56), normal(32, 16, 3, 3, 3)
    return backward(lambda: F.conv3d(x, w, padding=1), [x, w])


@workload
def conv3d_medical() -> Work:
    x, w = normal(1, 1, 64, 64, 64), normal(16, 1, 3, 3, 3)
    return forward(lambda: F.conv3d(x, w, padding=1))


@workload
def conv3d_medical_train() -> Work:
    x, w = normal(1, 1, 64, 64, 64), normal(16, 1, 3, 3, 3)
    return backward(lambda: F.conv3d(x, w, padding=1), [x, w])


@workload
def conv3d_pointwise() -> Work:
    x, w = normal(1, 64, 8, 28, 28), normal(128, 64, 1, 1, 1)
    return forward(lambda: F.conv3d(x, w))


@workload
def conv3d_pointwise_train() -> Work:
    x, w = normal(1, 64, 8, 28, 28), normal(128, 64, 1, 1, 1)
    return backward(lambda: F.conv3d(x, w), [x, w])


@workload_of_images
def conv3x3_64_train() -> Work:
    x, w = images(16, 64, 56, 56), normal(64, 64, 3, 3)
    return backward(lambda: F.conv2d(x, w, padding=1), [x, w])


@workload_of_images
def conv3x3_128_train() -> Work:
    x, w = images(16, 128, 28, 28), normal(128, 128, 3, 3)
    return backward(lambda: F.conv2d(x, w, padding=1), [x, w])


@workload_of_images
def conv3x3_256_train() -> Work:
    x, w = images(16, 256, 14, 14), normal(256, 256, 3, 3)
    return backward(lambda: F.conv2d(x, w, padding=1), [x, w])


@workload_of_images
def conv3x3_512_train() -> Work:
    x, w = images(16, 512, 7, 7), normal(512, 512, 3, 3)
    return backward(lambda: F.conv2d(x, w, padding=1), [x, w])


@workload_of_images
def conv_transpose2d_gan() -> Work:
    x, w = images(4, 256, 16, 16), normal(256, 128, 4, 4)
    return forward(lambda: F.conv_transpose2d(x, w, stride=2, padding=1))


@workload_of_images
def conv_transpose2d_gan_train() -> Work:
    x, w = images(4, 256, 16, 16), normal(256, 128, 4, 4)
    return backward(lambda: F.conv_transpose2d(x, w, stride=2, padding=1), [x, w])


@workload_of_images
def conv_transpose2d_unet() -> Work:
    x, w = images(4, 64, 64, 64), normal(64, 32, 2, 2)
    return forward(lambda: F.conv_transpose2d(x, w, stride=2))


@workload_of_images
def conv_transpose2d_unet_train() -> Work:
    x, w = images(4, 64, 64, 64), normal(64, 32, 2, 2)
    return backward(lambda: F.conv_transpose2d(x, w, stride=2), [x, w])


@workload_of_images
def conv_transpose2d_latent() -> Work:
    x, w = images(8, 100, 1, 1), normal(100, 512, 4, 4)
    return forward(lambda: F.conv_transpose2d(x, w))


@workload_of_images
def conv_transpose2d_latent_train() -> Work:
    x, w = images(8, 100, 1, 1), normal(100, 512, 4, 4)
    return backward(lambda: F.conv_transpose2d(x, w), [x, w])


@workload_of_images
def conv_transpose2d_fcn() -> Work:
    x, w = images(2, 21, 32, 32), normal(21, 21, 16, 16)
    return forward(lambda: F.conv_transpose2d(x, w, stride=8, padding=4))


@workload_of_images
def conv_transpose2d_fcn_train() -> Work:
    x, w = images(2, 21, 32, 32), normal(21, 21, 16, 16)
    return backward(lambda: F.conv_transpose2d(x, w, stride=8, padding=4), [x, w])


@workload_of_images
def conv_transpose2d_rgb() -> Work:
    x, w = images(8, 64, 32, 32), normal(64, 3, 4, 4)
    return forward(lambda: F.conv_transpose2d(x, w, stride=2, padding=1))


@workload_of_images
def conv_transpose2d_rgb_train() -> Work:
    x, w = images(8, 64, 32, 32), normal(64, 3, 4, 4)
    return backward(lambda: F.conv_transpose2d(x, w, stride=2, padding=1), [x, w])


@workload
def conv_transpose3d_unet() -> Work:
    x, w = normal(1, 64, 8, 16, 16), normal(64, 32, 2, 2, 2)
    return forward(lambda: F.conv_transpose3d(x, w, stride=2))


@workload
def conv_transpose3d_unet_train() -> Work:
    x, w = normal(1, 64, 8, 16, 16), normal(64, 32, 2, 2, 2)
    return backward(lambda: F.conv_transpose3d(x, w, stride=2), [x, w])


@workload
def conv_transpose3d_gan() -> Work:
    x, w = normal(1, 32, 8, 16, 16), normal(32, 16, 4, 4, 4)
    return forward(lambda: F.conv_transpose3d(x, w, stride=2, padding=1))


@workload
def conv_transpose3d_gan_train() -> Work:
    x, w = normal(1, 32, 8, 16, 16), normal(32, 16, 4, 4, 4)
    return backward(lambda: F.conv_transpose3d(x, w, stride=2, padding=1), [x, w])


@workload_of_images
def conv_relu() -> Work:
    x, w, b = images(8, 64, 56, 56), normal(64, 64, 3, 3), normal(64)
    return forward(lambda: F.relu(F.conv2d(x, w, b, padding=1)))


@workload_of_images
def conv_relu_train() -> Work:
    x, w, b = images(8, 64, 56, 56), normal(64, 64, 3, 3), normal(64)
    return backward(lambda: F.relu(F.conv2d(x, w, b, padding=1)), [x, w, b])


@workload
def local_conv() -> Work:
    x, w = normal(8, 32, 28, 28), normal(28 * 28, 32, 32 * 9)
    return forward(lambda: local(x, w))


@workload
def local_conv_train() -> Work:
    x, w = normal(8, 32, 28, 28), normal(28 * 28, 32, 32 * 9)
    return backward(lambda: local(x, w), [x, w])


@workload
def region_conv() -> Work:
    x, w, r = normal(4, 64, 56, 56), normal(64, 9), regions(4, 56, 56)
    return forward(lambda: restricted(x, w, r, r))


@workload
def region_conv_train() -> Work:
    x, w, r = normal(4, 64, 56, 56), normal(64, 9), regions(4, 56, 56)
    return backward(lambda: restricted(x, w, r, r), [x, w])


@workload
def unfold_sum() -> Work:
    x, w = normal(8, 64, 56, 56), normal(8, 64 * 9, 56 * 56)
    return forward(lambda: (F.unfold(x, 3, padding=1) * w).sum())


@workload
def unfold_sum_train() -> Work:
    x, w = normal(8, 64, 56, 56), normal(8, 64 * 9, 56 * 56)
    return backward(lambda: (F.unfold(x, 3, padding=1) * w).sum(), [x])


@workload
def unfold_matrix() -> Work:
    x = normal(8, 64, 56, 56)
    return forward(lambda: F.unfold(x, 3, padding=1))


@workload
def unfold_matrix_train() -> Work:
    x = normal(8, 64, 56, 56)
    return backward(lambda: F.unfold(x, 3, padding=1), [x])


@workload
def unfold_patches() -> Work:
    x = normal(8, 3, 224, 224)
    return forward(lambda: F.unfold(x, 16, stride=16).transpose(1, 2).contiguous())


@workload
def unfold_patches_train() -> Work:
    x = normal(8, 3, 224, 224)
    return backward(lambda: F.unfold(x, 16, stride=16).transpose(1, 2).contiguous(), [x])


@workload
def fold() -> Work:
    x = normal(8, 64 * 9, 56 * 56)
    return forward(lambda: F.fold(x, 56, 3, padding=1))


@workload
def fold_train() -> Work:
    x = normal(8, 64 * 9, 56 * 56)
    return backward(lambda: F.fold(x, 56, 3, padding=1), [x])


@workload
def fold_patches() -> Work:
    x = normal(8, 3 * 256, 14 * 14)
    return forward(lambda: F.fold(x, 224, 16, stride=16))


@workload
def fold_patches_train() -> Work:
    x = normal(8, 3 * 256, 14 * 14)
    return backward(lambda: F.fold(x, 224, 16, stride=16), [x])


@workload_of_images
def pad_constant() -> Work:
    x = images(8, 64, 56, 56)
    return forward(lambda: F.pad(x, (1, 1, 1, 1), "constant"))


@workload_of_images
def pad_constant_train() -> Work:
    x = images(8, 64, 56, 56)
    return backward(lambda: F.pad(x, (1, 1, 1, 1), "constant"), [x])


@workload_of_images
def pad_reflect() -> Work:
    x = images(8, 64, 56, 56)
    return forward(lambda: F.pad(x, (1, 1, 1, 1), "reflect"))


@workload_of_images
def pad_reflect_train() -> Work:
    x = images(8, 64, 56, 56)
    return backward(lambda: F.pad(x, (1, 1, 1, 1), "reflect"), [x])


@workload_of_images
def pad_replicate() -> Work:
    x = images(8, 64, 56, 56)
    return forward(lambda: F.pad(x, (1, 1, 1, 1), "replicate"))


@workload_of_images
def pad_replicate_train() -> Work:
    x = images(8, 64, 56, 56)
    return backward(lambda: F.pad(x, (1, 1, 1, 1), "replicate"), [x])


@workload_of_images
def pixel_shuffle_2() -> Work:
    x = images(4, 256, 64, 64)
    return forward(lambda: F.pixel_shuffle(x, 2))


@workload_of_images
def pixel_shuffle_2_train() -> Work:
    x = images(4, 256, 64, 64)
    return backward(lambda: F.pixel_shuffle(x, 2), [x])


@workload_of_images
def pixel_shuffle_4() -> Work:
    x = images(1, 48, 90, 160)
    return forward(lambda: F.pixel_shuffle(x, 4))


@workload_of_images
def pixel_shuffle_4_train() -> Work:
    x = images(1, 48, 90, 160)
    return backward(lambda: F.pixel_shuffle(x, 4), [x])


@workload_of_images
def response_norm() -> Work:
    x = images(8, 96, 55, 55)
    return forward(lambda: F.local_response_norm(x, 5, 5e-4, 0.75, 2.0))


@workload_of_images
def response_norm_train() -> Work:
    x = images(8, 96, 55, 55)
    return backward(lambda: F.local_response_norm(x, 5, 5e-4, 0.75, 2.0), [x])
