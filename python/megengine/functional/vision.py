"""Functions of images."""

from __future__ import annotations

from .detection import correlation, nms, roi_align, roi_pooling

__all__ = [
    "correlation",
    "nms",
    "roi_align",
    "roi_pooling",
]
