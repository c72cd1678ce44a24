"""The transforms of images, under the module name that programs import them from."""

from __future__ import annotations

from .base import VisionTransform
from .color import (
    BrightnessTransform,
    ColorJitter,
    ContrastTransform,
    HueTransform,
    Lighting,
    SaturationTransform,
)
from .compose import Compose, TorchTransformCompose
from .crop import CenterCrop, RandomCrop, RandomResizedCrop
from .flip import RandomHorizontalFlip, RandomVerticalFlip
from .pad import Pad
from .resize import RandomResize, Resize, ShortestEdgeResize
from .value import GaussianNoise, Normalize, ToMode

__all__ = [
    "BrightnessTransform",
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "ContrastTransform",
    "GaussianNoise",
    "HueTransform",
    "Lighting",
    "Normalize",
    "Pad",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResize",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
    "SaturationTransform",
    "ShortestEdgeResize",
    "ToMode",
    "TorchTransformCompose",
    "VisionTransform",
]
