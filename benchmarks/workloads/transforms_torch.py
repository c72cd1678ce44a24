"""The same through torchvision's transforms v2, on tensors.

Pixels are interpolated without antialias, as OpenCV does it.
"""

from __future__ import annotations

from typing import Any

import torch
from torchvision import tv_tensors
from torchvision.transforms import v2

from benchmarks.workloads import Work, photos, repeat, workload

torch.set_num_threads(1)


def decode(file: photos.Image) -> torch.Tensor:
    """(3, height, width), red, green, blue; channels-last in memory."""
    return torch.from_numpy(photos.decode(file, rgb=True)).permute(2, 0, 1)


def transform_only(transform: Any) -> Work:
    image = torch.from_numpy(photos.photo()).permute(2, 0, 1).contiguous()
    return repeat(lambda: transform(image), 10)


def from_file(*transforms: Any) -> Work:
    file, pipeline = photos.jpeg(), v2.Compose(transforms)
    return repeat(lambda: pipeline(decode(file)), 10)


def to_network() -> list[Any]:
    mean, std = ([x / 255 for x in numbers[::-1]] for numbers in (photos.MEAN, photos.STD))
    return [v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)]


@workload
def jpeg_decode() -> Work:
    file = photos.jpeg()
    return repeat(lambda: decode(file), 10)


@workload
def image_resize() -> Work:
    return transform_only(v2.Resize(256, antialias=False))


@workload
def image_random_resized_crop() -> Work:
    return transform_only(v2.RandomResizedCrop(224, antialias=False))


@workload
def image_flip() -> Work:
    return transform_only(v2.RandomHorizontalFlip(1))


@workload
def image_normalize() -> Work:
    return transform_only(v2.Compose(to_network()))


@workload
def image_jitter() -> Work:
    return transform_only(v2.ColorJitter(0.4, 0.4, 0.4))


@workload
def image_pad_crop() -> Work:
    return transform_only(v2.RandomCrop(224, 4))


@workload
def imagenet_train_images() -> Work:
    crop = v2.RandomResizedCrop(224, antialias=False)
    return from_file(crop, v2.RandomHorizontalFlip(), *to_network())


@workload
def imagenet_train_jitter_images() -> Work:
    crop, jitter = v2.RandomResizedCrop(224, antialias=False), v2.ColorJitter(0.4, 0.4, 0.4)
    return from_file(crop, v2.RandomHorizontalFlip(), jitter, *to_network())


@workload
def imagenet_eval_images() -> Work:
    return from_file(v2.Resize(256, antialias=False), v2.CenterCrop(224), *to_network())


@workload
def detection_images() -> Work:
    file = photos.jpeg()
    size = (photos.HEIGHT, photos.WIDTH)
    boxes = tv_tensors.BoundingBoxes(
        torch.from_numpy(photos.boxes()), format="XYXY", canvas_size=size
    )
    resize = v2.RandomShortestSize((640, 672, 704, 736, 768, 800), 1333, antialias=False)
    pipeline = v2.Compose([resize, v2.RandomHorizontalFlip()])

    def prepare() -> Any:
        image, moved = pipeline(tv_tensors.Image(decode(file)), boxes)
        return image.contiguous(), moved

    return repeat(prepare, 10)
