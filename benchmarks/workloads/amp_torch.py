"""Known networks in bfloat16, training and inference, through PyTorch's autocast."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.workloads import Work, workload
from benchmarks.workloads.networks_torch import formatted
from benchmarks.workloads.torch_models import ResNet, ViT
from benchmarks.workloads.torch_peer import images, workload_of_images


def training_bf16(net: nn.Module, batch: int, optimizer: torch.optim.Optimizer) -> Work:
    """Forward in bfloat16, backward and a step of the optimizer."""
    x, labels = images(batch, 3, 224, 224), torch.randint(0, 1000, (batch,))

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(net(x), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return Work(step)


@workload_of_images
def resnet18_train_bf16() -> Work:
    net = formatted(ResNet(18))
    return training_bf16(net, 16, torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9))


@workload
def vit_train_bf16() -> Work:
    net = ViT(384, 6, 6)
    return training_bf16(net, 8, torch.optim.AdamW(net.parameters(), lr=1e-4))


@workload_of_images
def resnet50_infer_b16_bf16() -> Work:
    net = formatted(ResNet(50)).eval()
    x = images(16, 3, 224, 224)

    def step() -> None:
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
            net(x)

    return Work(step)
