"""What the datasets of images share: reading images, finding, fetching and unpacking files."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

import numpy as np

from ....logger import get_logger
from ....utils.archive import extract

__all__ = [
    "IMG_EXT",
    "calculate_md5",
    "import_cv2",
    "is_img",
    "load_raw_data_from_url",
    "read_image",
    "untar",
    "untargz",
]

logger = get_logger(__name__)

IMG_EXT = (".jpg", ".png", ".jpeg", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")

# The files' MD5 are part of the API. MD5 tells damaged files; these tell altered ones.
_SHA256 = {
    "f68b3c2dcbeaaa9fbdd348bbdeb94873": "440fcabf73cc546fa21475e81ea37026"
    "5605f56be210a4024d2ca8f203523609",
    "d53e105ee54ea40749a09fcbcd1e9432": "3552534a0a558bbed6aed32b30c495cc"
    "a23d567ec52cac8be1a0730e8010255c",
    "9fb629c4189551a2d022fa330f9573f3": "8d422c7b0a1c1c79245a5bcf07fe86e3"
    "3eeafee792b84584aec276f5a2dbc4e6",
    "ec29112dd5afa0611ce80d1b7f02629c": "f7ae60f92e00ec6debd23a6088c31dbd"
    "2371eca3ffa0defaefb259924204aec6",
    "c58f30108f718f92721af3b95e74349a": "6d958be074577803d12ecdefd02955f3"
    "9262c83c16fe9348329d7fe0b5c001ce",
    "eb9058c3a382ffc7106e4002c42a8d85": "85cd44d02ba6437773c5bbd22e183051"
    "d648de2e7d6b014e1ef29b855ba677a7",
}


def _default_dataset_root() -> str:
    """Where datasets are kept unless a program says otherwise."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    return os.path.expanduser(os.path.join(cache, "megengine"))


def import_cv2() -> ModuleType:
    """OpenCV, which reads images.

    Raises:
        ImportError: it is not installed.
    """
    try:
        import cv2
    except ImportError as error:
        raise ImportError(
            "reading images needs OpenCV: pip install 'openmge[vision]', or opencv-python-headless"
        ) from error
    return cv2


def read_image(path: str, *, color: bool = True) -> np.ndarray:
    """An image in a file: uint8 (height, width, 3) in the order blue, green, red.

    Args:
        path: the file.
        color: gives one channel, (height, width), where false.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it cannot be read as an image.
    """
    cv2: Any = import_cv2()
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no image {path}")
    image = cv2.imread(path, cv2.IMREAD_COLOR if color else cv2.IMREAD_GRAYSCALE)
    if image is None:
        raise ValueError(f"{path} cannot be read as an image: it is damaged, or of another kind")
    return np.asarray(image)


def is_img(filename: str) -> bool:
    """Whether a file's name is one of an image.

    >>> is_img("cat.JPG"), is_img("labels.txt")
    (True, False)
    """
    return filename.lower().endswith(IMG_EXT)


def calculate_md5(filename: str | os.PathLike[str]) -> str:
    """The MD5 of a file, in hexadecimal."""
    from ....utils.http_download import file_digest

    return file_digest(filename, "md5")


def load_raw_data_from_url(
    url: str,
    filename: str,
    target_md5: str,
    raw_data_dir: str,
    timeout: float = 30,
) -> None:
    """Downloads a file of a dataset, unless it is there.

    Args:
        url: its address.
        filename: its name in the folder.
        target_md5: the MD5 that it must have.
        raw_data_dir: the folder.
        timeout: how long to wait for the server, in seconds.

    Raises:
        RuntimeError: a file of this name is there with another MD5; it is left as it is.
        megengine.utils.http_download.HTTPDownloadError: it cannot be downloaded.
    """
    from ....utils.http_download import download_from_url  # the network's modules take time

    path = os.path.join(raw_data_dir, filename)
    if os.path.exists(path):
        found = calculate_md5(path)
        if found != target_md5:
            raise RuntimeError(
                f"{path} exists but fail to match md5: it has {found}, expected {target_md5}. "
                "Remove it to have it downloaded again, or read it as it is with download=False"
            )
        return
    logger.debug("%s not found in %s, downloading from %s", filename, raw_data_dir, url)
    download_from_url(url, path, md5=target_md5, sha256=_SHA256.get(target_md5), timeout=timeout)


def untar(path: str, to: str | None = None, remove: bool = False) -> None:
    """Unpacks a tar file; see :func:`megengine.utils.archive.extract` for what it refuses.

    Args:
        path: the file.
        to: where to; the file's own folder without.
        remove: whether to remove the file then.
    """
    extract(path, os.path.dirname(os.path.abspath(path)) if to is None else to)
    if remove:
        os.remove(path)


def untargz(path: str, to: str | None = None, remove: bool = False) -> None:
    """Unpacks a tar file that gzip has compressed, as :func:`untar` does."""
    untar(path, to, remove)
