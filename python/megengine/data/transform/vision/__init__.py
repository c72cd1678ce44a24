"""What is done to images and to what belongs to them."""

from __future__ import annotations

from . import functional, transform
from .transform import *
