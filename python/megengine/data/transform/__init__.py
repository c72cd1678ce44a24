"""What is done to items on their way to a batch."""

from __future__ import annotations

from .meta_transform import PseudoTransform, Transform
from .vision import *
