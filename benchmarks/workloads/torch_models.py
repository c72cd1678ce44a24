"""The networks of examples/models in PyTorch, layer by layer the same."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


def conv_bn(n_in: int, n_out: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """A convolution that keeps the size but for its stride, and batch norm."""
    return nn.Sequential(
        nn.Conv2d(n_in, n_out, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(n_out),
    )


class Block(nn.Module):
    """A residual block (He et al., 2015): two 3x3 convolutions, or a 3x3 one between two 1x1."""

    def __init__(self, n_in: int, width: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        n_out = 4 * width if bottleneck else width
        if bottleneck:
            layers = [conv_bn(n_in, width, 1), conv_bn(width, width, 3, stride)]
            layers.append(conv_bn(width, n_out, 1))
        else:
            layers = [conv_bn(n_in, width, 3, stride), conv_bn(width, width, 3)]
        self.layers = nn.ModuleList(layers)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or n_in != n_out:
            self.shortcut = conv_bn(n_in, n_out, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block's output, (N, n_out, H/stride, W/stride)."""
        y = x
        for layer in self.layers[:-1]:
            y = F.relu(layer(y))
        return F.relu(self.layers[-1](y) + self.shortcut(x))


class ResNet(nn.Module):
    """ResNet-18 or -50 for 224x224 images and 1000 classes."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        bottleneck = depth == 50
        counts = (3, 4, 6, 3) if bottleneck else (2, 2, 2, 2)
        self.stem = conv_bn(3, 64, 7, 2)
        blocks: list[nn.Module] = []
        n_in = 64
        for stage, count in enumerate(counts):
            width = 64 << stage
            for i in range(count):
                blocks.append(Block(n_in, width, 2 if stage and i == 0 else 1, bottleneck))
                n_in = 4 * width if bottleneck else width
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(n_in, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits, (N, 1000)."""
        x = F.max_pool2d(F.relu(self.stem(x)), 3, 2, 1)
        return self.fc(self.blocks(x).mean((2, 3)))


class InvertedResidual(nn.Module):
    """A block of MobileNetV2 (Sandler et al., 2018)."""

    def __init__(self, n_in: int, n_out: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = n_in * expansion
        layers: list[nn.Module] = []
        if expansion != 1:
            layers += [conv_bn(n_in, hidden, 1), nn.ReLU6()]
        layers += [conv_bn(hidden, hidden, 3, stride, hidden), nn.ReLU6()]
        layers.append(conv_bn(hidden, n_out, 1))
        self.layers = nn.Sequential(*layers)
        self.adds = stride == 1 and n_in == n_out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block's output, (N, n_out, H/stride, W/stride)."""
        return x + self.layers(x) if self.adds else self.layers(x)


# Expansion, channels, blocks, stride of the first block (table 2 of the paper).
STAGES = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
    (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip


class MobileNetV2(nn.Module):
    """MobileNetV2 of full width for 1000 classes."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [conv_bn(3, 32, 3, 2), nn.ReLU6()]
        n_in = 32
        for expansion, n_out, count, stride in STAGES:
            for i in range(count):
                layers.append(InvertedResidual(n_in, n_out, stride if i == 0 else 1, expansion))
                n_in = n_out
        layers += [conv_bn(n_in, 1280, 1), nn.ReLU6()]
        self.features = nn.Sequential(*layers)
        self.fc = nn.Linear(1280, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits, (N, 1000)."""
        return self.fc(self.features(x).mean((2, 3)))


class EncoderBlock(nn.Module):
    """Attention of all tokens to all, then two linear layers; both add to what they get."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Tokens (N, L, width) to tokens of that shape."""
        n, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(n, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        h = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, length, width)
        x = x + self.out(h)
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class ViT(nn.Module):
    """A vision transformer (Dosovitskiy et al., 2021) for 224x224 images and 1000 classes."""

    def __init__(self, width: int, depth: int, heads: int) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, 16, 16)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.zeros(1, 197, width))
        self.blocks = nn.Sequential(*[EncoderBlock(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 1000)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Logits, (N, 1000)."""
        x = self.patch(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])
