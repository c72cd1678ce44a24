"""ShuffleNetV2 (Ma et al., "Practical guidelines for efficient CNN architecture design", 2018)."""

import megengine.functional as F
import megengine.module as M

# Table 5 of the paper: channels of the three stages and of the last convolution, by size.
CHANNELS = {
    0.5: (48, 96, 192, 1024),
    1.0: (116, 232, 464, 1024),
    1.5: (176, 352, 704, 1024),
    2.0: (244, 488, 976, 2048),
}
BLOCKS = (4, 8, 4)


def channel_shuffle(x, groups):
    """Takes channels from each group in turn, so that the next block mixes the groups."""
    n, c, h, w = x.shape
    x = F.reshape(x, (n, groups, c // groups, h, w))
    x = F.transpose(x, (0, 2, 1, 3, 4))
    return F.reshape(x, (n, c, h, w))


def pointwise(in_channels, out_channels):
    """A 1 x 1 convolution, batch norm and ReLU."""
    return [
        M.Conv2d(in_channels, out_channels, 1, bias=False),
        M.BatchNorm2d(out_channels),
        M.ReLU(),
    ]


def depthwise(channels, stride):
    """A 3 x 3 convolution of each channel for itself, and batch norm."""
    return [
        M.Conv2d(channels, channels, 3, stride, 1, groups=channels, bias=False),
        M.BatchNorm2d(channels),
    ]


class ShuffleBlock(M.Module):
    """Convolves half of the channels and passes on the others (figure 3c), then shuffles.

    With a stride both halves see all channels and are convolved (figure 3d).
    """

    def __init__(self, in_channels, out_channels, stride):
        super().__init__()
        self.stride = stride
        half = out_channels // 2
        first = in_channels if stride > 1 else in_channels // 2
        self.branch = M.Sequential(
            *pointwise(first, half), *depthwise(half, stride), *pointwise(half, half)
        )
        if stride > 1:
            self.projection = M.Sequential(
                *depthwise(in_channels, stride), *pointwise(in_channels, half)
            )

    def forward(self, x):
        """(N, in_channels, H, W) to (N, out_channels, H / stride, W / stride)."""
        if self.stride > 1:
            kept, convolved = self.projection(x), self.branch(x)
        else:
            kept, taken = F.split(x, 2, axis=1)
            convolved = self.branch(taken)
        return channel_shuffle(F.concat([kept, convolved], axis=1), 2)


class ShuffleNetV2(M.Module):
    """A stem, three stages of blocks, a 1 x 1 convolution, the mean and a linear layer.

    Args:
        num_classes: number of scores for each image.
        channels: of the three stages and of the last convolution; the paper's are in CHANNELS.
        blocks: of each stage.
        stem_channels: channels after the first convolution; 24 in the paper.
    """

    def __init__(
        self, num_classes=10, channels=(16, 32, 64, 128), blocks=(2, 3, 2), stem_channels=8
    ):
        super().__init__()
        self.stem = M.Sequential(
            M.Conv2d(3, stem_channels, 3, 2, 1, bias=False),
            M.BatchNorm2d(stem_channels),
            M.ReLU(),
            M.MaxPool2d(3, 2, 1),
        )
        layers = []
        in_channels = stem_channels
        for stage, count in enumerate(blocks):
            out_channels = channels[stage]
            for i in range(count):
                layers.append(ShuffleBlock(in_channels, out_channels, 2 if i == 0 else 1))
                in_channels = out_channels
        self.stages = M.Sequential(*layers)
        self.last = M.Sequential(*pointwise(in_channels, channels[3]))
        self.classifier = M.Linear(channels[3], num_classes)

    def forward(self, image):
        """Scores (N, num_classes) of images (N, 3, H, W)."""
        x = self.last(self.stages(self.stem(image)))
        return self.classifier(F.mean(x, (2, 3)))
