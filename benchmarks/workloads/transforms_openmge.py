"""Images on their way to a network: single transforms, and pipelines from the JPEG file on."""

from __future__ import annotations

from typing import Any

import megengine.data.transform as T
from benchmarks.workloads import Work, photos, repeat, workload


def transform_only(transform: T.Transform) -> Work:
    image = photos.photo()
    return repeat(lambda: transform.apply(image), 10)


def from_file(
    *transforms: T.Transform, order: tuple[str, ...] = ("image",), rest: Any = ()
) -> Work:
    file, pipeline = photos.jpeg(), T.Compose(transforms, order=order)
    return repeat(lambda: pipeline.apply((photos.decode(file), *rest)), 10)


def to_network() -> list[T.Transform]:
    return [T.Normalize(photos.MEAN, photos.STD), T.ToMode()]


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


@workload
def detection_images() -> Work:
    return from_file(
        T.ShortestEdgeResize((640, 672, 704, 736, 768, 800), 1333, "choice"),
        T.RandomHorizontalFlip(),
        T.ToMode(),
        order=("image", "boxes"),
        rest=(photos.boxes(),),
    )
