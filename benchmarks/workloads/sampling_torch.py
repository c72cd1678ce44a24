"""Resizing, sampling and warping of images and features, and a UNet, through PyTorch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.workloads import Work, positions, torch_peer, workload
from benchmarks.workloads.torch_peer import backward, forward, images, workload_of_images


@workload_of_images
def bilinear_2x() -> Work:
    x = images(8, 64, 56, 56)
    return forward(lambda: F.interpolate(x, scale_factor=2.0, mode="bilinear"))


@workload_of_images
def bilinear_2x_train() -> Work:
    x = images(8, 64, 56, 56)
    return backward(lambda: F.interpolate(x, scale_factor=2.0, mode="bilinear"), [x])


@workload_of_images
def bilinear_logits() -> Work:
    x = images(2, 21, 65, 65)
    return forward(lambda: F.interpolate(x, (513, 513), mode="bilinear", align_corners=True))


@workload_of_images
def bilinear_logits_train() -> Work:
    x = images(2, 21, 65, 65)
    return backward(lambda: F.interpolate(x, (513, 513), mode="bilinear", align_corners=True), [x])


@workload_of_images
def bilinear_photo() -> Work:
    x = images(8, 3, 512, 512)
    return forward(lambda: F.interpolate(x, (224, 224), mode="bilinear"))


@workload_of_images
def nearest_2x() -> Work:
    x = images(4, 256, 32, 32)
    return forward(lambda: F.interpolate(x, scale_factor=2.0, mode="nearest"))


@workload_of_images
def nearest_2x_train() -> Work:
    x = images(4, 256, 32, 32)
    return backward(lambda: F.interpolate(x, scale_factor=2.0, mode="nearest"), [x])


@workload_of_images
def bicubic_photo() -> Work:
    x = images(8, 3, 224, 224)
    return forward(lambda: F.interpolate(x, scale_factor=2.0, mode="bicubic"))


@workload_of_images
def bicubic_photo_train() -> Work:
    x = images(8, 3, 224, 224)
    return backward(lambda: F.interpolate(x, scale_factor=2.0, mode="bicubic"), [x])


@workload
def trilinear_2x() -> Work:
    x = torch.randn(1, 16, 24, 48, 48)
    return forward(lambda: F.interpolate(x, scale_factor=2.0, mode="trilinear"))


@workload
def trilinear_2x_train() -> Work:
    x = torch.randn(1, 16, 24, 48, 48)
    return backward(lambda: F.interpolate(x, scale_factor=2.0, mode="trilinear"), [x])


@workload
def linear_1d() -> Work:
    x = torch.randn(16, 64, 1000)
    return forward(lambda: F.interpolate(x, scale_factor=2.0, mode="linear"))


@workload_of_images
def area_photo() -> Work:
    x = images(8, 3, 512, 512)
    return forward(lambda: F.interpolate(x, (256, 256), mode="area"))


def sample(x: torch.Tensor, at: torch.Tensor, mode: str = "bilinear") -> torch.Tensor:
    return F.grid_sample(x, at, mode=mode, padding_mode="border", align_corners=True)


def sampled(shape: tuple[int, ...], size: int, mode: str = "bilinear") -> Work:
    x, at = images(*shape), torch.from_numpy(positions.fractions(shape, size))
    return forward(lambda: sample(x, at, mode))


@workload_of_images
def remap_photo() -> Work:
    return sampled((8, 3, 256, 256), 224)


@workload_of_images
def remap_features() -> Work:
    return sampled((8, 64, 56, 56), 56)


@workload_of_images
def remap_nearest() -> Work:
    return sampled((8, 64, 56, 56), 56, "nearest")


@workload_of_images
def remap_cubic() -> Work:
    return sampled((4, 16, 128, 128), 128, "bicubic")


@workload_of_images
def remap_photo_train() -> Work:
    x, at = images(8, 3, 256, 256), torch.from_numpy(positions.fractions((8, 3, 256, 256), 224))
    return backward(lambda: sample(x, at), [x, at])


@workload_of_images
def remap_features_train() -> Work:
    x, at = images(8, 64, 56, 56), torch.from_numpy(positions.fractions((8, 64, 56, 56), 56))
    return backward(lambda: sample(x, at), [x, at])


def warped(x: torch.Tensor, mat: torch.Tensor, size: int) -> torch.Tensor:
    grid = F.affine_grid(mat, [x.shape[0], x.shape[1], size, size], align_corners=True)
    return F.grid_sample(x, grid, align_corners=True)


@workload_of_images
def warp_affine_photo() -> Work:
    x, mat = images(8, 3, 256, 256), torch.from_numpy(positions.matrices(8))
    return forward(lambda: warped(x, mat, 224))


@workload_of_images
def warp_affine_train() -> Work:
    x, mat = images(8, 32, 64, 64), torch.from_numpy(positions.matrices(8))
    return backward(lambda: warped(x, mat, 64), [x, mat])


@workload
def gray_photo() -> Work:
    x = torch.randint(0, 256, (8, 512, 512, 3)).to(torch.uint8)
    weight = torch.tensor([0.299, 0.587, 0.114])
    return forward(lambda: (x.float() @ weight).round().to(torch.uint8))


class DoubleConv(nn.Sequential):
    """Two convolutions with ReLU."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1),
            nn.ReLU(),
        )


class UNet(nn.Module):
    """The network of examples/models/unet.py."""

    def __init__(self, inputs: int, classes: int, width: int, depth: int) -> None:
        super().__init__()
        widths = [width * 2**i for i in range(depth + 1)]
        back = widths[:0:-1]
        self.down = nn.ModuleList(map(DoubleConv, [inputs, *widths[:-1]], widths))
        self.grow = nn.ModuleList(nn.Conv2d(w, w // 2, 1) for w in back)
        self.up = nn.ModuleList(DoubleConv(w, w // 2) for w in back)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits for each pixel."""
        bridges = []
        for i, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if i else x)
            bridges.append(x)
        bridges.pop()
        for grow, block in zip(self.grow, self.up, strict=True):
            x = grow(F.interpolate(x, scale_factor=2.0, mode="bilinear"))
            x = block(torch.cat([bridges.pop(), x], 1))
        return self.head(x)


def unet() -> nn.Module:
    return UNet(3, 4, 16, 3).to(memory_format=torch_peer.memory_format)


@workload_of_images
def unet_train() -> Work:
    net, x = unet(), images(4, 3, 128, 128)
    return backward(lambda: net(x), list(net.parameters()))


@workload_of_images
def unet_infer() -> Work:
    net, x = unet(), images(1, 3, 256, 256)
    return forward(lambda: net(x))
