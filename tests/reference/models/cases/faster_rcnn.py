"""Faster R-CNN: RoI align and heads of given boxes; proposals, suppression and detections."""

import numpy as np

import megengine.functional as F
import megengine.module as M
from examples.models.faster_rcnn import FasterRCNN
from tests.reference.models.harness import Case, floats


class GivenBoxes(M.Module):
    """A detector that trains on boxes of whole pixels; silu, for differences stumble over relu."""

    def __init__(self):
        super().__init__()
        self.net = FasterRCNN(activation=F.silu)

    def forward(self, image, boxes):
        return self.net(image, boxes.astype("float32"))


class Detections(M.Module):
    """The scores of anchors, which get gradients, and the detections, which get none."""

    def __init__(self):
        super().__init__()
        self.net = FasterRCNN(num_classes=4, width=4, channels=20, hidden=24)

    def forward(self, image):
        logits, deltas, _ = self.net.rpn(self.net.backbone(image))
        return logits, deltas, self.net(image)


def cases():
    """Two images each."""
    boxes = [[0, 3, 5, 40, 31], [1, 0, 0, 79, 63], [0, 50, 20, 61, 44], [1, 10, 12, 90, 30]]
    return {
        "faster_rcnn": Case(
            GivenBoxes(),
            [floats("image", 2, 3, 64, 80), np.array(boxes, "int32")],
            judge="differences",
            why="the reference adds the gradient of roi_align to what its memory held before",
        ),
        "faster_rcnn-detections": Case(Detections(), [floats("scene", 2, 3, 72, 56)], train=False),
    }
