"""Reads handwritten digits: trains a small convolutional network, saves it, draws the result.

The images are the 1,797 digits of 8 x 8 pixels that scikit-learn ships; 20 % are held out. Run it
with ``make demo``, or ``python examples/digits.py`` where openmge[demo] is installed.
"""

from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

import megengine as mge
import megengine.functional as F
import megengine.module as M
from megengine import optimizer as optim
from megengine.autodiff import GradManager
from megengine.data import DataLoader, RandomSampler
from megengine.data.dataset import ArrayDataset

EPOCHS, SEED, OUT = 16, 0, Path("out")


def conv_block(inputs, outputs):
    """A 3 x 3 convolution, batch norm and ReLU."""
    conv = M.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=False)
    return M.Sequential(conv, M.BatchNorm2d(outputs), M.ReLU())


class Net(M.Module):
    """Two stages of convolutions that each halve the image, then a linear classifier."""

    def __init__(self):
        super().__init__()
        self.stage1 = M.Sequential(conv_block(1, 32), conv_block(32, 32), M.MaxPool2d(2))
        self.stage2 = M.Sequential(conv_block(32, 64), conv_block(64, 64), M.MaxPool2d(2))
        self.dropout = M.Dropout(0.3)
        self.classifier = M.Linear(64 * 2 * 2, 10)

    def forward(self, images):
        """Images (N, 1, 8, 8) to a score for each of the ten digits, (N, 10)."""
        features = F.flatten(self.stage2(self.stage1(images)), 1)
        return self.classifier(self.dropout(features))


def predict(net, images):
    """The digit that the network sees in each image."""
    net.eval()
    return F.argmax(net(mge.tensor(images)), axis=1).numpy()


def train(net, images, labels, test_images, test_labels):
    """Trains the network; returns the loss and the held-out accuracy of each epoch."""
    dataset = ArrayDataset(images, labels)
    loader = DataLoader(dataset, RandomSampler(dataset, batch_size=64, drop_last=True, seed=SEED))
    gm = GradManager().attach(net.parameters())
    optimizer = optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.05)
    scheduler = optim.MultiStepLR(optimizer, milestones=[10, 14], gamma=0.2)
    losses, accuracies = [], []
    progress = tqdm(range(EPOCHS), desc="training", unit="epoch")
    for _ in progress:
        net.train()
        total = 0.0
        for batch_images, batch_labels in loader:
            with gm:
                scores = net(mge.tensor(batch_images))
                loss = F.nn.cross_entropy(scores, mge.tensor(batch_labels))
                gm.backward(loss)
            optimizer.step().clear_grad()
            total += loss.item()
        scheduler.step()
        losses.append(total / len(loader))
        accuracies.append(float(np.mean(predict(net, test_images) == test_labels)))
        progress.set_postfix(loss=f"{losses[-1]:.4f}", accuracy=f"{accuracies[-1]:.2%}")
    return losses, accuracies


def draw(losses, accuracies, images, labels, predictions):
    """Draws the curves beside held-out digits with predictions, the wrong ones first, in red."""
    figure = plt.figure(figsize=(12, 5), layout="constrained")
    left, right = figure.subfigures(1, 2)
    above, below = left.subplots(2, 1)
    above.plot(range(1, EPOCHS + 1), losses)
    above.set(xlabel="epoch", ylabel="training loss", yscale="log")
    below.plot(range(1, EPOCHS + 1), accuracies)
    below.set(xlabel="epoch", ylabel="accuracy on held-out digits")
    shown = np.argsort(predictions == labels, kind="stable")
    for axes, i in zip(right.subplots(5, 8).flat, shown, strict=False):
        axes.imshow(images[i, 0], cmap="gray_r")
        axes.set_title(predictions[i], color="black" if predictions[i] == labels[i] else "red")
        axes.axis("off")
    figure.savefig(OUT / "digits.png")


def main():
    """Trains a network, saves it, loads it into a fresh one, which must predict the same."""
    mge.random.seed(SEED)
    images, labels = load_digits(return_X_y=True)
    images = (images.reshape(-1, 1, 8, 8) / 16).astype("float32")
    images, test_images, labels, test_labels = train_test_split(
        images, labels.astype("int32"), test_size=0.2, random_state=SEED, stratify=labels
    )
    net, fresh = Net(), Net()
    losses, accuracies = train(net, images, labels, test_images, test_labels)
    OUT.mkdir(exist_ok=True)
    mge.save(net.state_dict(), OUT / "digits.pkl")
    fresh.load_state_dict(mge.load(OUT / "digits.pkl"))
    predictions = predict(fresh, test_images)
    assert np.array_equal(predictions, predict(net, test_images))
    draw(losses, accuracies, test_images, test_labels, predictions)
    accuracy = np.mean(predictions == test_labels)
    print(f"accuracy on {len(test_labels)} held-out digits: {accuracy:.2%}")
    print(f"wrote the checkpoint {OUT / 'digits.pkl'} and the picture {OUT / 'digits.png'}")


if __name__ == "__main__":
    main()
