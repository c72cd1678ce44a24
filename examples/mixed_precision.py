"""Trains in bfloat16 and in float16 what it trains in float32, and shows the results side by side.

First the small network of examples/digits.py on all digits, then a ResNet-18 on 64 of them, which
it has to learn by heart. Each starts from the same weights and sees the same batches in the same
order. A dtype is a column: float32 as it is, bfloat16 under autocast, float16 under autocast with a
GradScaler, which keeps small gradients from vanishing.
"""

import time
from collections.abc import Callable

import numpy as np
from digits import Net
from models.resnet import ResNet
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import megengine as mge
import megengine.functional as F
import megengine.module as M
from megengine import optimizer as optim
from megengine.amp import GradScaler, autocast
from megengine.autodiff import GradManager

DTYPES = ("float32", "bfloat16", "float16")
SEED = 4
Digits = tuple[np.ndarray, np.ndarray]  # images (N, 1, 8, 8) and labels (N,)


def make_step(
    net: M.Module, optimizer: optim.Optimizer, dtype: str
) -> Callable[[mge.Tensor, mge.Tensor], float]:
    """A function of images and labels that trains one step and returns the loss."""
    gm = GradManager().attach(net.parameters())
    scaler = GradScaler(init_scale=2.0**10)

    def step(images: mge.Tensor, labels: mge.Tensor) -> float:
        with gm:
            with autocast(enabled=dtype != "float32", low_prec_dtype=dtype):
                loss = F.nn.cross_entropy(net(images), labels)
            if dtype == "float16":
                scaler.backward(gm, loss)
            else:
                gm.backward(loss)
        optimizer.step().clear_grad()
        return float(loss.item())

    return step


def accuracy(net: M.Module, data: Digits, dtype: str) -> float:
    """The share of images whose digit the network sees."""
    net.eval()
    with autocast(enabled=dtype != "float32", low_prec_dtype=dtype):
        predictions = F.argmax(net(mge.tensor(data[0])), axis=1).numpy()
    net.train()
    return float(np.mean(predictions == data[1]))


def train_digits(dtype: str, train_set: Digits, test_set: Digits) -> tuple[float, float, float]:
    """The loss of the last epoch, the held-out accuracy and the seconds."""
    mge.random.seed(SEED)
    net = Net()
    optimizer = optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.05)
    step = make_step(net, optimizer, dtype)
    rng, start, losses = np.random.default_rng(SEED), time.perf_counter(), [0.0]
    images, labels = train_set
    for epoch in range(16):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * (0.2 if epoch >= 10 else 1) * (0.2 if epoch >= 14 else 1)
        order = rng.permutation(len(images))[: len(images) // 64 * 64].reshape(-1, 64)
        losses = [step(mge.tensor(images[i]), mge.tensor(labels[i])) for i in order]
    seconds = time.perf_counter() - start
    return float(np.mean(losses)), accuracy(net, test_set, dtype), seconds


def overfit_resnet(dtype: str, data: Digits) -> tuple[float, float, float]:
    """The last loss, the accuracy on what was learnt and the seconds."""
    mge.random.seed(SEED)
    net = ResNet(18, num_classes=10, width=32, small_images=True)
    step = make_step(net, optim.SGD(net.parameters(), lr=0.05, momentum=0.9), dtype)
    images = np.repeat(np.kron(data[0][:64], np.ones((4, 4), np.float32)), 3, axis=1)
    labels, start = data[1][:64], time.perf_counter()
    losses = [step(mge.tensor(images), mge.tensor(labels)) for _ in range(30)]
    seconds = time.perf_counter() - start
    return losses[-1], accuracy(net, (images, labels), dtype), seconds


def show(title: str, run: Callable[[str], tuple[float, float, float]]) -> None:
    """Trains in each dtype and prints a table."""
    print(f"{title:34s}{'loss':>10s}{'accuracy':>10s}{'seconds':>10s}")
    for dtype in DTYPES:
        loss, right, seconds = run(dtype)
        print(f"  {dtype:32s}{loss:10.4f}{right:10.2%}{seconds:10.1f}", flush=True)


def main() -> None:
    """Prints two tables."""
    digits, labels = load_digits(return_X_y=True)
    images = (digits.reshape(-1, 1, 8, 8) / 16).astype("float32")
    labels = labels.astype("int32")
    parts = train_test_split(range(1797), test_size=0.2, random_state=SEED, stratify=labels)
    train_set, test_set = ((images[n], labels[n]) for n in parts)
    show("digits, held out", lambda dtype: train_digits(dtype, train_set, test_set))
    show("ResNet-18, 64 images by heart", lambda dtype: overfit_resnet(dtype, train_set))


if __name__ == "__main__":
    main()
