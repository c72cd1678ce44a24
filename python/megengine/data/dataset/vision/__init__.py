"""Datasets of images."""

from __future__ import annotations

from .meta_vision import VisionDataset
