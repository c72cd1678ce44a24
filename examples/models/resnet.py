"""Residual networks, of "Deep residual learning for image recognition" (He et al., 2015).

Blocks have the stride in their 3 x 3 convolution, and shortcuts of another size are a projection
(the paper's option B).
"""

import megengine.functional as F
import megengine.module as M

# depth: (whether blocks are bottlenecks, blocks of each stage)
DEPTHS = {
    18: (False, (2, 2, 2, 2)),
    34: (False, (3, 4, 6, 3)),
    50: (True, (3, 4, 6, 3)),
    101: (True, (3, 4, 23, 3)),
    152: (True, (3, 8, 36, 3)),
}


def conv_bn(in_channels, out_channels, kernel_size, stride=1):
    """A convolution that keeps the size but for its stride, and batch norm."""
    return M.Sequential(
        M.Conv2d(in_channels, out_channels, kernel_size, stride, kernel_size // 2, bias=False),
        M.BatchNorm2d(out_channels),
    )


class BasicBlock(M.Module):
    """Two 3 x 3 convolutions beside a shortcut."""

    expansion = 1

    def __init__(self, in_channels, channels, stride):
        super().__init__()
        self.conv1 = conv_bn(in_channels, channels, 3, stride)
        self.conv2 = conv_bn(channels, channels, 3)
        self.shortcut = shortcut(in_channels, channels, stride)

    def forward(self, x):
        """(N, in_channels, H, W) to (N, channels, H / stride, W / stride)."""
        y = self.conv2(F.relu(self.conv1(x)))
        return F.relu(y + self.shortcut(x))


class Bottleneck(M.Module):
    """A 3 x 3 convolution between two of 1 x 1, beside a shortcut."""

    expansion = 4

    def __init__(self, in_channels, channels, stride):
        super().__init__()
        out_channels = channels * self.expansion
        self.conv1 = conv_bn(in_channels, channels, 1)
        self.conv2 = conv_bn(channels, channels, 3, stride)
        self.conv3 = conv_bn(channels, out_channels, 1)
        self.shortcut = shortcut(in_channels, out_channels, stride)

    def forward(self, x):
        """(N, in_channels, H, W) to (N, 4 channels, H / stride, W / stride)."""
        y = F.relu(self.conv1(x))
        y = F.relu(self.conv2(y))
        return F.relu(self.conv3(y) + self.shortcut(x))


def shortcut(in_channels, out_channels, stride):
    """The identity, or a projection to another size."""
    if stride == 1 and in_channels == out_channels:
        return M.Identity()
    return conv_bn(in_channels, out_channels, 1, stride)


class ResNet(M.Module):
    """A stem, four stages of residual blocks, the mean over all pixels and a linear layer.

    Args:
        depth: 18, 34, 50, 101 or 152.
        num_classes: number of scores for each image.
        width: channels of the first stage; 64 in the paper.
        small_images: a stem of one 3 x 3 convolution without stride and pooling, for images of some
            32 pixels.
    """

    def __init__(self, depth=18, num_classes=10, width=16, small_images=True):
        super().__init__()
        bottleneck, blocks = DEPTHS[depth]
        block = Bottleneck if bottleneck else BasicBlock
        if small_images:
            self.stem = M.Sequential(conv_bn(3, width, 3), M.ReLU())
        else:
            self.stem = M.Sequential(conv_bn(3, width, 7, 2), M.ReLU(), M.MaxPool2d(3, 2, 1))
        in_channels = width
        stages = []
        for i, count in enumerate(blocks):
            channels = width * 2**i
            layers = []
            for k in range(count):
                layers.append(block(in_channels, channels, 2 if i > 0 and k == 0 else 1))
                in_channels = channels * block.expansion
            stages.append(M.Sequential(*layers))
        self.stages = stages
        self.fc = M.Linear(in_channels, num_classes)
        self.reset_parameters()

    def reset_parameters(self):
        """Draws convolutions as He et al. do, for layers of ReLUs."""
        for m in self.modules():
            if isinstance(m, M.Conv2d):
                M.init.msra_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, image):
        """Scores (N, num_classes) of images (N, 3, H, W)."""
        x = self.stem(image)
        for stage in self.stages:
            x = stage(x)
        return self.fc(F.flatten(F.adaptive_avg_pool2d(x, 1), 1))
