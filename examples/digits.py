"""Reads handwritten digits: trains a small convolutional network, saves it, draws the result.

The images are the 1,797 digits of 8 x 8 pixels that scikit-learn ships; 20 % are held out.
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

EPOCHS, SEED, OUT = 16, 4, Path("out")
Digits = tuple[np.ndarray, np.ndarray]  # images (N, 1, 8, 8) and labels (N,)
Curve = list[float]


def conv_block(inputs: int, outputs: int) -> M.Module:
    """A 3 x 3 convolution, batch norm and ReLU."""
    conv = M.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=False)
    return M.Sequential(conv, M.BatchNorm2d(outputs), M.ReLU())


class Net(M.Module):
    """Two stages of convolutions that each halve the image, then a linear classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.stage1 = M.Sequential(conv_block(1, 32), conv_block(32, 32), M.MaxPool2d(2))
        self.stage2 = M.Sequential(conv_block(32, 64), conv_block(64, 64), M.MaxPool2d(2))
        self.dropout = M.Dropout(0.3)
        self.classifier = M.Linear(64 * 2 * 2, 10)

    def forward(self, images: mge.Tensor) -> mge.Tensor:
        """Images (N, 1, 8, 8) to a score for each of the ten digits, (N, 10)."""
        features = F.flatten(self.stage2(self.stage1(images)), 1)
        scores: mge.Tensor = self.classifier(self.dropout(features))
        return scores


def predict(net: M.Module, images: np.ndarray) -> np.ndarray:
    """The digit that the network sees in each image."""
    net.eval()
    return F.argmax(net(mge.tensor(images)), axis=1).numpy()


def train(net: M.Module, train_set: Digits, test_set: Digits) -> tuple[Curve, Curve]:
    """Trains the network; returns the loss and the held-out accuracy of each epoch."""
    dataset = ArrayDataset(*train_set)
    loader = DataLoader(dataset, RandomSampler(dataset, batch_size=64, drop_last=True, seed=SEED))
    gm = GradManager().attach(net.parameters())
    optimizer = optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.05)
    scheduler = optim.MultiStepLR(optimizer, milestones=[10, 14], gamma=0.2)
    losses, accuracies = Curve(), Curve()
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
        accuracies.append(float(np.mean(predict(net, test_set[0]) == test_set[1])))
        progress.set_postfix(loss=f"{losses[-1]:.4f}", accuracy=f"{accuracies[-1]:.2%}")
    return losses, accuracies


def draw(losses: Curve, accuracies: Curve, test_set: Digits, predictions: np.ndarray) -> None:
    """Draws the curves beside held-out digits with predictions, the wrong ones first, in red."""
    images, labels = test_set
    plt.figure(figsize=(16, 7))
    for row, (name, curve) in enumerate([("loss", losses), ("held-out accuracy", accuracies)]):
        plt.subplot(2, 2, 2 * row + 1, xlabel="epoch", ylabel=name)
        plt.plot(range(1, EPOCHS + 1), curve)
    shown = np.argsort(predictions == labels, kind="stable")[:40]
    for k, i in enumerate(shown):
        plt.subplot(5, 16, 16 * (k // 8) + 9 + k % 8)
        plt.imshow(images[i, 0], cmap="gray_r")
        plt.title(predictions[i], color="black" if predictions[i] == labels[i] else "red")
        plt.axis("off")
    plt.savefig(OUT / "digits.png", bbox_inches="tight")


def main() -> None:
    """Trains a network, saves it, loads it into a fresh one, which must predict the same."""
    mge.random.seed(SEED)
    digits, labels = load_digits(return_X_y=True)
    images = (digits.reshape(-1, 1, 8, 8) / 16).astype("float32")
    parts = train_test_split(range(1797), test_size=0.2, random_state=SEED, stratify=labels)
    train_set, test_set = ((images[n], labels[n]) for n in parts)
    net, fresh = Net(), Net()
    losses, accuracies = train(net, train_set, test_set)
    OUT.mkdir(exist_ok=True)
    mge.save(net.state_dict(), OUT / "digits.pkl")
    fresh.load_state_dict(mge.load(OUT / "digits.pkl"))
    predictions = predict(fresh, test_set[0])
    assert np.array_equal(predictions, predict(net, test_set[0]))
    draw(losses, accuracies, test_set, predictions)
    accuracy = np.mean(predictions == test_set[1])
    print(f"accuracy on {len(predictions)} held-out digits: {accuracy:.2%}")
    print(f"wrote the checkpoint {OUT / 'digits.pkl'} and the picture {OUT / 'digits.png'}")


if __name__ == "__main__":
    main()
