"""The same through torchvision's transforms, on images of pillow, interpolated with antialias."""

from __future__ import annotations

from typing import Any

import torch
from PIL import Image
from torchvision import transforms as T

from benchmarks.workloads import Work, photos, repeat, workload

torch.set_num_threads(1)


def transform_only(transform: Any) -> Work:
    image = Image.fromarray(photos.photo())
    return repeat(lambda: transform(image), 10)


def from_file(*transforms: Any) -> Work:
    file, pipeline = photos.jpeg(), T.Compose(transforms)
    return repeat(lambda: pipeline(Image.fromarray(photos.decode(file, rgb=True))), 10)


def to_network() -> list[Any]:
    mean, std = ([x / 255 for x in numbers[::-1]] for numbers in (photos.MEAN, photos.STD))
    return [T.ToTensor(), T.Normalize(mean, std)]


@workload
def jpeg_decode() -> Work:
    return from_file()


@workload
def image_resize() -> Work:
    return transform_only(T.Resize(256))


@workload
def image_random_resized_crop() -> Work:
    return transform_only(T.RandomResizedCrop(224))


@workload
def image_flip() -> Work:
    return transform_only(T.RandomHorizontalFlip(1))


@workload
def image_normalize() -> Work:
    return transform_only(T.Compose(to_network()))


@workload
def image_jitter() -> Work:
    return transform_only(T.ColorJitter(0.4, 0.4, 0.4))


@workload
def image_pad_crop() -> Work:
    return transform_only(T.RandomCrop(224, 4))


@workload
def imagenet_train_images() -> Work:
    return from_file(T.RandomResizedCrop(224), T.RandomHorizontalFlip(), *to_network())


@workload
def imagenet_train_jitter_images() -> Work:
    jitter = T.ColorJitter(0.4, 0.4, 0.4)
    return from_file(T.RandomResizedCrop(224), T.RandomHorizontalFlip(), jitter, *to_network())


@workload
def imagenet_eval_images() -> Work:
    return from_file(T.Resize(256), T.CenterCrop(224), *to_network())
