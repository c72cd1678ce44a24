"""CIFAR-10 and CIFAR-100: small photographs of ten and of a hundred things."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from ....serialization import load
from .meta_vision import ArraysOfFiles
from .utils import load_raw_data_from_url, untargz

__all__ = ["CIFAR10", "CIFAR100"]


class CIFAR10(ArraysOfFiles):
    """CIFAR-10: 50000 images to learn from, and 10000 to test, of ten classes.

    An item is ``(image, label)``: uint8 of shape (32, 32, 3) in the order blue, green, red, and an
    int32 from 0 to 9. The files are those of the python version, in ``root/cifar-10-batches-py``.
    They are pickles; they are read as data, and nothing in them can run.

    Args:
        root: the folder of the files; ``megengine/CIFAR10`` in the user's cache without.
        train: the images to learn from, or those to test with.
        download: fetches and unpacks the files if they are missing.
        timeout: how long to wait for the server, in seconds.

    Raises:
        ValueError: ``download`` is false and the files are missing; a file is damaged.
        FileNotFoundError: some of the files are missing.
        megengine.utils.http_download.HTTPDownloadError: the files cannot be fetched.

    >>> photos = CIFAR10("/data/CIFAR10", train=False)  # doctest: +SKIP
    >>> image, label = photos[0]  # doctest: +SKIP
    """

    url_path = "http://www.cs.utoronto.ca/~kriz/"
    raw_file_name = "cifar-10-python.tar.gz"
    raw_file_md5 = "c58f30108f718f92721af3b95e74349a"
    raw_file_dir = "cifar-10-batches-py"
    train_batch: ClassVar[list[str]] = [f"data_batch_{i}" for i in range(1, 6)]
    test_batch: ClassVar[list[str]] = ["test_batch"]
    meta_info: ClassVar[dict[str, str]] = {"name": "batches.meta"}

    _labels: ClassVar[tuple[tuple[str, int], ...]] = (("labels", 10),)

    def __init__(
        self,
        root: str | None = None,
        train: bool = True,
        download: bool = True,
        timeout: int = 500,
    ) -> None:
        super().__init__(root)
        self.timeout = timeout
        self.train = train
        self.target_file = os.path.join(self.root, self.raw_file_dir)
        if not os.path.exists(self.target_file):
            if not download:
                raise ValueError(
                    f"dir does not contain target file {self.target_file}, please set download=True"
                )
            self.download()
        self.process()

    @property
    def meta(self) -> Any:
        """What the file about the classes holds, with bytes for text.

        ``meta[b"label_names"]`` are the names of the classes of CIFAR-10.
        """
        return _as_bytes(self._load(self.meta_info["name"]))

    def download(self) -> None:
        """Fetches the archive if it is not there, and unpacks it."""
        url = self.url_path + self.raw_file_name
        load_raw_data_from_url(url, self.raw_file_name, self.raw_file_md5, self.root, self.timeout)
        self.untar(os.path.join(self.root, self.raw_file_name), self.root)

    def untar(self, file_path: str, dirs: str) -> None:
        """Unpacks an archive into a folder."""
        untargz(file_path, dirs)

    def bytes2array(self, filenames: Iterable[str]) -> tuple[Any, ...]:
        """Reads some of the files.

        Args:
            filenames: their names in the folder.

        Returns:
            a list of images, uint8 (32, 32, 3), and an int32 array for each kind of labels.

        Raises:
            FileNotFoundError: a file is missing.
            ValueError: a file is damaged.
        """
        images: list[np.ndarray] = []
        labels: list[list[int]] = [[] for _ in self._labels]
        for name in filenames:
            batch = self._load(name)
            data = batch.get("data") if isinstance(batch, dict) else None
            if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2:
                raise ValueError(f"{self._path(name)} is damaged: expected images under 'data'")
            if data.shape[1] != 3 * 32 * 32:
                raise ValueError(f"{self._path(name)} is damaged: its images have another size")
            # Planes of red, green and blue become pixels of blue, green and red, as in OpenCV.
            pixels = data.reshape(-1, 3, 32, 32)[:, ::-1].transpose(0, 2, 3, 1)
            images.extend(np.ascontiguousarray(pixels))
            for kind, (key, classes) in zip(labels, self._labels, strict=True):
                kind.extend(self._checked_labels(name, batch.get(key), len(data), classes, key))
        return (images, *(np.array(kind, np.int32) for kind in labels))

    def process(self) -> None:
        """Reads the files of one of the two parts."""
        self.arrays = self.bytes2array(self.train_batch if self.train else self.test_batch)

    def _path(self, name: str) -> str:
        return os.path.join(self.target_file, name)

    def _load(self, name: str) -> Any:
        path = self._path(name)
        if not os.path.exists(path):
            raise FileNotFoundError(f"there is no {path}: remove its folder to unpack it again")
        try:
            content = load(path)
        except (pickle.UnpicklingError, EOFError) as error:
            raise ValueError(f"{path} is damaged: {error}") from error
        # Python 2 wrote the text as text, and others may have written it as bytes.
        if isinstance(content, dict):
            return {k.decode() if isinstance(k, bytes) else k: v for k, v in content.items()}
        return content

    def _checked_labels(
        self, name: str, labels: Any, count: int, classes: int, key: str
    ) -> list[int]:
        if not isinstance(labels, list) or len(labels) != count:
            raise ValueError(f"{self._path(name)} is damaged: expected {count} {key}")
        for label in labels:
            if not isinstance(label, int) or not 0 <= label < classes:
                raise ValueError(f"{self._path(name)} is damaged: {label!r} among the {key}")
        return labels


class CIFAR100(CIFAR10):
    """CIFAR-100: 50000 images to learn from, and 10000 to test, of a hundred classes in 20 groups.

    An item is ``(image, class, group)``, with numbers from 0 to 99 and from 0 to 19 (int32). All
    else is as in :class:`CIFAR10`.

    >>> photos = CIFAR100("/data/CIFAR100")  # doctest: +SKIP
    >>> image, fine, coarse = photos[0]  # doctest: +SKIP
    """

    raw_file_name = "cifar-100-python.tar.gz"
    raw_file_md5 = "eb9058c3a382ffc7106e4002c42a8d85"
    raw_file_dir = "cifar-100-python"
    train_batch: ClassVar[list[str]] = ["train"]
    test_batch: ClassVar[list[str]] = ["test"]
    meta_info: ClassVar[dict[str, str]] = {"name": "meta"}

    _labels: ClassVar[tuple[tuple[str, int], ...]] = (("fine_labels", 100), ("coarse_labels", 20))


def _as_bytes(value: Any) -> Any:
    """The same with bytes in the place of text, as programs know it from Python 2."""
    if isinstance(value, str):
        return value.encode("latin1")
    if isinstance(value, dict):
        return {_as_bytes(k): _as_bytes(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_as_bytes(item) for item in value]
    return value
