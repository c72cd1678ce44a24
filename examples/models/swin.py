"""Swin, of "Swin Transformer" (Liu et al., 2021): attention in windows that shift."""

import numpy as np

import megengine as mge
import megengine.functional as F
import megengine.module as M


def relative_positions(window):
    """For each pair of places in a window, which of (2 window - 1)^2 offsets lies between them."""
    rows, columns = np.meshgrid(np.arange(window), np.arange(window), indexing="ij")
    rows, columns = rows.reshape(-1), columns.reshape(-1)
    down = rows[:, None] - rows + window - 1
    right = columns[:, None] - columns + window - 1
    return (down * (2 * window - 1) + right).astype("int32")


def cut(x, window):
    """(N, H, W, C) into windows (N * H / window * W / window, window^2, C)."""
    n, height, width, channels = x.shape
    x = x.reshape(n, height // window, window, width // window, window, channels)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(-1, window * window, channels)


def join(windows, window, shape):
    """What `cut` made of a tensor of this shape, put together again."""
    n, height, width, channels = shape
    x = windows.reshape(n, height // window, width // window, window, window, channels)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(n, height, width, channels)


def shift_mask(height, width, window, shift):
    """(windows, window^2, window^2): -100 where only the shift made two places neighbours."""
    region = np.zeros((1, height, width, 1))
    pieces = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
    for i, rows in enumerate(pieces):
        for j, columns in enumerate(pieces):
            region[:, rows, columns] = 3 * i + j
    places = cut(region, window)[:, :, 0]
    return np.where(places[:, :, None] != places[:, None], -100.0, 0.0).astype("float32")


class WindowAttention(M.Module):
    """Attention within a window; each head learns a bias for every offset between two places.

    Args:
        width: of a token.
        num_heads: of the attention.
        window: height and width of a window.
    """

    def __init__(self, width, num_heads, window):
        super().__init__()
        self.num_heads = num_heads
        self.window = window
        self.qkv = M.Linear(width, 3 * width)
        self.out = M.Linear(width, width)
        self.offset_bias = mge.Parameter(np.zeros(((2 * window - 1) ** 2, num_heads), "float32"))
        M.init.normal_(self.offset_bias, 0.0, 0.02)
        self._offsets = relative_positions(window).reshape(-1)

    def forward(self, x, mask=None):
        """Windows (B, window^2, width); `mask` (windows of an image, window^2, window^2)."""
        b, length, width = x.shape
        heads = self.num_heads
        qkv = self.qkv(x).reshape(b, length, 3, heads, width // heads).transpose(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        scores = F.matmul(q * (width // heads) ** -0.5, k, transpose_b=True)
        bias = self.offset_bias[mge.tensor(self._offsets)].reshape(1, length, length, heads)
        scores = scores + bias.transpose(0, 3, 1, 2)
        if mask is not None:
            windows = mask.shape[0]
            scores = scores.reshape(-1, windows, heads, length, length)
            scores = scores + mask.reshape(1, windows, 1, length, length)
            scores = scores.reshape(b, heads, length, length)
        y = F.matmul(F.softmax(scores, axis=-1), v)
        return self.out(y.transpose(0, 2, 1, 3).reshape(b, length, width))


class SwinBlock(M.Module):
    """Attention in windows, shifted or not, then two linear layers; both add to what they get.

    Args:
        size: height and width of the map of tokens; a multiple of `window`.
        width: of a token.
        num_heads: of the attention.
        window: height and width of a window.
        shift: how far the windows are moved, both ways; 0 for every other block.
        mlp_ratio: hidden width of the linear layers over `width`.
    """

    def __init__(self, size, width, num_heads, window=4, shift=0, mlp_ratio=4):
        super().__init__()
        self.window = window
        self.shift = shift
        self.norm1 = M.LayerNorm(width)
        self.attention = WindowAttention(width, num_heads, window)
        self.norm2 = M.LayerNorm(width)
        self.fc1 = M.Linear(width, mlp_ratio * width)
        self.fc2 = M.Linear(mlp_ratio * width, width)
        self._mask = shift_mask(size, size, window, shift) if shift else None

    def attend(self, x):
        """Attention in windows of a map (N, H, W, width)."""
        shape, s = x.shape, self.shift
        if not s:
            return join(self.attention(cut(x, self.window)), self.window, shape)
        x = F.roll(x, (-s, -s), (1, 2))
        y = self.attention(cut(x, self.window), mge.tensor(self._mask))
        return F.roll(join(y, self.window, shape), (s, s), (1, 2))

    def forward(self, x):
        """A map (N, H, W, width) to one of that shape."""
        x = x + self.attend(self.norm1(x))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class PatchMerging(M.Module):
    """Four neighbours become one token of twice the width."""

    def __init__(self, width):
        super().__init__()
        self.norm = M.LayerNorm(4 * width)
        self.reduce = M.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x):
        """(N, H, W, width) to (N, H / 2, W / 2, 2 width)."""
        corners = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
        return self.reduce(self.norm(F.concat(corners, axis=3)))


class Swin(M.Module):
    """Stages of blocks whose windows are shifted in turn; between stages, patches merge.

    Swin-T is ``Swin(224, 4, 1000, width=96, depths=(2, 2, 6, 2), num_heads=(3, 6, 12, 24),
    window=7)``.

    Args:
        image_size: height and width of the images.
        patch_size: the same of a patch.
        num_classes: number of scores for each image.
        width: of a token in the first stage.
        depths: number of blocks in each stage.
        num_heads: of the attentions in each stage.
        window: height and width of a window.
    """

    def __init__(
        self,
        image_size=32,
        patch_size=4,
        num_classes=10,
        width=16,
        depths=(2, 2),
        num_heads=(2, 4),
        window=4,
    ):
        super().__init__()
        size = image_size // patch_size
        self.patch = M.Conv2d(3, width, patch_size, patch_size)
        self.patch_norm = M.LayerNorm(width)
        layers = []
        for stage, depth in enumerate(depths):
            if stage:
                layers.append(PatchMerging(width))
                size, width = size // 2, 2 * width
            for i in range(depth):
                # A map of one window has nothing to shift.
                shift = window // 2 if i % 2 and size > window else 0
                layers.append(SwinBlock(size, width, num_heads[stage], window, shift))
        self.layers = layers
        self.norm = M.LayerNorm(width)
        self.head = M.Linear(width, num_classes)

    def forward(self, image):
        """Scores (N, num_classes) of images (N, 3, image_size, image_size)."""
        x = self.patch_norm(self.patch(image).transpose(0, 2, 3, 1))
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return self.head(F.mean(F.mean(x, 2), 1))
