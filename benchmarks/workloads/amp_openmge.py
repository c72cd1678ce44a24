"""Known networks in bfloat16, training and inference, through OpenMGE's autocast."""

from __future__ import annotations

import megengine.functional as F
import megengine.module as M
import megengine.optimizer as optim
from benchmarks.workloads import Work, workload
from benchmarks.workloads.networks_openmge import resnet, vit
from benchmarks.workloads.openmge import integers, normal
from megengine.amp import autocast
from megengine.autodiff import GradManager


def training_bf16(net: M.Module, batch: int, optimizer: optim.Optimizer) -> Work:
    """Forward in bfloat16, backward and a step of the optimizer."""
    x, labels = normal(batch, 3, 224, 224), integers(1000, batch)
    gm = GradManager().attach(net.parameters())

    def step() -> None:
        with gm:
            with autocast():
                loss = F.loss.cross_entropy(net(x), labels)
            gm.backward(loss)
        optimizer.step().clear_grad()

    return Work(step)


@workload
def resnet18_train_bf16() -> Work:
    net = resnet(18)
    return training_bf16(net, 16, optim.SGD(net.parameters(), lr=0.01, momentum=0.9))


@workload
def vit_train_bf16() -> Work:
    net = vit()
    return training_bf16(net, 8, optim.AdamW(net.parameters(), lr=1e-4))


@workload
def resnet50_infer_b16_bf16() -> Work:
    net = resnet(50)
    net.eval()
    x = normal(16, 3, 224, 224)
    return Work(autocast()(lambda: net(x)))
