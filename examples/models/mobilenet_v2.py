"""MobileNetV2 (Sandler et al., "Inverted residuals and linear bottlenecks", 2018)."""

import megengine.functional as F
import megengine.module as M

# Table 2 of the paper: expansion, channels, blocks, stride of the first block.
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def scaled(channels, width):
    """Channels times `width`, as a multiple of 8 that is not below nine tenths of it."""
    wanted = channels * width
    rounded = max(8, int(wanted + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * wanted else rounded


class ConvBnRelu6(M.Sequential):
    """A convolution that keeps the size but for its stride, batch norm and ReLU6."""

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, groups=1):
        super().__init__(
            M.Conv2d(
                in_channels,
                out_channels,
                kernel_size,
                stride,
                kernel_size // 2,
                groups=groups,
                bias=False,
            ),
            M.BatchNorm2d(out_channels),
        )

    def forward(self, inp):
        """(N, in_channels, H, W) to (N, out_channels, H / stride, W / stride)."""
        return F.relu6(super().forward(inp))


class InvertedResidual(M.Module):
    """Widens, convolves each channel for itself, narrows without an activation.

    The input is added where it has the size of the output.
    """

    def __init__(self, in_channels, out_channels, stride, expansion):
        super().__init__()
        hidden = in_channels * expansion
        layers = [ConvBnRelu6(in_channels, hidden, 1)] if expansion != 1 else []
        layers += [
            ConvBnRelu6(hidden, hidden, 3, stride, groups=hidden),
            M.Conv2d(hidden, out_channels, 1, bias=False),
            M.BatchNorm2d(out_channels),
        ]
        self.layers = M.Sequential(*layers)
        self.adds = stride == 1 and in_channels == out_channels

    def forward(self, x):
        """(N, in_channels, H, W) to (N, out_channels, H / stride, W / stride)."""
        y = self.layers(x)
        return x + y if self.adds else y


class MobileNetV2(M.Module):
    """A stem, stages of inverted residuals, a 1 x 1 convolution, the mean and a linear layer.

    Args:
        num_classes: number of scores for each image.
        width: factor of all channels.
        stages: (expansion, channels, blocks, stride) of each stage; the paper's is STAGES.
        last_channels: channels before the mean; 1280 in the paper.
        drop_prob: dropout before the linear layer.
    """

    def __init__(
        self, num_classes=10, width=0.25, stages=STAGES[:4], last_channels=128, drop_prob=0.0
    ):
        super().__init__()
        channels = scaled(32, width)
        layers = [ConvBnRelu6(3, channels, 3, 2)]
        for expansion, wanted, blocks, stride in stages:
            out_channels = scaled(wanted, width)
            for i in range(blocks):
                layers.append(
                    InvertedResidual(channels, out_channels, stride if i == 0 else 1, expansion)
                )
                channels = out_channels
        layers.append(ConvBnRelu6(channels, last_channels, 1))
        self.features = M.Sequential(*layers)
        self.dropout = M.Dropout(drop_prob)
        self.classifier = M.Linear(last_channels, num_classes)

    def forward(self, image):
        """Scores (N, num_classes) of images (N, 3, H, W)."""
        x = F.mean(self.features(image), (2, 3))
        return self.classifier(self.dropout(x))
