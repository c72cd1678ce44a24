"""Reads handwritten digits: trains a small convolutional network, saves it, and draws the result.

The images are the 1,797 digits of 8 x 8 pixels that scikit-learn ships; 20 % are held out. Run it
with ``make demo``, or ``python examples/digits.py`` where openmge[demo] is installed.
"""

import time
from pathlib import Path

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import megengine as mge
import megengine.functional as F
import megengine.module as M
from megengine import optimizer as optim
from megengine.autodiff import GradManager
from megengine.data import DataLoader, RandomSampler, SequentialSampler
from megengine.data.dataset import ArrayDataset

EPOCHS, BATCH_SIZE, SEED = 30, 64, 0
OUT = Path("out")


class Net(M.Module):
    """Two stages of convolutions that halve the image, then a linear classifier."""

    def __init__(self):
        super().__init__()
        self.features = M.Sequential(
            *self.stage(1, 32), *self.stage(32, 32), M.MaxPool2d(2),
            *self.stage(32, 64), *self.stage(64, 64), M.MaxPool2d(2),
        )  # fmt: skip
        self.dropout = M.Dropout(0.3)
        self.classifier = M.Linear(64 * 2 * 2, 10)

    @staticmethod
    def stage(inputs, outputs):
        """A convolution with batch norm and ReLU."""
        conv = M.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=False)
        return conv, M.BatchNorm2d(outputs), M.ReLU()

    def forward(self, images):
        """Images (N, 1, 8, 8) to a score for each of the ten digits, (N, 10)."""
        features = F.flatten(self.features(images), 1)
        return self.classifier(self.dropout(features))


def read_digits():
    """Training images, held-out images, and the labels of each; the split is always the same."""
    images, labels = load_digits(return_X_y=True)
    images = (images.reshape(-1, 1, 8, 8) / 16).astype("float32")
    return train_test_split(
        images, labels.astype("int32"), test_size=0.2, random_state=SEED, stratify=labels
    )


def predict(net, images):
    """The digit that the network sees in each image."""
    net.eval()
    loader = DataLoader(
        ArrayDataset(images), SequentialSampler(images, batch_size=256)
    )
    return np.concatenate([F.argmax(net(mge.tensor(x)), axis=1).numpy() for [x] in loader])


def train(net, train_images, train_labels, test_images, test_labels):
    """Trains the network; returns the loss and the held-out accuracy of each epoch."""
    dataset = ArrayDataset(train_images, train_labels)
    loader = DataLoader(dataset, RandomSampler(dataset, BATCH_SIZE, drop_last=True, seed=SEED))
    gm = GradManager().attach(net.parameters())
    optimizer = optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.05)
    scheduler = optim.MultiStepLR(optimizer, milestones=[20, 26], gamma=0.2)
    losses, accuracies = [], []
    progress = tqdm(range(EPOCHS), desc="training", unit="epoch")
    for _ in progress:
        net.train()
        total = 0.0
        for images, labels in loader:
            with gm:
                scores = net(mge.tensor(images))
                loss = F.nn.cross_entropy(scores, mge.tensor(labels))
                gm.backward(loss)
            optimizer.step().clear_grad()
            total += loss.item()
        scheduler.step()
        losses.append(total / len(loader))
        accuracies.append(float(np.mean(predict(net, test_images) == test_labels)))
        progress.set_postfix(loss=f"{losses[-1]:.4f}", accuracy=f"{accuracies[-1]:.2%}")
    return losses, accuracies


def draw(path, losses, accuracies, images, labels, predictions):
    """Draws the curves beside digits that were held out, wrong predictions in red."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of a backend

    figure = plt.figure(figsize=(12, 5), layout="constrained")
    left, right = figure.subfigures(1, 2)
    for axes, curve, name in zip(
        left.subplots(2, 1, sharex=True), (losses, accuracies), ("loss", "accuracy"), strict=True
    ):
        axes.plot(range(1, EPOCHS + 1), curve)
        axes.set(ylabel=name)
    axes.set(xlabel="epoch")
    shown = np.argsort(predictions == labels, kind="stable")[:40]  # mistakes come first
    for axes, i in zip(right.subplots(5, 8).flat, shown, strict=True):
        axes.imshow(images[i, 0], cmap="gray_r")
        axes.set_title(predictions[i], color="k" if predictions[i] == labels[i] else "r")
        axes.axis("off")
    figure.savefig(path)


def main():
    """Trains, saves, loads into a fresh network, compares and draws."""
    mge.random.seed(SEED)
    train_images, test_images, train_labels, test_labels = read_digits()
    net = Net()
    start = time.perf_counter()
    losses, accuracies = train(net, train_images, train_labels, test_images, test_labels)
    print(f"trained for {time.perf_counter() - start:.1f} s on {mge.get_default_device()}")

    OUT.mkdir(exist_ok=True)
    mge.save({"net": net.state_dict(), "epochs": EPOCHS}, OUT / "digits.pkl")
    fresh = Net()
    fresh.load_state_dict(mge.load(OUT / "digits.pkl")["net"])
    predictions = predict(fresh, test_images)
    assert np.array_equal(predictions, predict(net, test_images))
    print(f"accuracy on {len(test_labels)} held-out digits: {np.mean(predictions == test_labels):.2%}")

    draw(OUT / "digits.png", losses, accuracies, test_images, test_labels, predictions)
    print(f"the checkpoint and a picture are in {OUT}/: digits.pkl, digits.png")


if __name__ == "__main__":
    main()
