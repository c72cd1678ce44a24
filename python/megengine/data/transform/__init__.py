"""What is done to items on their way to a batch."""

from __future__ import annotations

from . import vision
from .meta_transform import PseudoTransform, Transform
from .vision import functional, transform
from .vision.transform import *
