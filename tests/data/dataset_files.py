"""Small files in the formats of the public datasets."""

from __future__ import annotations

import gzip
import io
import json
import pathlib
import pickle
import struct
import tarfile
import zlib
from typing import Any

import numpy as np

Folder = pathlib.Path


def write(path: Folder, data: bytes | str) -> Folder:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def png(pixels: Any) -> bytes:
    """An image file: of grey levels (height, width), or of red, green, blue (height, width, 3)."""
    pixels = np.asarray(pixels, np.uint8)
    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 0 if pixels.ndim == 2 else 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def plain(red: int, green: int, blue: int, height: int = 4, width: int = 5) -> bytes:
    """An image file of one colour."""
    return png(np.broadcast_to([red, green, blue], (height, width, 3)))


def idx(array: Any) -> bytes:
    array = np.asarray(array, np.uint8)
    head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    return head + array.tobytes()


def mnist(root: Folder) -> None:
    """Five images to learn from, three to test."""
    for seed, (name, count) in enumerate((("train", 5), ("t10k", 3))):
        images = (np.arange(count * 784) * 7 + seed).reshape(count, 28, 28) % 256
        write(root / f"{name}-images-idx3-ubyte.gz", gzip.compress(idx(images)))
        write(root / f"{name}-labels-idx1-ubyte.gz", gzip.compress(idx(np.arange(count))))


class Python2Pickler(pickle._Pickler):  # type: ignore[name-defined, misc]
    """Writes text and bytes as Python 2 wrote its str, which the files of CIFAR have."""

    def save_str(self, obj: Any) -> None:
        data = obj.encode("latin1") if isinstance(obj, str) else obj
        self.write(pickle.BINSTRING + struct.pack("<i", len(data)) + data)
        self.memoize(obj)

    def save_global(self, obj: Any, name: str | None = None) -> None:
        module = obj.__module__.replace("numpy._core", "numpy.core")
        self.write(pickle.GLOBAL + f"{module}\n{obj.__qualname__}\n".encode())
        self.memoize(obj)

    dispatch = {  # noqa: RUF012
        **pickle._Pickler.dispatch,  # type: ignore[attr-defined]
        str: save_str,
        bytes: save_str,
        type(pickle.dumps): save_global,
        type: save_global,
    }


def python2_pickle(content: Any) -> bytes:
    file = io.BytesIO()
    Python2Pickler(file, 2).dump(content)
    return file.getvalue()


def cifar_images(count: int, seed: int) -> np.ndarray:
    return ((np.arange(count * 3072) * seed) % 251).astype(np.uint8).reshape(count, 3072)


def cifar10(root: Folder) -> None:
    """Three images in each of the six files."""
    folder = root / "cifar-10-batches-py"
    for i in range(1, 7):
        content = {
            "batch_label": f"training batch {i} of 5",
            "labels": [(i + j) % 10 for j in range(3)],
            "data": cifar_images(3, i),
            "filenames": ["tabby_s_000001.png"] * 3,
        }
        write(folder / ("test_batch" if i == 6 else f"data_batch_{i}"), python2_pickle(content))
    meta = {"num_cases_per_batch": 10000, "label_names": ["airplane", "frog"], "num_vis": 3072}
    write(folder / "batches.meta", python2_pickle(meta))


def cifar100(root: Folder) -> None:
    folder = root / "cifar-100-python"
    for seed, name in enumerate(("train", "test"), 1):
        content = {
            "fine_labels": [seed + 10, seed + 20],
            "coarse_labels": [seed, seed + 5],
            "data": cifar_images(2, seed),
            "filenames": ["a.png", "b.png"],
        }
        write(folder / name, python2_pickle(content))
    meta = {"fine_label_names": ["apple"], "coarse_label_names": ["fish"]}
    write(folder / "meta", python2_pickle(meta))


def tar(path: Folder, files: dict[str, bytes], mode: str = "w") -> Folder:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def tree(folder: Folder) -> dict[str, bytes]:
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): p.read_bytes() for p in files}


def keypoints(visible: int) -> list[int]:
    return [1, 2, 2] * visible + [0, 0, 0] * (17 - visible)


def coco_annotations() -> dict[str, Any]:
    def ann(i: int, image: int, category: int, box: list[float], crowd: int, seen: int) -> Any:
        return {
            "id": i,
            "image_id": image,
            "category_id": category,
            "bbox": box,
            "iscrowd": crowd,
            "keypoints": keypoints(seen),
        }

    return {
        "images": [
            {"id": 9, "file_name": "2.png", "height": 4, "width": 5},
            {"id": 3, "file_name": "1.png", "height": 4, "width": 5},
            {"id": 7, "file_name": "3.png", "height": 4, "width": 5},
            {"id": 8, "file_name": "3.png", "height": 4, "width": 5},
        ],
        "annotations": [
            ann(1, 3, 18, [1, 1, 2, 2], 0, 12),
            ann(2, 9, 90, [0.5, 1, 2.5, 2], 0, 3),
            ann(3, 9, 1, [0, 0, 1, 1], 1, 2),
            ann(5, 7, 2, [0, 0, 1, 0.5], 0, 0),
            ann(6, 7, 2, [0, 0, 0, 2], 0, 0),
        ],
        "categories": [
            {"id": 1, "name": "person"},
            {"id": 18, "name": "dog"},
            {"id": 2, "name": "bicycle"},
            {"id": 90, "name": "toothbrush"},
        ],
    }


def coco(root: Folder, annotations: Any = None) -> str:
    """Writes the images and the annotations; returns the name of the file of annotations."""
    for i in (1, 2, 3):
        write(root / f"{i}.png", plain(10 * i, 20, 30))
    content = coco_annotations() if annotations is None else annotations
    return str(write(root / "annotations.json", json.dumps(content)))


DOG = (
    "<object><name>dog</name><pose>Left</pose><difficult>0</difficult><bndbox><xmin>1</xmin>"
    "<ymin>2</ymin><xmax>4</xmax><ymax>3</ymax></bndbox></object>"
)
PERSON = (
    "<object><name>person</name><bndbox><ymin>2.5</ymin><xmin>1.5</xmin><xmax>4</xmax>"
    "<ymax>3</ymax></bndbox><part><name>head</name></part><part><name>foot</name></part></object>"
)


def voc_xml(objects: str) -> str:
    size = "<size><width>5</width><height>4</height><depth>3</depth></size>"
    return f"<annotation><folder>VOC</folder>{size}{objects}</annotation>"


def voc(root: Folder) -> None:
    mask = np.zeros((4, 5, 3), np.uint8)
    mask[0] = [(128, 0, 0), (0, 128, 0), (224, 224, 192), (0, 64, 128), (1, 2, 3)]
    for name, objects in (("2007_1", DOG), ("2007_2", DOG + PERSON), ("2007_3", "")):
        write(root / f"JPEGImages/{name}.jpg", plain(10, 20, 30))
        write(root / f"Annotations/{name}.xml", voc_xml(objects))
        write(root / f"SegmentationClass/{name}.png", png(mask))
    write(root / "ImageSets/Main/train.txt", "2007_1\n2007_2\n2007_3\n")
    write(root / "ImageSets/Segmentation/train.txt", "2007_2\n2007_1\n")


def cityscapes(root: Folder) -> None:
    labels = np.array([[0, 7, 8, 11, 33], [24, 23, 26, 255, 1], [27, 28, 31, 32, 33]], np.uint8)
    for city, name in (("bonn", "bonn_000001_000019"), ("aachen", "aachen_000000_000019")):
        image = root / f"leftImg8bit/train/{city}/{name}_leftImg8bit.png"
        write(image, plain(10, 20, 30, 3))
        write(root / f"gtFine/train/{city}/{name}_gtFine_labelIds.png", png(labels))
        write(root / f"gtFine/train/{city}/{name}_gtFine_polygons.json", "{}")


def imagenet_archives(root: Folder) -> dict[str, bytes]:
    """The three archives of ImageNet, with two classes; their contents by part."""
    scipy_io = __import__("scipy.io", fromlist=["savemat"])
    names = ("ILSVRC2012_ID", "WNID", "words", "gloss", "num_children", "children")
    rows = [
        (1.0, "n02", "kit fox", "small fox", 0.0, np.zeros((0,))),
        (2.0, "n01", "tench, Tinca tinca", "fish", 0.0, np.zeros((0,))),
        (3.0, "n99", "entity", "anything", 2.0, np.array([1.0, 2.0])),
    ]
    synsets = np.array(rows, dtype=[(name, "O") for name in names]).reshape(-1, 1)
    meta = io.BytesIO()
    scipy_io.savemat(meta, {"synsets": synsets}, do_compression=True)
    inner = {}
    for name, files in (("n01", [1]), ("n02", [2, 3])):
        images = {f"{name}_{i}.JPEG": plain(i, 20, 30) for i in files}
        inner[f"{name}.tar"] = tar(root / "inner.tar", images).read_bytes()
    (root / "inner.tar").unlink()
    kit = "ILSVRC2012_devkit_t12/data/"
    devkit = {
        kit + "meta.mat": meta.getvalue(),
        kit + "ILSVRC2012_validation_ground_truth.txt": b"2\n1\n2\n",
    }
    val = {f"ILSVRC2012_val_{i:08d}.JPEG": plain(40 + i, 20, 30) for i in (3, 1, 2)}
    return {
        "train": tar(root / "ILSVRC2012_img_train.tar", inner).read_bytes(),
        "val": tar(root / "ILSVRC2012_img_val.tar", val).read_bytes(),
        "devkit": tar(root / "ILSVRC2012_devkit_t12.tar.gz", devkit, "w:gz").read_bytes(),
    }
