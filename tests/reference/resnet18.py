"""A ResNet-18 in plain MegEngine, its weights from a NumPy seed, and three steps of SGD.

Run with the reference release it prints the losses that test_resnet18.py holds us to:

    python resnet18.py
"""

import numpy as np

import megengine as mge
import megengine.functional as F
import megengine.module as M
import megengine.optimizer as optim
from megengine.autodiff import GradManager


class BasicBlock(M.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, in_channels, channels, stride):
        super().__init__()
        self.conv1 = M.Conv2d(in_channels, channels, 3, stride, padding=1, bias=False)
        self.bn1 = M.BatchNorm2d(channels)
        self.conv2 = M.Conv2d(channels, channels, 3, 1, padding=1, bias=False)
        self.bn2 = M.BatchNorm2d(channels)
        if stride == 1 and in_channels == channels:
            self.shortcut = M.Identity()
        else:
            self.shortcut = M.Sequential(
                M.Conv2d(in_channels, channels, 1, stride, bias=False), M.BatchNorm2d(channels)
            )

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + self.shortcut(x))


class ResNet18(M.Module):
    """The network of "Deep residual learning for image recognition", 18 layers."""

    def __init__(self, num_classes=10):
        super().__init__()
        self.conv1 = M.Conv2d(3, 64, 7, 2, padding=3, bias=False)
        self.bn1 = M.BatchNorm2d(64)
        self.maxpool = M.MaxPool2d(3, 2, 1)
        blocks, channels = [], 64
        for width, stride in [(64, 1), (128, 2), (256, 2), (512, 2)]:
            blocks.append(BasicBlock(channels, width, stride))
            blocks.append(BasicBlock(width, width, 1))
            channels = width
        self.layers = M.Sequential(*blocks)
        self.fc = M.Linear(512, num_classes)

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        x = F.mean(self.layers(x), axis=(2, 3))
        return self.fc(x)


def set_weights(net, seed=0):
    """Weights of every convolution and the classifier from a NumPy generator, by sorted name."""
    rng = np.random.RandomState(seed)
    for _, p in sorted(net.named_parameters()):
        shape = p.numpy().shape
        if len(shape) == 4 and shape[0] != 1:
            fan_in = int(np.prod(shape[1:]))
            value = rng.randn(*shape) * np.sqrt(2.0 / fan_in)
        elif len(shape) == 2:
            value = rng.randn(*shape) * 0.05
        else:
            continue  # batch norm and biases keep what they start with
        p[...] = value.astype("float32")


def train(steps=3, batch=4, size=64):
    """The loss before each step, and the mean absolute value of the logits after the last."""
    net = ResNet18()
    set_weights(net)
    gm = GradManager().attach(net.parameters())
    opt = optim.SGD(net.parameters(), lr=0.0005, momentum=0.9, weight_decay=1e-4)
    rng = np.random.RandomState(1)
    losses = []
    for _ in range(steps):
        image = mge.tensor(rng.randn(batch, 3, size, size).astype("float32"))
        label = mge.tensor(rng.randint(0, 10, batch).astype("int32"))
        with gm:
            loss = F.nn.cross_entropy(net(image), label)
            gm.backward(loss)
        opt.step().clear_grad()
        losses.append(float(loss.item()))
    net.eval()
    logits = net(mge.tensor(rng.randn(batch, 3, size, size).astype("float32")))
    losses.append(float(np.abs(logits.numpy()).mean()))
    return losses


if __name__ == "__main__":
    print([float(f"{x:.8g}") for x in train()])
