"""LeNet-5, of "Gradient-based learning applied to document recognition" (LeCun et al., 1998).

With today's classifier, a linear layer, in place of the paper's distances to drawn prototypes, and
all maps of the first stage joined to all of the second.
"""

import megengine.functional as F
import megengine.module as M


class LeNet(M.Module):
    """Two stages of convolution, tanh and averaging, then three linear layers.

    Args:
        num_classes: number of scores for each image.
        in_channels: channels of the images, which are 32 x 32.
    """

    def __init__(self, num_classes=10, in_channels=1):
        super().__init__()
        self.conv1 = M.Conv2d(in_channels, 6, 5)
        self.conv2 = M.Conv2d(6, 16, 5)
        self.pool = M.AvgPool2d(2, 2)
        self.fc1 = M.Linear(16 * 5 * 5, 120)
        self.fc2 = M.Linear(120, 84)
        self.classifier = M.Linear(84, num_classes)

    def forward(self, image):
        """Scores (N, num_classes) of images (N, in_channels, 32, 32)."""
        x = self.pool(F.tanh(self.conv1(image)))
        x = self.pool(F.tanh(self.conv2(x)))
        x = F.flatten(x, 1)
        x = F.tanh(self.fc1(x))
        x = F.tanh(self.fc2(x))
        return self.classifier(x)
