"""UNet, of "U-Net: Convolutional Networks for Biomedical Image Segmentation".

Ronneberger et al., 2015.
"""

import megengine.functional as F
import megengine.module as M


class DoubleConv(M.Module):
    """Two 3 x 3 convolutions, each with ReLU.

    Args:
        in_channels: of the input.
        out_channels: of both results.
        padding: 0 as in the paper, where each convolution cuts the border off, or 1.
    """

    def __init__(self, in_channels, out_channels, padding):
        super().__init__()
        self.conv1 = M.Conv2d(in_channels, out_channels, 3, padding=padding)
        self.conv2 = M.Conv2d(out_channels, out_channels, 3, padding=padding)

    def forward(self, x):
        """(N, in_channels, H, W)."""
        return F.relu(self.conv2(F.relu(self.conv1(x))))


class Up(M.Module):
    """Doubles height and width, and halves the channels.

    Args:
        channels: of the input.
        bilinear: resize, then mix channels by a 1 x 1 convolution; else, a transposed convolution.
    """

    def __init__(self, channels, bilinear):
        super().__init__()
        self.bilinear = bilinear
        if bilinear:
            self.conv = M.Conv2d(channels, channels // 2, 1)
        else:
            self.conv = M.ConvTranspose2d(channels, channels // 2, 2, stride=2)

    def forward(self, x):
        """(N, channels, H, W)."""
        if self.bilinear:
            x = F.vision.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
        return self.conv(x)


def cropped(x, height, width):
    """The middle of x, of this size."""
    top, left = (x.shape[2] - height) // 2, (x.shape[3] - width) // 2
    return x[:, :, top : top + height, left : left + width]


class UNet(M.Module):
    """A class for each pixel: a path down to coarse features, one up, and bridges between them.

    Args:
        in_channels: of the image.
        num_classes: channels of the result.
        width: channels of the finest features; 64 in the paper.
        depth: how often height and width are halved; 4 in the paper.
        padding: of the 3 x 3 convolutions. With 1, the result is as large as the image if its sides
            are multiples of 2^depth.
        bilinear: how features grow, see `Up`.
    """

    def __init__(self, in_channels=1, num_classes=2, width=4, depth=2, padding=0, bilinear=False):
        super().__init__()
        widths = [width * 2**i for i in range(depth + 1)]
        sources = [in_channels, *widths]
        self.down = [DoubleConv(sources[i], widths[i], padding) for i in range(depth + 1)]
        self.grow = [Up(w, bilinear) for w in reversed(widths[1:])]
        self.up = [DoubleConv(w, w // 2, padding) for w in reversed(widths[1:])]
        self.pool = M.MaxPool2d(2, 2)
        self.head = M.Conv2d(width, num_classes, 1)
        for m in self.modules():
            if isinstance(m, (M.Conv2d, M.ConvTranspose2d)):
                M.init.msra_normal_(m.weight)

    def forward(self, x):
        """Images (N, in_channels, H, W); logits (N, num_classes, H', W')."""
        bridges = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else self.pool(x))
            bridges.append(x)
        bridges.pop()
        for i, bridge in enumerate(reversed(bridges)):
            x = self.grow[i](x)
            x = self.up[i](F.concat([cropped(bridge, x.shape[2], x.shape[3]), x], axis=1))
        return self.head(x)
