"""MNIST: handwritten digits."""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from typing import ClassVar

import numpy as np

from .meta_vision import ArraysOfFiles
from .utils import load_raw_data_from_url

__all__ = ["MNIST", "parse_idx1", "parse_idx3"]

_IMAGES, _LABELS = 2051, 2049  # the files begin with these numbers


class MNIST(ArraysOfFiles):
    """The MNIST database of handwritten digits: 60000 images to learn from, and 10000 to test.

    An item is ``(image, label)``: uint8 of shape (28, 28, 1), and an int32 from 0 to 9. The files
    are those of the database, ``train-images-idx3-ubyte.gz`` and so on, in ``root`` itself.

    Args:
        root: the folder of the files; ``megengine/MNIST`` in the user's cache without.
        train: the images to learn from, or those to test with.
        download: fetches files that are missing.

    Raises:
        ValueError: ``download`` is false and files are missing; a file is damaged.
        megengine.utils.http_download.HTTPDownloadError: a file cannot be fetched.

    >>> digits = MNIST("/data/MNIST")  # doctest: +SKIP
    >>> image, label = digits[0]  # doctest: +SKIP
    """

    url_path = "https://ossci-datasets.s3.amazonaws.com/mnist/"
    raw_file_name: ClassVar[list[str]] = [
        "train-images-idx3-ubyte.gz",
        "train-labels-idx1-ubyte.gz",
        "t10k-images-idx3-ubyte.gz",
        "t10k-labels-idx1-ubyte.gz",
    ]
    raw_file_md5: ClassVar[list[str]] = [
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ]

    def __init__(self, root: str | None = None, train: bool = True, download: bool = True) -> None:
        super().__init__(root)
        self._meta_data: dict[str, dict[str, int]] = {}
        if download:
            self.download()
        elif not os.path.exists(self.root):
            raise ValueError(f"dir {self.root} does not exist")
        elif not self._check_raw_files():
            raise ValueError(
                "root does not contain valid raw files, please set download=True: expected "
                f"{', '.join(self.raw_file_name)} in {self.root}"
            )
        self.process(train)

    @property
    def meta(self) -> dict[str, dict[str, int]]:
        """The numbers at the top of the files: of images and labels, and their height and width."""
        return self._meta_data

    def _check_raw_files(self) -> bool:
        return all(os.path.exists(os.path.join(self.root, name)) for name in self.raw_file_name)

    def download(self) -> None:
        """Fetches the files that are not there."""
        for name, md5 in zip(self.raw_file_name, self.raw_file_md5, strict=True):
            load_raw_data_from_url(self.url_path + name, name, md5, self.root)

    def process(self, train: bool) -> None:
        """Reads the files of one of the two parts."""
        images, labels = self.raw_file_name[:2] if train else self.raw_file_name[2:]
        image_meta, image_list = parse_idx3(os.path.join(self.root, images))
        label_meta, label_array = parse_idx1(os.path.join(self.root, labels))
        if image_meta["imgs"] != label_meta["imgs"]:
            raise ValueError(
                f"{self.root}: {images} has {image_meta['imgs']} images, but {labels} has "
                f"{label_meta['imgs']} labels"
            )
        self._meta_data = {"images": image_meta, "labels": label_meta}
        self.arrays = (image_list, label_array.astype(np.int32))


def _read_idx(path: str, magic: int, dimensions: int) -> tuple[list[int], np.ndarray]:
    """The numbers at the top of a file of the kind IDX, and the bytes behind them."""
    try:
        with gzip.open(path) as file:
            data = file.read()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    size = 4 + 4 * dimensions
    header = list(struct.unpack(f">{1 + dimensions}I", data[:size])) if len(data) >= size else []
    if header[:1] != [magic]:
        raise ValueError(
            f"{path} is damaged, or another file: expected {magic} at its top, got {header[:1]}"
        )
    count = int(np.prod(header[1:], dtype=object))
    if len(data) - size != count:
        raise ValueError(f"{path} is damaged: expected {count + size} bytes, got {len(data)}")
    return header, np.frombuffer(data, np.uint8, offset=size).copy()


def parse_idx3(idx3_file: str) -> tuple[dict[str, int], list[np.ndarray]]:
    """Reads a compressed file of images of the kind IDX.

    Args:
        idx3_file: the file.

    Returns:
        its numbers (magic, imgs, height, width), and the images: uint8 (height, width, 1).

    Raises:
        ValueError: the file is damaged, or of another kind.
    """
    (magic, count, height, width), data = _read_idx(idx3_file, _IMAGES, 3)
    meta = {"magic": magic, "imgs": count, "height": height, "width": width}
    return meta, list(data.reshape(count, height, width, 1))


def parse_idx1(idx1_file: str) -> tuple[dict[str, int], np.ndarray]:
    """Reads a compressed file of labels of the kind IDX.

    Args:
        idx1_file: the file.

    Returns:
        its numbers (magic, imgs), and the labels: int64 (imgs,).

    Raises:
        ValueError: the file is damaged, or of another kind.
    """
    (magic, count), data = _read_idx(idx1_file, _LABELS, 1)
    return {"magic": magic, "imgs": count}, data.astype(np.int64)
