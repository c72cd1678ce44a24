"""Images in folders, one folder for each class."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .meta_vision import VisionDataset
from .utils import is_img, read_image

__all__ = ["ImageFolder"]


class ImageFolder(VisionDataset):
    """Images in folders: ``root/cat/1.jpg``, ``root/cat/more/2.jpg``, ``root/dog/1.png``, ...

    An item is ``(image, label)``: uint8 of shape (height, width, 3) in the order blue, green, red;
    and the number of the class (int32) among the folders of ``root`` in alphabetical order.

    Args:
        root: the folder.
        check_valid_func: says whether a path is one of an image; the end of its name does without.
        class_name: gives the name of the class (str) in the place of its number.

    Attributes:
        class_dict: the numbers of the classes by their names.
        samples: the paths of the images with their labels.

    Raises:
        FileNotFoundError: there is no such folder.
        ImportError: OpenCV is not installed (when an image is read).
        ValueError: a file cannot be read as an image (when it is read).

    >>> animals = ImageFolder("/data/animals")  # doctest: +SKIP
    >>> image, label = animals[0]  # doctest: +SKIP
    """

    def __init__(
        self,
        root: str,
        check_valid_func: Callable[[str], bool] | None = None,
        class_name: bool = False,
    ) -> None:
        super().__init__(root, order=("image", "image_category"))
        self.check_valid = is_img if check_valid_func is None else check_valid_func
        self.class_name = class_name
        self.class_dict = self.collect_class()
        self.samples = self.collect_samples()

    def collect_class(self) -> dict[str, Any]:
        """The numbers of the classes by their names."""
        with os.scandir(self.root) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir())
        return {name: np.int32(number) for number, name in enumerate(names)}

    def collect_samples(self) -> list[tuple[str, Any]]:
        """The paths of the images with their labels, in alphabetical order."""
        return [
            (path, name if self.class_name else number)
            for name, number in self.class_dict.items()
            for path in _files(os.path.join(self.root, name))
            if self.check_valid(path)
        ]

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        path, label = self.samples[index]
        return read_image(path), label

    def __len__(self) -> int:
        return len(self.samples)


def _files(folder: str) -> Iterator[str]:
    """The files of a folder and those within it; links are followed, but not in circles."""
    above = {folder: {os.path.realpath(folder)}}
    for place, folders, files in os.walk(folder, followlinks=True):
        for name in sorted(files):
            yield os.path.join(place, name)
        folders.sort()
        passed = above.pop(place)
        for name in list(folders):
            inner = os.path.join(place, name)
            real = os.path.realpath(inner)
            if real in passed:
                folders.remove(name)
            else:
                above[inner] = passed | {real}
