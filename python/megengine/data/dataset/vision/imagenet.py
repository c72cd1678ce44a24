"""ImageNet: the images of ILSVRC 2012, from its archives or from folders."""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
from collections.abc import Callable
from typing import Any, ClassVar

from ....utils.archive import extract
from .folder import ImageFolder
from .utils import calculate_md5

__all__ = ["ImageNet"]

_MAX_BYTES = 400 << 30  # the largest archive has 138 GB
_MAX_FILES = 2_000_000


class ImageNet(ImageFolder):
    """ImageNet (ILSVRC 2012): 1281167 images to learn from, 50000 to validate, of 1000 classes.

    The images are in ``root/train/n01440764/NAME.JPEG`` and ``root/val/n01440764/NAME.JPEG``.
    Where a folder is missing it is made from the archives, which the makers of ImageNet give to
    those who ask: ``ILSVRC2012_img_train.tar``, ``ILSVRC2012_img_val.tar`` and
    ``ILSVRC2012_devkit_t12.tar.gz``, in ``root``. It is made aside, so that it is whole when it is
    there.

    An item is ``(image, label)``, as in :class:`ImageFolder`.

    Args:
        root: the folder; ``megengine/ImageNet`` in the user's cache without.
        train: the images to learn from, or those to validate with.
        **kwargs: ``check_valid_func`` and ``class_name`` of :class:`ImageFolder`.

    Raises:
        FileNotFoundError: there is no such folder, or neither the images nor their archive.
        ValueError: an archive is damaged, or another file.
        ImportError: OpenCV is not installed (when an image is read), or SciPy (for ``meta``).

    >>> photos = ImageNet("/data/imagenet", train=False)  # doctest: +SKIP
    >>> image, label = photos[0]  # doctest: +SKIP
    """

    raw_file_meta: ClassVar[dict[str, tuple[str, str]]] = {
        "train": ("ILSVRC2012_img_train.tar", "1d675b47d978889d74fa0da5fadfb00e"),
        "val": ("ILSVRC2012_img_val.tar", "29b22e2961454d5413ddabcf34fc5622"),
        "devkit": ("ILSVRC2012_devkit_t12.tar.gz", "fa75699e90414af021442c21a62c3abf"),
    }
    default_train_dir = "train"
    default_val_dir = "val"
    default_devkit_dir = "ILSVRC2012_devkit_t12"

    def __init__(self, root: str | None = None, train: bool = True, **kwargs: Any) -> None:
        self._home = os.path.expanduser(root or self._default_root)
        if not os.path.isdir(self._home):
            raise FileNotFoundError(f"dir {self._home} does not exist")
        self.train = train
        self.devkit_dir = os.path.join(self._home, self.default_devkit_dir)
        self.target_folder = os.path.join(
            self._home, self.default_train_dir if train else self.default_val_dir
        )
        if not os.path.isdir(self.target_folder):
            if train:
                self._prepare_train()
            else:
                self._prepare_val()
        super().__init__(self.target_folder, **kwargs)

    @property
    def valid_ground_truth(self) -> list[int]:
        """The class of each image to validate with, by the numbers of the development kit."""
        self._prepare_devkit()
        path = os.path.join(self.devkit_dir, "data", "ILSVRC2012_validation_ground_truth.txt")
        with open(path) as file:
            try:
                return [int(line) for line in file]
            except ValueError as error:
                raise ValueError(f"{path} is damaged: {error}") from error

    @property
    def meta(self) -> tuple[dict[int, str], dict[str, tuple[str, ...]]]:
        """The names of the classes: from numbers to WordNet's, and from those to words.

        Both are of the development kit. ``meta[1]["n01440764"]`` is ``("tench", "Tinca tinca")``.
        """
        self._prepare_devkit()
        numbers: dict[int, str] = {}
        words: dict[str, tuple[str, ...]] = {}
        for synset in _synsets(os.path.join(self.devkit_dir, "data", "meta.mat")):
            if synset["num_children"] == 0:  # the others are groups of classes
                numbers[int(synset["ILSVRC2012_ID"])] = str(synset["WNID"])
                words[str(synset["WNID"])] = tuple(str(synset["words"]).split(", "))
        return numbers, words

    def check_raw_file(self) -> bool:
        """Whether the three archives are there."""
        return all(os.path.isfile(self._archive(part)) for part in self.raw_file_meta)

    def _archive(self, part: str) -> str:
        return os.path.join(self._home, self.raw_file_meta[part][0])

    def _extract(self, part: str, folder: str) -> None:
        path = self._archive(part)
        if not os.path.isfile(path):
            raise FileNotFoundError(
                f"there is no {path}, and no {self.target_folder}: ImageNet cannot be downloaded "
                "without an account; get the archives from image-net.org"
            )
        if calculate_md5(path) != self.raw_file_meta[part][1]:
            raise ValueError(f"checksum mismatch, {path} may be damaged")
        extract(path, folder, max_bytes=_MAX_BYTES, max_files=_MAX_FILES)

    def _make(self, target: str, fill: Callable[[str], None]) -> None:
        """Has a folder filled aside, and then takes it where it belongs."""
        with tempfile.TemporaryDirectory(prefix=".preparing-", dir=self._home) as aside:
            folder = os.path.join(aside, "folder")
            os.mkdir(folder)
            fill(folder)
            os.rename(folder, target)

    def _prepare_train(self) -> None:
        def fill(folder: str) -> None:
            self._extract("train", folder)
            for name in sorted(os.listdir(folder)):  # an archive for each class
                path = os.path.join(folder, name)
                extract(path, path.removesuffix(".tar"))
                os.remove(path)

        self._make(self.target_folder, fill)

    def _prepare_val(self) -> None:
        def fill(folder: str) -> None:
            self._extract("val", folder)
            self._organize_val_data(folder)

        self._make(self.target_folder, fill)

    def _organize_val_data(self, folder: str) -> None:
        """Moves the images, which are numbered, into folders of their classes."""
        numbers, _ = self.meta
        names = sorted(os.listdir(folder))
        classes = self.valid_ground_truth
        if len(names) != len(classes):
            raise ValueError(
                f"{self._archive('val')} has {len(names)} images, but the development kit has "
                f"{len(classes)} labels"
            )
        for name, number in zip(names, classes, strict=True):
            place = os.path.join(folder, numbers[number])
            os.makedirs(place, exist_ok=True)
            shutil.move(os.path.join(folder, name), place)

    def _prepare_devkit(self) -> None:
        if not os.path.isdir(self.devkit_dir):
            self._extract("devkit", self._home)


def _synsets(path: str) -> list[Any]:
    """The classes and groups in the development kit's file, which is one of MATLAB."""
    try:
        scipy_io: Any = importlib.import_module("scipy.io")  # which has no types
    except ImportError as error:
        raise ImportError("reading ImageNet's meta.mat needs SciPy: pip install scipy") from error
    return list(scipy_io.loadmat(path, squeeze_me=True)["synsets"])
