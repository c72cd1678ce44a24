"""Recurrent networks and CTC, through PyTorch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.workloads import Work, workload
from benchmarks.workloads.torch_peer import backward, forward
from benchmarks.workloads.train_torch import training


class LastStep(nn.Module):
    """Scores from the last output of an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(128, 256, 2), nn.Linear(256, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(steps, batch, 128) to (batch, 10)."""
        y: torch.Tensor = self.head(self.lstm(x)[0][-1])
        return y


@workload
def lstm_train() -> Work:
    net = LastStep()
    adam = torch.optim.Adam(net.parameters(), lr=1e-3)
    return training(net, torch.randn(64, 32, 128), torch.randint(0, 10, (32,)), adam)


@workload
def lstm_infer() -> Work:
    net, x = nn.LSTM(256, 512).eval(), torch.randn(50, 32, 256)
    return forward(lambda: net(x))


@workload
def lstm_infer_one() -> Work:
    net, x = nn.LSTM(128, 256, 2).eval(), torch.randn(100, 1, 128)
    return forward(lambda: net(x))


@workload
def lstm_bidirectional() -> Work:
    net, x = nn.LSTM(128, 128, bidirectional=True), torch.randn(64, 16, 128)
    return backward(lambda: net(x)[0], [x, *net.parameters()])


@workload
def rnn_tanh() -> Work:
    net, x = nn.RNN(128, 256, 2), torch.randn(64, 32, 128)
    return backward(lambda: net(x)[0], [x, *net.parameters()])


@workload
def lstm_cell() -> Work:
    cell, x = nn.LSTMCell(128, 256), torch.randn(32, 128)
    h, c = torch.randn(32, 256), torch.randn(32, 256)
    return backward(lambda: cell(x, (h, c))[0], [x, *cell.parameters()])


@workload
def ctc() -> Work:
    x, labels = torch.randn(150, 32, 80), torch.randint(1, 80, (32, 30))
    lengths = torch.full((32,), 150), torch.full((32,), 30)
    return backward(lambda: F.ctc_loss(F.log_softmax(x, 2), labels, lengths[0], lengths[1]), [x])
