"""Trains a small network on the digits of scikit-learn in several processes.

    python examples/distributed.py                  two processes on this machine
    python examples/distributed.py --ranks 4
    mpiexec -n 4 python examples/distributed.py     the same, on whatever machines mpiexec is told

Each process has its share of the digits and all have the same network: gradients are averaged while
they are computed. Rank 0 saves a checkpoint after each epoch, from which the job goes on if a
process dies.
"""

from __future__ import annotations

import argparse
import os

import numpy as np
from sklearn.datasets import load_digits

import megengine as mge
import megengine.distributed as dist
import megengine.functional as F
import megengine.module as M
import megengine.optimizer as optim
from megengine.autodiff import GradManager
from megengine.data import DataLoader, RandomSampler
from megengine.data.dataset import ArrayDataset


class Net(M.Module):
    """Two convolutions and a layer of scores."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = M.Conv2d(1, 16, 3, padding=1)
        self.norm = M.SyncBatchNorm(16)
        self.conv2 = M.Conv2d(16, 32, 3, stride=2, padding=1)
        self.scores = M.Linear(32 * 4 * 4, 10)

    def forward(self, x: mge.Tensor) -> mge.Tensor:
        """Scores (N, 10) of images (N, 1, 8, 8)."""
        x = F.relu(self.norm(self.conv1(x)))
        return self.scores(F.relu(self.conv2(x)).flatten(1))


def accuracy(net: Net, images: np.ndarray, labels: np.ndarray) -> float:
    """The share of right answers over all processes, each of which looks at its part."""
    part = slice(dist.get_rank(), None, dist.get_world_size())
    net.eval()
    right = (F.argmax(net(mge.tensor(images[part])), axis=1) == mge.tensor(labels[part])).sum()
    net.train()
    return dist.functional.all_reduce_sum(right.astype("float32")).item() / len(labels)


def train(args: argparse.Namespace) -> float:
    """What each process runs; the accuracy on digits that were kept aside."""
    digits = load_digits()
    images = (digits.images[:, None] / 16).astype("float32")
    labels = digits.target.astype("int32")
    aside = len(labels) // 5

    mge.random.seed(7)
    net = Net()
    opt = dist.ShardedOptimizer(net.parameters(), optim.Adam, lr=args.lr)
    begin = 0
    if os.path.exists(args.checkpoint):
        saved = mge.load(args.checkpoint)
        net.load_state_dict(saved["net"])
        opt.load_state_dict(saved["opt"])
        begin = saved["epoch"]
    dist.bcast_list_(net.tensors())
    gm = GradManager().attach(net.parameters())

    dataset = ArrayDataset(images[aside:], labels[aside:])
    sampler = RandomSampler(dataset, batch_size=args.batch // dist.get_world_size(), seed=begin)
    for epoch in range(begin, args.epochs):
        for x, y in DataLoader(dataset, sampler=sampler):
            with gm:
                loss = F.nn.cross_entropy(net(mge.tensor(x)), mge.tensor(y))
                gm.backward(loss)
            opt.step().clear_grad()
        right = accuracy(net, images[:aside], labels[:aside])
        state = {"net": net.state_dict(), "opt": opt.state_dict(), "epoch": epoch + 1}
        if dist.get_rank() == 0:
            print(f"epoch {epoch + 1}: {right:.1%} of {aside} digits", flush=True)
            mge.save(state, args.checkpoint)
    return accuracy(net, images[:aside], labels[:aside])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2, help="processes, if not under mpiexec")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=64, help="images of all processes together")
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--checkpoint", default="out/distributed.pkl")
    args = parser.parse_args()
    os.makedirs(os.path.dirname(args.checkpoint) or ".", exist_ok=True)
    results = dist.launcher(train, n_gpus=args.ranks, max_restarts=1)(args)
    assert np.ptp(results) == 0
    if dist.get_rank() == 0:
        print(f"{results[0]:.1%}")


if __name__ == "__main__":
    main()
