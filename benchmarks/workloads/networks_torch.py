"""Known networks at full size, training and inference, through PyTorch."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.workloads import Work, torch_peer, workload
from benchmarks.workloads.torch_models import MobileNetV2, ResNet, ViT
from benchmarks.workloads.torch_peer import images, training, workload_of_images


def formatted(net: nn.Module) -> nn.Module:
    return net.to(memory_format=torch_peer.memory_format)


def train_images(net: nn.Module, batch: int, optimizer: torch.optim.Optimizer) -> Work:
    return training(net, images(batch, 3, 224, 224), torch.randint(0, 1000, (batch,)), optimizer)


def inference(net: nn.Module, batch: int) -> Work:
    net.eval()
    x = images(batch, 3, 224, 224)

    def step() -> None:
        with torch.inference_mode():
            net(x)

    return Work(step)


@workload_of_images
def resnet18_train() -> Work:
    net = formatted(ResNet(18))
    return train_images(net, 16, torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9))


@workload_of_images
def resnet50_train() -> Work:
    net = formatted(ResNet(50))
    return train_images(net, 8, torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9))


@workload_of_images
def resnet50_train_b32() -> Work:
    net = formatted(ResNet(50))
    return train_images(net, 32, torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9))


@workload
def vit_train() -> Work:
    net = ViT(384, 6, 6)
    return train_images(net, 8, torch.optim.AdamW(net.parameters(), lr=1e-4))


@workload_of_images
def resnet50_infer_b1() -> Work:
    return inference(formatted(ResNet(50)), 1)


@workload_of_images
def resnet50_infer_b16() -> Work:
    return inference(formatted(ResNet(50)), 16)


@workload_of_images
def mobilenet_v2_infer_b1() -> Work:
    return inference(formatted(MobileNetV2()), 1)


@workload
def vit_infer_b1() -> Work:
    return inference(ViT(384, 6, 6), 1)


@workload_of_images
def conv_bn_relu() -> Work:
    conv = nn.Conv2d(64, 64, 3, padding=1, bias=False)
    net = formatted(nn.Sequential(conv, nn.BatchNorm2d(64), nn.ReLU()))
    x = images(32, 64, 56, 56)

    def step() -> None:
        net(x).sum().backward()
        net.zero_grad()

    return Work(step)
