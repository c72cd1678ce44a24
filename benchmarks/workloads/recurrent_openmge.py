"""Recurrent networks and CTC, through OpenMGE."""

from __future__ import annotations

import megengine as mge
import megengine.functional as F
import megengine.module as M
import megengine.optimizer as optim
from benchmarks.workloads import Work, workload
from benchmarks.workloads.openmge import backward, integers, normal
from benchmarks.workloads.train_openmge import training


def layer_flops(steps: int, batch: int, inputs: int, hidden: int, gates: int) -> float:
    """Of a forward pass."""
    return 2.0 * steps * batch * gates * hidden * (inputs + hidden)


class LastStep(M.Module):
    """Scores from the last output of an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = M.LSTM(128, 256, num_layers=2), M.Linear(256, 10)

    def forward(self, x: mge.Tensor) -> mge.Tensor:
        """(steps, batch, 128) to (batch, 10)."""
        return self.head(self.lstm(x)[0][-1])


@workload
def lstm_train() -> Work:
    net = LastStep()
    adam = optim.Adam(net.parameters(), lr=1e-3)
    work = training(net, normal(64, 32, 128), integers(10, 32), adam)
    flops = layer_flops(64, 32, 128, 256, 4) + layer_flops(64, 32, 256, 256, 4)
    return Work(work.step, flops=3 * flops)


@workload
def lstm_infer() -> Work:
    net, x = M.LSTM(256, 512), normal(50, 32, 256)
    net.eval()
    return Work(lambda: net(x), flops=layer_flops(50, 32, 256, 512, 4))


@workload
def lstm_infer_one() -> Work:
    net, x = M.LSTM(128, 256, num_layers=2), normal(100, 1, 128)
    net.eval()
    flops = layer_flops(100, 1, 128, 256, 4) + layer_flops(100, 1, 256, 256, 4)
    return Work(lambda: net(x), flops=flops)


@workload
def lstm_bidirectional() -> Work:
    net, x = M.LSTM(128, 128, bidirectional=True), normal(64, 16, 128)
    work = backward(lambda: net(x)[0], [x, net._flatten_weights])
    return Work(work.step, flops=6 * layer_flops(64, 16, 128, 128, 4))


@workload
def rnn_tanh() -> Work:
    net, x = M.RNN(128, 256, num_layers=2), normal(64, 32, 128)
    work = backward(lambda: net(x)[0], [x, net._flatten_weights])
    flops = layer_flops(64, 32, 128, 256, 1) + layer_flops(64, 32, 256, 256, 1)
    return Work(work.step, flops=3 * flops)


@workload
def lstm_cell() -> Work:
    cell, x = M.LSTMCell(128, 256), normal(32, 128)
    h, c = normal(32, 256), normal(32, 256)
    return backward(lambda: cell(x, (h, c))[0], [x, *cell.parameters()])


@workload
def ctc() -> Work:
    x, labels = normal(150, 32, 80), 1 + integers(79, 32, 30)
    lengths = mge.tensor([150] * 32), mge.tensor([30] * 32)
    return backward(
        lambda: F.loss.ctc_loss(F.softmax(x, axis=2), lengths[0], labels, lengths[1]), [x]
    )
