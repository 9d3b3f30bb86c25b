"""Image data sets: idx files (the MNIST family), CIFAR-10, house-number crops, Omniglot."""

import gzip
import json
from pathlib import Path

import numpy as np

from credo.data.dataset import Dataset, Split
from credo.data.locate import DataDir, locate, reading
from credo.errors import CredoError

DIGITS = tuple("0123456789")
IDX_FOLDERS = {"mnist": "mnist", "fashion-mnist": "fashion_mnist", "kmnist": "kmnist"}
IDX_CLASSES = {
    "mnist": DIGITS,
    "fashion-mnist": (
        *("T-shirt/top", "trouser", "pullover", "dress", "coat"),
        *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
    ),
    "kmnist": ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"),
}
CIFAR10_CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)


def load_idx(name: str, data_dir: DataDir = None) -> Dataset:
    """MNIST, Fashion-MNIST, or the test part of Kuzushiji-MNIST (an out-of-distribution set).

    Reference: LeCun, Cortes & Burges, the MNIST database, 1998; Xiao, Rasul & Vollgraf,
    Fashion-MNIST, 2017; Clanuwat et al., Deep Learning for Classical Japanese Literature, 2018.
    """
    folder = IDX_FOLDERS[name]
    test = _idx_split(f"{folder}/t10k", data_dir)
    train = None if name == "kmnist" else _idx_split(f"{folder}/train", data_dir)
    return _image_dataset(name, train, test, IDX_CLASSES[name])


def load_cifar10(name: str, data_dir: DataDir = None) -> Dataset:
    """CIFAR-10 with the first 10,000 of its 50,000 training images.

    Reference: Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.
    """
    train = _cifar_split("data_batch_1.png", "train_lables.json", data_dir)
    test = _cifar_split("test_batch.png", "test_lables.json", data_dir)
    return _image_dataset(name, train, test, CIFAR10_CLASSES)


def load_svhn_crops(name: str, data_dir: DataDir = None) -> Dataset:
    """Grey tight crops of single house-number digits: a test part only, and not standard SVHN."""
    path = locate("svhn_gray_crops/svhn_test_gray32_tightcrop_derived.npz", data_dir)
    images, labels, _ = _read_npz(path)
    return _image_dataset(name, None, _image_split(images, labels, path), DIGITS)


def load_omniglot(name: str, data_dir: DataDir = None) -> Dataset:
    """Omniglot drawings, 28 x 28, ink bright on dark.

    Training and test part share no character: the classes of the test part come after those of
    the training part, so a classifier fitted on one cannot be scored on the other.

    Reference: Lake, Salakhutdinov & Tenenbaum, Human-level concept learning, Science 2015.
    """
    parts = [
        locate(f"omniglot/images_{part}_28x28_derived.npz", data_dir)
        for part in ("background", "evaluation")
    ]
    (train_x, train_y, train_names), (test_x, test_y, test_names) = map(_read_npz, parts)
    train = _image_split(train_x, train_y, parts[0])
    test = _image_split(test_x, test_y.astype(np.int32) + len(train_names), parts[1])
    return _image_dataset(name, train, test, (*train_names, *test_names))


def read_idx(path: Path) -> np.ndarray:
    """The array in a gzipped idx file of unsigned bytes.

    The file starts with two zero bytes, a type code (8: unsigned byte), the number of axes,
    and each axis length as a big-endian 32-bit integer.
    """
    with reading(path):
        content = gzip.decompress(path.read_bytes())
        if content[:3] != b"\x00\x00\x08" or len(content) < 4:
            raise CredoError(
                f"'{path}' is not an idx file of bytes: it starts with {content[:4]!r}"
            )
        shape = np.frombuffer(content, ">i4", count=content[3], offset=4)
        return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape)


def _idx_split(prefix: str, data_dir: DataDir) -> Split:
    images = locate(f"{prefix}-images-idx3-ubyte.gz", data_dir)
    labels = locate(f"{prefix}-labels-idx1-ubyte.gz", data_dir)
    return _image_split(read_idx(images), read_idx(labels), images)


def _cifar_split(images: str, labels: str, data_dir: DataDir) -> Split:
    from PIL import Image

    image_path = locate(f"cifar10/{images}", data_dir)
    label_path = locate(f"cifar10/{labels}", data_dir)
    with reading(image_path), Image.open(image_path) as picture:
        pixels = np.asarray(picture.convert("RGB")).reshape(-1, 32, 32, 3)
    with reading(label_path):
        classes = np.asarray(json.loads(label_path.read_text()), np.int32)
    return _image_split(pixels, classes[: len(pixels)], label_path)


def _read_npz(path: Path) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    with reading(path), np.load(path, allow_pickle=False) as arrays:
        names = tuple(map(str, arrays["names"])) if "names" in arrays else ()
        return arrays["images"], arrays["labels"], names


def _image_split(images: np.ndarray, labels: np.ndarray, path: Path) -> Split:
    if len(images) != len(labels):
        raise CredoError(f"'{path}' has {len(images)} images for {len(labels)} labels")
    pixels = images.reshape(*images.shape[:3], -1).astype(np.float32)
    pixels /= 255
    return Split(pixels, labels.astype(np.int32))


def _image_dataset(
    name: str, train: Split | None, test: Split, classes: tuple[str, ...]
) -> Dataset:
    train = train or Split(test.x[:0], test.y[:0])
    return Dataset(name, "classification", train, test, classes, image_shape=test.x.shape[1:])
