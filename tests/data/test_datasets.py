"""Datasets of images, on small files of the real formats.

What is expected of files that are in order is what MegEngine 1.13 gives for the same files.
"""

from __future__ import annotations

import builtins
import doctest
import gzip
import hashlib
import os
import pathlib
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from megengine.data.dataset import (
    CIFAR10,
    CIFAR100,
    COCO,
    MNIST,
    Cityscapes,
    ImageFolder,
    ImageNet,
    Objects365,
    PascalVOC,
)
from megengine.data.dataset.vision import utils
from megengine.data.dataset.vision.coco import has_valid_annotation
from megengine.data.dataset.vision.mnist import parse_idx1, parse_idx3
from megengine.utils.http_download import HTTPDownloadError
from tests.data import dataset_files as files
from tests.server import Server, serve

Folder = pathlib.Path


def md5(data: bytes) -> str:
    return hashlib.md5(data).hexdigest()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serve() as server:
        yield server


def test_the_examples_of_the_page():
    page = pathlib.Path(__file__).parents[2] / "docs/data.md"
    failed, tried = doctest.testfile(str(page), module_relative=False)
    assert (failed, tried > 3) == (0, True)


# ---- MNIST --------------------------------------------------------------------------------------


def test_mnist(tmp_path: Folder):
    files.mnist(tmp_path)
    digits = MNIST(str(tmp_path), download=False)
    assert len(digits) == 5
    image, label = digits[4]
    assert (image.shape, image.dtype, image.ravel()[:4].tolist()) == (
        (28, 28, 1),
        np.uint8,
        [192, 199, 206, 213],
    )
    assert (label, label.dtype) == (4, np.int32)
    assert digits[-1][1] == 4
    some, labels = digits[0:2]
    assert (len(some), labels.tolist(), labels.dtype) == (2, [0, 1], np.int32)
    assert digits.meta == {
        "images": {"magic": 2051, "imgs": 5, "height": 28, "width": 28},
        "labels": {"magic": 2049, "imgs": 5},
    }
    assert digits.order == ("image", "image_category")
    with pytest.raises(IndexError):
        digits[5]
    test = MNIST(str(tmp_path), train=False, download=False)
    assert (len(test), test[0][0].ravel()[:2].tolist()) == (3, [1, 8])


def test_mnist_is_fetched(tmp_path: Folder, server: Server, monkeypatch: pytest.MonkeyPatch):
    files.mnist(tmp_path / "source")
    content = files.tree(tmp_path / "source")
    monkeypatch.setattr(MNIST, "url_path", server.url + "/")
    monkeypatch.setattr(MNIST, "raw_file_md5", [md5(content[n]) for n in MNIST.raw_file_name])
    server.answers.update({f"/{name}": data for name, data in content.items()})
    root = tmp_path / "deep/root"
    assert len(MNIST(str(root))) == 5
    assert files.tree(root) == content
    MNIST(str(root), train=False)
    assert len(server.asked) == 4  # what is there is not fetched again
    # The user's cache is where they are kept otherwise.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert MNIST().root == str(tmp_path / "cache/megengine/MNIST")
    assert files.tree(tmp_path / "cache/megengine/MNIST") == content


def test_another_mnist_is_left_alone(
    tmp_path: Folder, server: Server, monkeypatch: pytest.MonkeyPatch
):
    files.mnist(tmp_path / "source")
    content = files.tree(tmp_path / "source")
    monkeypatch.setattr(MNIST, "url_path", server.url + "/")
    with pytest.raises(RuntimeError, match=r"train-images.* exists but fail to match md5"):
        MNIST(str(tmp_path / "source"))
    assert files.tree(tmp_path / "source") == content
    server.answers.update({f"/{name}": data for name, data in content.items()})
    with pytest.raises(HTTPDownloadError, match="another file than expected"):
        MNIST(str(tmp_path / "new"))
    assert files.tree(tmp_path / "new") == {}
    server.answers.clear()
    with pytest.raises(HTTPDownloadError, match="404"):
        MNIST(str(tmp_path / "new"))


def test_mnist_without_files(tmp_path: Folder):
    with pytest.raises(ValueError, match=r"dir .*nowhere does not exist"):
        MNIST(str(tmp_path / "nowhere"), download=False)
    with pytest.raises(ValueError, match="please set download=True"):
        MNIST(str(tmp_path), download=False)


def test_damaged_mnist(tmp_path: Folder):
    files.mnist(tmp_path)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    packed = path.read_bytes()
    body = gzip.decompress(packed)
    damaged = {
        "end-of-stream": packed[:-20],
        "Not a gzipped file": b"plain",
        "expected 2051": gzip.compress(b"\0\0\x08\x01" + body[4:]),
        r"expected 3936 bytes, got 3836": gzip.compress(body[:-100]),
        r"expected 3936 bytes, got 3937": gzip.compress(body + b"1"),
        "expected 2051 at its top, got": gzip.compress(b""),
        "bytes, got 3936": gzip.compress(body[:4] + b"\xff" * 8 + body[12:]),
        "invalid|incorrect|Error|CRC": packed[:40] + bytes(20) + packed[60:],
    }
    for match, data in damaged.items():
        path.write_bytes(data)
        with pytest.raises(ValueError, match=match) as caught:
            MNIST(str(tmp_path), download=False)
        assert str(path) in str(caught.value)
    path.write_bytes(gzip.compress(files.idx(np.zeros((4, 28, 28)))))
    with pytest.raises(ValueError, match=r"4 images, .* 5 labels"):
        MNIST(str(tmp_path), download=False)


def test_idx_files(tmp_path: Folder):
    files.mnist(tmp_path)
    meta, labels = parse_idx1(str(tmp_path / "t10k-labels-idx1-ubyte.gz"))
    assert (meta, labels.tolist(), labels.dtype) == (
        {"magic": 2049, "imgs": 3},
        [0, 1, 2],
        np.int64,
    )
    _, images = parse_idx3(str(tmp_path / "t10k-images-idx3-ubyte.gz"))
    images[0][0, 0] = 9  # they can be changed
    assert images[0][0, 0] == 9


# ---- CIFAR --------------------------------------------------------------------------------------


def test_cifar10(tmp_path: Folder):
    files.cifar10(tmp_path)
    photos = CIFAR10(str(tmp_path), download=False)
    assert len(photos) == 15
    image, label = photos[0]
    assert (image.shape, image.dtype, label, label.dtype) == ((32, 32, 3), np.uint8, 1, np.int32)
    raw = files.cifar_images(3, 1)[0]
    assert image[1, 2].tolist() == [raw[2 * 1024 + 34], raw[1024 + 34], raw[34]]
    assert [int(photos[i][1]) for i in range(15)] == [1, 2, 3, 2, 3, 4, 3, 4, 5, 4, 5, 6, 5, 6, 7]
    assert photos[0:2][1].tolist() == [1, 2]
    assert photos.meta == {
        b"num_cases_per_batch": 10000,
        b"label_names": [b"airplane", b"frog"],
        b"num_vis": 3072,
    }
    assert CIFAR10(str(tmp_path), train=False, download=False).arrays[1].tolist() == [6, 7, 8]
    images, labels = photos.bytes2array(["data_batch_2"])
    assert (len(images), labels.tolist()) == (3, [2, 3, 4])


def test_cifar100(tmp_path: Folder):
    files.cifar100(tmp_path)
    photos = CIFAR100(str(tmp_path), train=False, download=False)
    image, fine, coarse = photos[0]
    assert (image.shape, fine, coarse) == ((32, 32, 3), 12, 2)
    assert (fine.dtype, coarse.dtype) == (np.int32, np.int32)
    assert photos.meta == {b"fine_label_names": [b"apple"], b"coarse_label_names": [b"fish"]}
    assert len(CIFAR100(str(tmp_path), download=False)) == 2


@pytest.mark.parametrize(("kind", "make"), [(CIFAR10, files.cifar10), (CIFAR100, files.cifar100)])
def test_cifar_is_fetched(
    tmp_path: Folder, server: Server, monkeypatch: pytest.MonkeyPatch, kind: Any, make: Any
):
    make(tmp_path / "source")
    content = files.tree(tmp_path / "source")
    archive = files.tar(tmp_path / "archive", content, "w:gz").read_bytes()
    monkeypatch.setattr(kind, "url_path", server.url + "/")
    monkeypatch.setattr(kind, "raw_file_md5", md5(archive))
    server.answers["/" + kind.raw_file_name] = archive
    photos = kind(str(tmp_path / "root"))
    assert len(photos) in (15, 2)
    assert files.tree(tmp_path / "root") == {**content, kind.raw_file_name: archive}
    kind(str(tmp_path / "root"), train=False)
    assert server.asked == ["/" + kind.raw_file_name]


def test_cifar_without_files(tmp_path: Folder):
    with pytest.raises(ValueError, match="please set download=True"):
        CIFAR10(str(tmp_path), download=False)
    files.cifar10(tmp_path)
    (tmp_path / "cifar-10-batches-py/data_batch_3").unlink()
    with pytest.raises(FileNotFoundError, match=r"there is no .*data_batch_3"):
        CIFAR10(str(tmp_path), download=False)


class Evil:
    def __reduce__(self) -> Any:
        return os.mkdir, ("owned",)


def test_damaged_cifar(tmp_path: Folder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    files.cifar10(tmp_path)
    path = tmp_path / "cifar-10-batches-py/test_batch"
    whole = path.read_bytes()
    images = files.cifar_images(3, 1)

    def batch(**parts: Any) -> bytes:
        return files.python2_pickle({"data": images, "labels": [1, 2, 3], **parts})

    damaged = {
        "is damaged": whole[:-100],
        "names .*mkdir": pickle.dumps({"data": Evil()}),
        "is damaged: ": whole[:50] + b"\xff" * 50 + whole[100:],
        "expected images under 'data'": files.python2_pickle([1, 2]),
        "images under 'data'": batch(data=[1, 2, 3]),
        "under 'data'": batch(data=images.astype(np.int16)),
        "another size": batch(data=images[:, :3071]),
        "expected 3 labels": batch(labels=[1, 2]),
        "10 among the labels": batch(labels=[1, 2, 10]),
        "-1 among the labels": batch(labels=[-1, 2, 3]),
        "'a' among the labels": batch(labels=[1, 2, "a"]),
    }
    for match, data in damaged.items():
        path.write_bytes(data)
        with pytest.raises(ValueError, match=match) as caught:
            CIFAR10(str(tmp_path), train=False, download=False)
        assert str(path) in str(caught.value)
    assert not (tmp_path / "owned").exists()


# ---- folders ------------------------------------------------------------------------------------


def test_image_folder(tmp_path: Folder):
    for name in ("b/0.png", "b/1.jpg", "a/2.PNG", "a/sub/deep.jpeg", "c.d/4.bmp"):
        files.write(tmp_path / name, files.plain(len(name), 20, 30))
    for name in ("a/readme.txt", "top.png"):
        files.write(tmp_path / name, "no image")
    (tmp_path / "empty").mkdir()
    animals = ImageFolder(str(tmp_path))
    assert animals.class_dict == {"a": 0, "b": 1, "c.d": 2, "empty": 3}
    expected = [
        ("a/2.PNG", 0),
        ("a/sub/deep.jpeg", 0),
        ("b/0.png", 1),
        ("b/1.jpg", 1),
        ("c.d/4.bmp", 2),
    ]
    assert animals.samples == [(str(tmp_path / name), label) for name, label in expected]
    assert len(animals) == 5
    image, label = animals[1]
    assert (image.shape, image.dtype, image[0, 0].tolist()) == ((4, 5, 3), np.uint8, [30, 20, 15])
    assert (label, label.dtype) == (0, np.int32)
    assert ImageFolder(str(tmp_path), class_name=True)[2][1] == "b"
    texts = ImageFolder(str(tmp_path), check_valid_func=lambda path: path.endswith("txt"))
    assert texts.samples == [(str(tmp_path / "a/readme.txt"), 0)]
    with pytest.raises(IndexError):
        animals[5]
    with pytest.raises(FileNotFoundError):
        ImageFolder(str(tmp_path / "nowhere"))


def test_links_in_folders(tmp_path: Folder):
    files.write(tmp_path / "elsewhere/1.png", files.plain(1, 2, 3))
    files.write(tmp_path / "root/a/0.png", files.plain(1, 2, 3))
    (tmp_path / "root/b").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "root/a/round").symlink_to(tmp_path / "root/a")
    names = [
        os.path.relpath(path, tmp_path / "root")
        for path, _ in ImageFolder(str(tmp_path / "root")).samples
    ]
    assert names == ["a/0.png", "b/1.png"]


def test_images_that_cannot_be_read(tmp_path: Folder):
    whole = files.plain(1, 2, 3)
    path = files.write(tmp_path / "a/0.png", whole)
    animals = ImageFolder(str(tmp_path))
    for data in (b"", b"no image", whole[:20]):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"a/0.png cannot be read as an image"):
            animals[0]
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"there is no image .*a/0.png"):
        animals[0]


def test_grey_and_other_images_have_three_channels(tmp_path: Folder):
    files.write(tmp_path / "a/0.png", files.png(np.full((2, 3), 7)))
    image, _ = ImageFolder(str(tmp_path))[0]
    assert image.tolist() == [[[7, 7, 7]] * 3] * 2


def test_without_opencv(tmp_path: Folder, monkeypatch: pytest.MonkeyPatch):
    files.write(tmp_path / "a/0.png", files.plain(1, 2, 3))
    imported = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "cv2":
            raise ImportError("No module named 'cv2'")
        return imported(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    animals = ImageFolder(str(tmp_path))
    with pytest.raises(ImportError, match=r"pip install 'openmge\[vision\]'"):
        animals[0]


def test_names_of_images():
    assert [utils.is_img(n) for n in ("a.JPG", "x/y.tiff", "a.webp", "a.txt", "jpg")] == [
        True,
        True,
        True,
        False,
        False,
    ]


# ---- ImageNet -----------------------------------------------------------------------------------


@pytest.fixture
def imagenet(tmp_path: Folder, monkeypatch: pytest.MonkeyPatch) -> Folder:
    root = tmp_path / "imagenet"
    root.mkdir()
    parts = files.imagenet_archives(root)
    meta = {k: (name, md5(parts[k])) for k, (name, _) in ImageNet.raw_file_meta.items()}
    monkeypatch.setattr(ImageNet, "raw_file_meta", meta)
    return root


def test_imagenet_from_archives(imagenet: Folder):
    train = ImageNet(str(imagenet))
    assert [os.path.relpath(p, imagenet) for p, _ in train.samples] == [
        "train/n01/n01_1.JPEG",
        "train/n02/n02_2.JPEG",
        "train/n02/n02_3.JPEG",
    ]
    assert [int(label) for _, label in train.samples] == [0, 1, 1]
    assert train[2][0][0, 0].tolist() == [30, 20, 3]
    val = ImageNet(str(imagenet), train=False, class_name=True)
    assert [(val[i][0][0, 0, 2], val[i][1]) for i in range(3)] == [
        (41, "n01"),
        (43, "n01"),
        (42, "n02"),
    ]
    assert sorted(p.name for p in imagenet.iterdir()) == [
        "ILSVRC2012_devkit_t12",
        "ILSVRC2012_devkit_t12.tar.gz",
        "ILSVRC2012_img_train.tar",
        "ILSVRC2012_img_val.tar",
        "train",
        "val",
    ]
    assert val.meta == (
        {1: "n02", 2: "n01"},
        {"n02": ("kit fox",), "n01": ("tench", "Tinca tinca")},
    )
    assert val.valid_ground_truth == [2, 1, 2]
    assert val.check_raw_file()
    assert (val.root, val.target_folder) == (str(imagenet / "val"), str(imagenet / "val"))
    assert val.devkit_dir == str(imagenet / "ILSVRC2012_devkit_t12")


def test_imagenet_from_folders(tmp_path: Folder):
    files.write(tmp_path / "train/n01/x.JPEG", files.plain(1, 2, 3))
    train = ImageNet(str(tmp_path))
    assert (len(train), train.check_raw_file()) == (1, False)
    with pytest.raises(FileNotFoundError, match=r"ILSVRC2012_devkit_t12.tar.gz"):
        train.meta  # noqa: B018
    with pytest.raises(FileNotFoundError, match=r"ILSVRC2012_img_val.tar"):
        ImageNet(str(tmp_path), train=False)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        ImageNet(str(tmp_path / "nowhere"))


def test_damaged_imagenet(imagenet: Folder):
    archive = imagenet / "ILSVRC2012_img_train.tar"
    archive.write_bytes(archive.read_bytes()[:-1])
    before = sorted(imagenet.iterdir())
    with pytest.raises(ValueError, match=r"checksum mismatch, .*img_train.tar may be damaged"):
        ImageNet(str(imagenet))
    assert sorted(imagenet.iterdir()) == before


def test_nothing_half_prepared(imagenet: Folder, monkeypatch: pytest.MonkeyPatch):
    def fail(self: Any, folder: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ImageNet, "_organize_val_data", fail)
    with pytest.raises(OSError, match="No space"):
        ImageNet(str(imagenet), train=False)
    assert not (imagenet / "val").exists()
    assert not [p for p in imagenet.iterdir() if p.name.startswith(".")]


# ---- COCO and Objects365 ------------------------------------------------------------------------


def lists(parts: Any) -> list[Any]:
    return [p.tolist() if isinstance(p, np.ndarray) else p for p in parts]


def test_coco(tmp_path: Folder):
    annotations = files.coco(tmp_path)
    photos = COCO(str(tmp_path), annotations, order=COCO.supported_order)
    assert (len(photos), photos.ids) == (4, [3, 7, 8, 9])
    image, boxes, categories, keypoints, info = photos[3]
    assert image[0, 0].tolist() == [30, 20, 20]
    assert (boxes.tolist(), boxes.dtype) == ([[0.5, 1, 3, 3], [0, 0, 1, 1]], np.float32)
    assert (categories.tolist(), categories.dtype) == ([4, 1], np.int32)
    assert (keypoints.shape, keypoints.dtype) == ((2, 17, 3), np.float32)
    assert keypoints[0, 2:4].tolist() == [[1, 2, 2], [0, 0, 0]]
    assert info == [4, 5, "2.png"]
    assert photos[-1][4] == info
    assert lists(photos[2][1:]) == [[], [], [], [4, 5, "3.png"]]
    assert [part.shape for part in photos[2][1:4]] == [(0, 4), (0,), (0, 17, 3)]
    assert photos.get_img_info(0)["file_name"] == "1.png"
    assert photos.json_category_id_to_contiguous_id == {1: 1, 2: 2, 18: 3, 90: 4}
    assert photos.contiguous_category_id_to_json_id == {1: 1, 2: 2, 3: 18, 4: 90}
    assert COCO(str(tmp_path), annotations)[0][0].shape == (4, 5, 3)
    pairs = COCO(str(tmp_path), annotations, order=["boxes_category", "boxes"])
    assert lists(pairs[0]) == [[3], [[1, 1, 3, 3]]]
    with pytest.raises(IndexError):
        photos[4]
    with pytest.raises(NotImplementedError, match="mask is unsupported data type"):
        COCO(str(tmp_path), annotations, order=("mask",))


def test_coco_without_images_without_annotations(tmp_path: Folder):
    annotations = files.coco(tmp_path)
    boxes = COCO(str(tmp_path), annotations, True, order=("boxes", "boxes_category"))
    assert boxes.ids == [3, 7, 9]
    assert lists(boxes[1]) == [[[0, 0, 1, 0.5]], [2]]  # without the empty box
    assert lists(boxes[2]) == [[[0.5, 1, 3, 3]], [4]]  # without the crowd
    assert sorted(boxes.imgs) == [3, 7, 9]
    people = COCO(str(tmp_path), annotations, True, order=("keypoints", "boxes"))
    assert people.ids == [3]
    # The reference raises KeyError where no boxes are asked for.
    assert COCO(str(tmp_path), annotations, True).ids == [3, 7, 9]
    assert not has_valid_annotation([{"bbox": [0, 0, 1, 1]}], ["keypoints"])
    assert [
        has_valid_annotation([{"keypoints": files.keypoints(n)}] * 2, ["keypoints"]) for n in (4, 5)
    ] == [False, True]


def test_objects365(tmp_path: Folder):
    annotations = files.coco(tmp_path)
    photos = Objects365(str(tmp_path), annotations, order=Objects365.supported_order)
    assert lists(photos[0][1:]) == [[[1, 1, 3, 3]], [3], [4, 5, "1.png"]]
    with pytest.raises(NotImplementedError, match="keypoints is unsupported data type"):
        Objects365(str(tmp_path), annotations, order=("keypoints",))
    assert not isinstance(photos, COCO)


def test_names_of_classes():
    assert (len(COCO.class_names), len(set(Objects365.class_names))) == (80, 365)
    assert COCO.class_names[9:12] == ("traffic light", "fire hydrant", "stop sign")
    assert COCO.classes_originID["stop sign"] == 13
    assert COCO.classes_originID["toothbrush"] == 90
    assert Objects365.class_names[:2] == ("person", "sneakers")
    assert Objects365.class_names[-1] == "flashlight"
    assert COCO.keypoint_names[0] == "nose"
    assert (len(Cityscapes.class_names), len(PascalVOC.class_colors)) == (19, 21)


def test_damaged_annotations(tmp_path: Folder):
    def changed(**parts: Any) -> Any:
        return {**files.coco_annotations(), **parts}

    one = files.coco_annotations()["annotations"][0]
    wrong: list[tuple[str, Any]] = [
        ("expected a list of images", {"annotations": []}),
        ("expected a list of images", []),
        ("expected a list of annotations", changed(annotations={})),
        ("expected a list of categories", changed(categories=None)),
        ("expected 'image_id' in", changed(annotations=[{"id": 3}])),
        ("expected 'id' in 5", changed(images=[5])),
        ("expected a number as 'id'", changed(images=[{"id": []}])),
        ("expected 'bbox' in", changed(annotations=[{"id": 1, "image_id": 3}])),
        ("as 'bbox'", changed(annotations=[{**one, "bbox": [1, 2, 3]}])),
        ("as 'bbox'", changed(annotations=[{**one, "bbox": "none"}])),
        ("no category 3", changed(annotations=[{**one, "category_id": 3}])),
        ("expected 'keypoints' in", changed(annotations=[{"image_id": 3, "bbox": [0, 0, 1, 1]}])),
        ("as 'keypoints'", changed(annotations=[{**one, "keypoints": [1, 2]}])),
        ("expected 'height' in", changed(images=[{"id": 3, "file_name": "1.png"}])),
        ("expected 'file_name' in", changed(images=[{"id": 3, "height": 4, "width": 5}])),
    ]
    for match, content in wrong:
        path = files.coco(tmp_path, content)
        with pytest.raises(ValueError, match=match) as caught:
            lists(
                COCO(str(tmp_path), path, order=("boxes", "keypoints", "boxes_category", "info"))[0]
            )
        assert path in str(caught.value)
    for text in ('{"images": [', "", "[" * 100_000):
        files.write(tmp_path / "bad.json", text)
        with pytest.raises(ValueError, match="is damaged"):
            COCO(str(tmp_path), str(tmp_path / "bad.json"))
    with pytest.raises(FileNotFoundError):
        COCO(str(tmp_path), str(tmp_path / "none.json"))
    path = files.coco(tmp_path, changed(images=[{"id": 3, "file_name": "none.png"}]))
    with pytest.raises(FileNotFoundError, match=r"no image .*none.png"):
        COCO(str(tmp_path), path)[0]


# ---- Pascal VOC ---------------------------------------------------------------------------------


def test_voc_boxes(tmp_path: Folder):
    files.voc(tmp_path)
    order = ("image", "boxes", "boxes_category", "info")
    photos = PascalVOC(str(tmp_path), "train", order=order)
    assert (len(photos), photos.file_names) == (3, ["2007_1", "2007_2", "2007_3"])
    image, boxes, categories, info = photos[1]
    assert image[0, 0].tolist() == [30, 20, 10]
    assert (boxes.tolist(), boxes.dtype) == ([[1, 2, 4, 3], [1.5, 2.5, 4, 3]], np.float32)
    assert (categories.tolist(), categories.dtype) == ([12, 15], np.int32)
    assert info == [4, 5, "2007_2"]
    assert [part.shape for part in photos[2][1:3]] == [(0, 4), (0,)]
    assert photos.get_img_info(1) == {"height": 4, "width": 5, "file_name": "2007_2"}
    assert photos.images[0] == str(tmp_path / "JPEGImages/2007_1.jpg")
    with pytest.raises(IndexError):
        photos[3]
    # Without boxes or masks the reference raises.
    assert PascalVOC(str(tmp_path), "train")[0][0].shape == (4, 5, 3)
    assert PascalVOC(str(tmp_path), "train", order=("info",))[2] == ([4, 5, "2007_3"],)


def test_voc_masks(tmp_path: Folder):
    files.voc(tmp_path)
    photos = PascalVOC(str(tmp_path), "train", order=("image", "mask", "info"))
    assert len(photos) == 2
    _, mask, info = photos[0]
    assert (mask.shape, mask.dtype, info) == ((4, 5, 1), np.uint8, [4, 5, "2007_2"])
    assert mask[:2, :, 0].tolist() == [[1, 2, 255, 20, 255], [0] * 5]
    assert PascalVOC(str(tmp_path), "train", order=("info", "mask"))[1][0] == [4, 5, "2007_1"]
    for order in (("image", "mask", "boxes"), ("mask", "boxes_category")):
        with pytest.raises(ValueError, match="not both"):
            PascalVOC(str(tmp_path), "train", order=order)


def test_voc_xml(tmp_path: Folder):
    files.voc(tmp_path)
    photos = PascalVOC(str(tmp_path), "train", order=("boxes",))
    tree = __import__("xml.etree.ElementTree", fromlist=["x"]).fromstring
    cases = {
        "<annotation><a> t </a><b/></annotation>": {"annotation": {"a": "t", "object": []}},
        "<annotation><object>x</object></annotation>": {"annotation": {"object": ["x"]}},
        "<annotation><x>5</x><x>6</x></annotation>": {
            "annotation": {"x": ["5", "6"], "object": []}
        },
        "<object><name>d</name></object>": {"object": {"name": "d"}},
        "<a/>": {},
    }
    for text, expected in cases.items():
        assert photos.parse_voc_xml(tree(text)) == expected
    annotation = photos.parse_voc_xml(tree(files.voc_xml(files.DOG + files.PERSON)))["annotation"]
    assert annotation["size"] == {"width": "5", "height": "4", "depth": "3"}
    assert annotation["object"][1]["part"] == [{"name": "head"}, {"name": "foot"}]


BOMB = """<?xml version="1.0"?>
<!DOCTYPE a [<!ENTITY x "ha"><!ENTITY y "&x;&x;&x;"><!ENTITY z "&y;&y;&y;">]>
<annotation><object><name>&z;</name></object></annotation>"""
OUTSIDE = """<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]>
<annotation><object><name>&x;</name></object></annotation>"""
REMOTE = '<!DOCTYPE a SYSTEM "http://127.0.0.1/a.dtd"><annotation/>'


def test_damaged_voc(tmp_path: Folder):
    files.voc(tmp_path)
    photos = PascalVOC(str(tmp_path), "train", order=("boxes", "boxes_category"))
    path = tmp_path / "Annotations/2007_1.xml"
    wrong = [
        ("a document type is declared", BOMB),
        ("a document type is declared", OUTSIDE),
        ("a document type is declared", REMOTE),
        ("a document type is declared", BOMB.replace("utf", "").encode("utf-16").decode("latin1")),
        ("is damaged: unclosed token", "<annotation><fil"),
        ("is damaged: no element found", ""),
        ("is damaged: undefined entity", "<annotation>&x;</annotation>"),
        ("unknown class.*unicorn|tuple.index", files.voc_xml(files.DOG.replace("dog", "unicorn"))),
        ("'bndbox'", files.voc_xml("<object><name>dog</name></object>")),
        ("'xmax'", files.voc_xml(files.DOG.replace("xmax", "max"))),
        ("could not convert", files.voc_xml(files.DOG.replace("<xmin>1", "<xmin>one"))),
        ("'annotation'", "<other/>"),
        ("Recursion", "<annotation>" + "<a>" * 20000 + "x" + "</a>" * 20000 + "</annotation>"),
    ]
    for match, text in wrong:
        path.write_bytes(text.encode("latin1"))
        with pytest.raises(ValueError, match=match) as caught:
            photos[0]
        assert str(path) in str(caught.value)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        photos[0]


def test_voc_without_files(tmp_path: Folder):
    with pytest.raises(RuntimeError, match="Dataset not found or corrupted"):
        PascalVOC(str(tmp_path / "nowhere"), "train", order=("boxes",))
    with pytest.raises(FileNotFoundError, match=r"Segmentation/train.txt"):
        PascalVOC(str(tmp_path), "train", order=("mask",))
    with pytest.raises(NotImplementedError, match="keypoints is unsupported data type"):
        PascalVOC(str(tmp_path), "train", order=("keypoints",))


# ---- Cityscapes ---------------------------------------------------------------------------------


def test_cityscapes(tmp_path: Folder):
    files.cityscapes(tmp_path)
    files.write(tmp_path / "leftImg8bit/train/readme.txt", "no city")
    files.write(tmp_path / "leftImg8bit/train/bonn/readme.txt", "no image")
    streets = Cityscapes(str(tmp_path), "train", "gtFine", order=("image", "mask", "info"))
    assert len(streets) == 2
    image, mask, info = streets[0]
    path = str(tmp_path / "leftImg8bit/train/aachen/aachen_000000_000019_leftImg8bit.png")
    assert info == [3, 5, path]
    assert streets.images[0] == path
    assert image[0, 0].tolist() == [30, 20, 10]
    assert (mask.shape, mask.dtype) == ((3, 5, 1), np.uint8)
    assert mask[:, :, 0].tolist() == [
        [255, 0, 1, 2, 18],
        [11, 10, 13, 255, 255],
        [14, 15, 16, 17, 18],
    ]
    assert Cityscapes(str(tmp_path), "train", "gtFine", order=("info",))[1][0][:2] == [3, 5]
    assert Cityscapes(str(tmp_path), "train", "gtFine")[0][0].shape == (3, 5, 3)


def test_cityscapes_without_files(tmp_path: Folder):
    files.cityscapes(tmp_path)
    with pytest.raises(RuntimeError, match="Dataset not found or corrupted"):
        Cityscapes(str(tmp_path / "nowhere"), "train", "gtFine")
    with pytest.raises(FileNotFoundError, match="leftImg8bit/test"):
        Cityscapes(str(tmp_path), "test", "gtFine")
    with pytest.raises(ValueError, match="'gtFine' or 'gtCoarse', got 'fine'"):
        Cityscapes(str(tmp_path), "train", "fine")
    with pytest.raises(NotImplementedError, match="boxes is unsupported data type"):
        Cityscapes(str(tmp_path), "train", "gtFine", order=("boxes",))
    coarse = Cityscapes(str(tmp_path), "train", "gtCoarse", order=("mask",))
    with pytest.raises(FileNotFoundError, match=r"gtCoarse_labelIds.png"):
        coarse[0]
