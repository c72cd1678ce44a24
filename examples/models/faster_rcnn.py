"""Faster R-CNN (Ren et al., 2015) over a feature pyramid (Lin et al., 2017), with RoI align.

A region proposal network slides over two levels of features and scores anchors; the best ones,
after non-maximum suppression, are resampled to one size and classified. Everything is small enough
to run in a test; the sizes of the papers are a matter of the constructor's arguments.
"""

import math

import numpy as np

import megengine as mge
import megengine.functional as F
import megengine.module as M

STRIDES = (4, 8)  # of the levels of the pyramid, in pixels of the image
MOST_GROWTH = math.log(1000.0 / 16)  # the largest logarithm by which a box is scaled


def decode(boxes, deltas):
    """Boxes (N, 4) of x1, y1, x2, y2, moved and scaled by deltas (N, 4) as in R-CNN."""
    size = boxes[:, 2:] - boxes[:, :2]
    centre = boxes[:, :2] + 0.5 * size
    centre = centre + deltas[:, :2] * size
    size = size * F.exp(F.minimum(deltas[:, 2:], MOST_GROWTH))
    return F.concat([centre - 0.5 * size, centre + 0.5 * size], 1)


def clip_to(boxes, height, width):
    """Boxes without what lies outside of an image."""
    x = F.clip(boxes[:, 0::2], 0, width)
    y = F.clip(boxes[:, 1::2], 0, height)
    return F.stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1]], 1)


class ConvBlock(M.Module):
    """Convolution, batch norm and an activation."""

    def __init__(self, in_channels, out_channels, stride, activation):
        super().__init__()
        self.activation = activation
        self.conv = M.Conv2d(in_channels, out_channels, 3, stride, 1, bias=False)
        self.norm = M.BatchNorm2d(out_channels)

    def forward(self, x):
        """(N, C, H, W) to (N, C', H / stride, W / stride)."""
        return self.activation(self.norm(self.conv(x)))


class FeaturePyramid(M.Module):
    """Features at strides of 4 and 8 pixels, the finer ones aware of the coarser."""

    def __init__(self, width, out_channels, activation):
        super().__init__()
        self.stem = ConvBlock(3, width, 2, activation)
        self.stage1 = ConvBlock(width, 2 * width, 2, activation)
        self.stage2 = ConvBlock(2 * width, 4 * width, 2, activation)
        self.lateral1 = M.Conv2d(2 * width, out_channels, 1)
        self.lateral2 = M.Conv2d(4 * width, out_channels, 1)
        self.smooth = M.Conv2d(out_channels, out_channels, 3, padding=1)

    def forward(self, image):
        """(N, 3, H, W) to features of (N, C, H / 4, W / 4) and (N, C, H / 8, W / 8)."""
        fine = self.stage1(self.stem(image))
        top = self.lateral2(self.stage2(fine))
        above = F.repeat(F.repeat(top, 2, 2), 2, 3)
        return self.smooth(self.lateral1(fine) + above), top


class RegionProposals(M.Module):
    """Scores and deltas of the anchors of each place, and the boxes that come of them.

    Args:
        channels: of the features.
        activation: after the first convolution.
        ratios: height by width of the anchors of a place.
        scale: size of an anchor by the stride of its level.
        candidates: anchors of an image that go into the suppression.
        proposals: boxes of an image that leave it.
    """

    def __init__(
        self,
        channels,
        activation,
        ratios=(0.5, 1.0, 2.0),
        scale=4.0,
        candidates=60,
        proposals=8,
    ):
        super().__init__()
        self.activation = activation
        self.ratios, self.scale = ratios, scale
        self.candidates, self.proposals = candidates, proposals
        self.conv = M.Conv2d(channels, channels, 3, padding=1)
        self.objectness = M.Conv2d(channels, len(ratios), 1)
        self.deltas = M.Conv2d(channels, 4 * len(ratios), 1)

    def anchors(self, height, width, stride):
        """The anchors of a level: (height * width * ratios, 4)."""
        ratios = np.array(self.ratios)
        size = self.scale * stride * np.stack([1 / np.sqrt(ratios), np.sqrt(ratios)], 1)
        y, x = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
        centre = (np.stack([x, y], -1)[:, :, None] + 0.5) * stride
        boxes = np.concatenate([centre - size / 2, centre + size / 2], -1)
        return mge.tensor(boxes.reshape(-1, 4).astype("float32"))

    def forward(self, features):
        """Logits (N, A) and deltas (N, A, 4) of all anchors, and the anchors (A, 4)."""
        logits, deltas, anchors = [], [], []
        for level, x in enumerate(features):
            stride = STRIDES[level]
            n, _, height, width = x.shape
            hidden = self.activation(self.conv(x))
            logits.append(F.flatten(F.transpose(self.objectness(hidden), (0, 2, 3, 1)), 1))
            deltas.append(F.transpose(self.deltas(hidden), (0, 2, 3, 1)).reshape(n, -1, 4))
            anchors.append(self.anchors(height, width, stride))
        return F.concat(logits, 1), F.concat(deltas, 1), F.concat(anchors, 0)

    def propose(self, logits, deltas, anchors, height, width):
        """The best boxes of each image: (K, 5) of image, x1, y1, x2, y2. They get no gradient."""
        rois = []
        for i in range(logits.shape[0]):
            scores, best = F.topk(logits[i].detach(), self.candidates, descending=True)
            boxes = clip_to(decode(anchors[best], deltas[i].detach()[best]), height, width)
            boxes = boxes[F.vision.nms(boxes, scores, 0.7, self.proposals)]
            image = F.full((boxes.shape[0], 1), float(i))
            rois.append(F.concat([image, boxes], 1))
        return F.concat(rois, 0).detach()


class BoxHead(M.Module):
    """Classifies boxes and corrects their places."""

    def __init__(self, channels, hidden, num_classes, activation, size=5):
        super().__init__()
        self.activation = activation
        self.size = size
        self.fc1 = M.Linear(channels * size * size, hidden)
        self.fc2 = M.Linear(hidden, hidden)
        self.classes = M.Linear(hidden, num_classes + 1)
        self.deltas = M.Linear(hidden, 4)

    def pool(self, features, rois):
        """(K, C, size, size): small boxes from the fine level, large ones from the coarse one."""
        size = F.sqrt((rois[:, 3] - rois[:, 1]) * (rois[:, 4] - rois[:, 2]))
        small = (size < 8.0 * STRIDES[0]).reshape(-1, 1, 1, 1)
        fine, coarse = [
            F.vision.roi_align(x, rois, self.size, "average", 1.0 / STRIDES[level], 2, True)
            for level, x in enumerate(features)
        ]
        return F.where(F.broadcast_to(small, fine.shape), fine, coarse)

    def forward(self, features, rois):
        """Logits (K, classes + 1), of which the last is the background, and deltas (K, 4)."""
        x = F.flatten(self.pool(features, rois), 1)
        x = self.activation(self.fc2(self.activation(self.fc1(x))))
        return self.classes(x), self.deltas(x)


class FasterRCNN(M.Module):
    """A detector of two stages.

    While it trains, it gives what losses need: logits and deltas of all anchors and of the boxes
    that were proposed, or of other boxes that it is given. Else it gives detections: for each image
    boxes (D, 4), their scores (D,) and classes (D,), which get no gradient.

    Args:
        num_classes: kinds of objects, without the background.
        width: channels after the first convolution.
        channels: of the feature pyramid.
        hidden: width of the box head.
        most: detections of an image.
        activation: a function, relu in the papers.
    """

    def __init__(self, num_classes=3, width=8, channels=16, hidden=32, most=5, activation=F.relu):
        super().__init__()
        self.most = most
        self.backbone = FeaturePyramid(width, channels, activation)
        self.rpn = RegionProposals(channels, activation)
        self.head = BoxHead(channels, hidden, num_classes, activation)

    def forward(self, image, rois=None):
        """Of images (N, 3, H, W), whose sides are multiples of 8; rois (K, 5) as in roi_align."""
        height, width = image.shape[2:]
        features = self.backbone(image)
        logits, deltas, anchors = self.rpn(features)
        if rois is None:
            rois = self.rpn.propose(logits, deltas, anchors, height, width)
        class_logits, box_deltas = self.head(features, rois)
        if self.training:
            return logits, deltas, class_logits, box_deltas
        probabilities = F.softmax(class_logits.detach(), 1)[:, :-1]
        boxes = clip_to(decode(rois[:, 1:], box_deltas.detach()), height, width)
        return [
            self.detect(boxes, probabilities, rois[:, 0].numpy() == i) for i in range(len(image))
        ]

    def detect(self, boxes, probabilities, mine):
        """The detections among the boxes that `mine` marks, the best first."""
        mine = mge.tensor(np.nonzero(mine)[0].astype("int32"))
        boxes, probabilities = boxes[mine], probabilities[mine]
        scores, classes = F.max(probabilities, 1), F.argmax(probabilities, 1)
        # Boxes of different classes are moved apart, so that they do not suppress each other.
        apart = classes.astype("float32").reshape(-1, 1) * 4096.0
        kept = F.vision.nms(boxes + apart, scores, 0.5, self.most)
        return boxes[kept], scores[kept], classes[kept]
