"""ViT, of "An image is worth 16x16 words" (Dosovitskiy et al., 2021)."""

import numpy as np

import megengine as mge
import megengine.functional as F
import megengine.module as M


class EncoderBlock(M.Module):
    """Attention of all tokens to all, then two linear layers; both add to what they get.

    Args:
        width: of each token.
        num_heads: of the attention.
        hidden: width between the two linear layers.
        dropout: the probability with which elements of both results are dropped.
    """

    def __init__(self, width, num_heads, hidden, dropout=0.0):
        super().__init__()
        self.norm1 = M.LayerNorm(width)
        self.attention = M.MultiHeadAttention(width, num_heads)
        self.norm2 = M.LayerNorm(width)
        self.fc1 = M.Linear(width, hidden)
        self.fc2 = M.Linear(hidden, width)
        self.dropout = M.Dropout(dropout)

    def forward(self, x):
        """Tokens (N, L, width) to tokens of that shape."""
        h = self.norm1(x)
        x = x + self.dropout(self.attention(h, h, h)[0])
        h = self.fc2(F.gelu(self.fc1(self.norm2(x))))
        return x + self.dropout(h)


class ViT(M.Module):
    """A patch of the image is a token; a token of its own collects what the class depends on.

    ViT-B/16 is ``ViT(224, 16, 1000, width=768, depth=12, num_heads=12)``.

    Args:
        image_size: height and width of the images.
        patch_size: the same of a patch.
        num_classes: number of scores for each image.
        width: of a token.
        depth: number of blocks.
        num_heads: of each attention.
        mlp_ratio: hidden width of a block over `width`.
        dropout: the probability with which elements are dropped.
    """

    def __init__(
        self,
        image_size=32,
        patch_size=8,
        num_classes=10,
        width=32,
        depth=2,
        num_heads=4,
        mlp_ratio=4,
        dropout=0.0,
    ):
        super().__init__()
        patches = (image_size // patch_size) ** 2
        self.patch = M.Conv2d(3, width, patch_size, patch_size)
        self.class_token = mge.Parameter(np.zeros((1, 1, width), "float32"))
        self.position = mge.Parameter(np.zeros((1, patches + 1, width), "float32"))
        M.init.normal_(self.position, 0.0, 0.02)
        self.blocks = [
            EncoderBlock(width, num_heads, mlp_ratio * width, dropout) for _ in range(depth)
        ]
        self.norm = M.LayerNorm(width)
        self.head = M.Linear(width, num_classes)
        self.dropout = M.Dropout(dropout)

    def forward(self, image):
        """Scores (N, num_classes) of images (N, 3, image_size, image_size)."""
        x = F.flatten(self.patch(image), 2).transpose(0, 2, 1)
        n, _, width = x.shape
        x = F.concat([F.broadcast_to(self.class_token, (n, 1, width)), x], axis=1)
        x = self.dropout(x + self.position)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])
