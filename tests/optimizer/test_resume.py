"""Training that stops, is saved and goes on gives the bits of training that never stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import megengine as mge
from megengine import optimizer as optim

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {"lr": 0.1}),
    "sgd-decay": ("SGD", {"lr": 0.1, "weight_decay": 0.1}),
    "sgd-momentum": ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
    "sgd-nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "adam": ("Adam", {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.1}),
    "adamw": ("AdamW", {"lr": 0.1, "weight_decay": 0.1}),
    "adagrad": ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1}),
    "adadelta": ("Adadelta", {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1}),
    "lamb": ("LAMB", {"lr": 0.1, "weight_decay": 0.1}),
    "lamb-adapt": ("LAMB", {"lr": 0.1, "always_adapt": True, "bias_correction": False}),
    "lamb-fp16": ("LAMBFp16", {"lr": 0.1, "weight_decay": 0.1}),
}
SHAPES = [(3, 5), (7,), (2, 1, 3), ()]


class Run:
    """Parameters in two groups, an optimizer and a schedule."""

    def __init__(self, name: str, dtype: str):
        rng = np.random.default_rng(5)
        cls, options = CASES[name]
        self.dtype = dtype
        self.params = [mge.Parameter(rng.standard_normal(s), dtype=dtype) for s in SHAPES]
        groups = [{"params": self.params[:2]}, {"params": self.params[2:], "lr": 0.03}]
        self.optimizer = getattr(optim, cls)(groups, **options)
        self.schedule = optim.MultiStepLR(self.optimizer, [3, 6, 8], gamma=0.5)

    def steps(self, first: int, last: int) -> None:
        for i in range(first, last):
            rng = np.random.default_rng(100 + i)
            for p in self.params:
                p.grad = mge.tensor(rng.standard_normal(p.shape), dtype=self.dtype)
            optim.clip_grad_norm(self.params, 2.0)
            self.optimizer.step().clear_grad()
            self.schedule.step()

    def save(self, path: Path) -> None:
        state = {
            "params": [p.numpy() for p in self.params],
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
        }
        mge.save(state, str(path))

    def load(self, path: Path) -> None:
        state = mge.load(str(path))
        for p, value in zip(self.params, state["params"], strict=True):
            p._reset(mge.tensor(value, dtype=self.dtype))
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_resume_is_bit_for_bit(name: str, dtype: str, tmp_path: Path) -> None:
    through = Run(name, dtype)
    through.steps(0, 10)
    stopped = Run(name, dtype)
    stopped.steps(0, 4)
    stopped.save(tmp_path / "checkpoint")
    stopped.steps(4, 5)  # saving is no end, and what follows does not reach the file
    resumed = Run(name, dtype)
    resumed.steps(0, 2)  # nothing of its own past is left
    resumed.load(tmp_path / "checkpoint")
    resumed.steps(4, 10)
    for p, q in zip(through.params, resumed.params, strict=True):
        assert p.numpy().tobytes() == q.numpy().tobytes()
    states = [r.optimizer.state_dict() for r in (through, resumed)]
    assert states[0]["param_groups"] == states[1]["param_groups"]
    for number, values in states[0]["state"].items():
        for key, value in values.items():
            other = states[1]["state"][number][key]
            assert value.dtype == other.dtype
            np.testing.assert_array_equal(value, other)
