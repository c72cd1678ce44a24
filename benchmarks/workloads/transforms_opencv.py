"""The same written out, with OpenCV and NumPy."""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np

from benchmarks.workloads import Work, photos, repeat, workload
from benchmarks.workloads.photos import Image

MEAN, STD = np.array(photos.MEAN, np.float32), np.array(photos.STD, np.float32)


def on_photo(f: Any) -> Work:
    image = photos.photo()
    return repeat(lambda: f(image), 10)


def from_file(f: Any) -> Work:
    file = photos.jpeg()
    return repeat(lambda: f(photos.decode(file)), 10)


def resize(image: Image) -> Image:
    return cv2.resize(image, (341, 256))


def random_resized_crop(image: Image) -> Image:
    height, width = image.shape[:2]
    for _ in range(10):
        area = np.random.uniform(0.08, 1) * height * width
        ratio = math.exp(np.random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if w <= width and h <= height:
            x, y = np.random.randint(0, width - w + 1), np.random.randint(0, height - h + 1)
            return cv2.resize(image[y : y + h, x : x + w], (224, 224))
    return cv2.resize(image, (224, 224))


def normalize(image: Image) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(((image - MEAN) / STD).transpose(2, 0, 1))


def flip(image: Image) -> Image:
    return cv2.flip(image, 1) if np.random.random() < 0.5 else image


def jitter(image: Image) -> Image:
    x = image.astype(np.float32)
    for kind in np.random.permutation(3):
        share = np.random.uniform(0.6, 1.4)
        if kind == 0:
            x = x * share
        else:
            grey = cv2.cvtColor(x, cv2.COLOR_BGR2GRAY)
            other = grey.mean() if kind == 1 else grey[:, :, None]
            x = x * share + other * (1 - share)
        x = np.clip(x, 0, 255)
    return x.astype(np.uint8)


def pad_crop(image: Image) -> Image:
    padded = cv2.copyMakeBorder(image, 4, 4, 4, 4, cv2.BORDER_CONSTANT, value=(0, 0, 0))
    y = np.random.randint(0, padded.shape[0] - 223)
    x = np.random.randint(0, padded.shape[1] - 223)
    return padded[y : y + 224, x : x + 224]


@workload
def jpeg_decode() -> Work:
    return from_file(lambda image: image)


@workload
def image_resize() -> Work:
    return on_photo(resize)


@workload
def image_random_resized_crop() -> Work:
    return on_photo(random_resized_crop)


@workload
def image_flip() -> Work:
    return on_photo(lambda image: cv2.flip(image, 1))


@workload
def image_normalize() -> Work:
    return on_photo(normalize)


@workload
def image_jitter() -> Work:
    return on_photo(jitter)


@workload
def image_pad_crop() -> Work:
    return on_photo(pad_crop)


@workload
def imagenet_train_images() -> Work:
    return from_file(lambda image: normalize(flip(random_resized_crop(image))))


@workload
def imagenet_train_jitter_images() -> Work:
    return from_file(lambda image: normalize(jitter(flip(random_resized_crop(image)))))


@workload
def imagenet_eval_images() -> Work:
    return from_file(lambda image: normalize(resize(image)[16:240, 58:282]))


@workload
def detection_images() -> Work:
    boxes = photos.boxes()

    def prepare(image: Image) -> Any:
        scale = np.random.choice((640, 672, 704, 736, 768, 800)) / photos.HEIGHT
        image = cv2.resize(image, None, fx=scale, fy=scale)
        moved = boxes * scale
        if np.random.random() < 0.5:
            image = cv2.flip(image, 1)
            moved[:, [0, 2]] = image.shape[1] - moved[:, [2, 0]]
        return np.ascontiguousarray(image.transpose(2, 0, 1)), moved

    return from_file(prepare)
