"""Known networks at full size, training and inference, through OpenMGE."""

from __future__ import annotations

import megengine.functional as F
import megengine.module as M
import megengine.optimizer as optim
from benchmarks.workloads import Work, workload
from benchmarks.workloads.openmge import integers, normal, training
from examples.models.mobilenet_v2 import STAGES, MobileNetV2
from examples.models.resnet import ResNet
from examples.models.vit import ViT
from megengine.autodiff import GradManager


def resnet(depth: int) -> M.Module:
    return ResNet(depth, num_classes=1000, width=64, small_images=False)


def vit() -> M.Module:
    return ViT(224, 16, 1000, width=384, depth=6, num_heads=6)


def train_images(net: M.Module, batch: int, optimizer: optim.Optimizer) -> Work:
    return training(net, normal(batch, 3, 224, 224), integers(1000, batch), optimizer)


def inference(net: M.Module, batch: int) -> Work:
    net.eval()
    x = normal(batch, 3, 224, 224)
    return Work(lambda: net(x))


@workload
def resnet18_train() -> Work:
    net = resnet(18)
    return train_images(net, 16, optim.SGD(net.parameters(), lr=0.01, momentum=0.9))


@workload
def resnet50_train() -> Work:
    net = resnet(50)
    return train_images(net, 8, optim.SGD(net.parameters(), lr=0.01, momentum=0.9))


@workload
def resnet50_train_b32() -> Work:
    net = resnet(50)
    return train_images(net, 32, optim.SGD(net.parameters(), lr=0.01, momentum=0.9))


@workload
def vit_train() -> Work:
    net = vit()
    return train_images(net, 8, optim.AdamW(net.parameters(), lr=1e-4))


@workload
def resnet50_infer_b1() -> Work:
    return inference(resnet(50), 1)


@workload
def resnet50_infer_b16() -> Work:
    return inference(resnet(50), 16)


@workload
def mobilenet_v2_infer_b1() -> Work:
    return inference(MobileNetV2(1000, 1.0, STAGES, 1280), 1)


@workload
def vit_infer_b1() -> Work:
    return inference(vit(), 1)


@workload
def conv_bn_relu() -> Work:
    net = M.Sequential(M.Conv2d(64, 64, 3, padding=1, bias=False), M.BatchNorm2d(64), M.ReLU())
    x = normal(32, 64, 56, 56)
    gm = GradManager().attach(net.parameters())

    def step() -> None:
        with gm:
            gm.backward(F.sum(net(x)))
        for p in net.parameters():
            p.grad = None

    return Work(step)
