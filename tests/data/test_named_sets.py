"""Named data sets: shapes, scales, splits, and damaged files."""

import gzip
import json
import zipfile

import numpy as np
import pytest

from credo.data import hold_out_classes, load, names
from credo.data.dataset import Split
from credo.data.images import read_idx
from credo.data.tabular import standardize
from credo.data.text import hash_texts
from credo.errors import CredoError

SIZES = {  # rows to train and to test, shape of a row, number of classes
    "digits": (1437, 360, (8, 8, 1), 10),
    "breast-cancer": (455, 114, (30,), 2),
    "wine": (142, 36, (13,), 3),
    "iris": (120, 30, (4,), 3),
    "diabetes": (353, 89, (10,), None),
}
REAL_SIZES = {
    "mnist": (60_000, 10_000, (28, 28, 1), 10),
    "fashion-mnist": (60_000, 10_000, (28, 28, 1), 10),
    "kmnist": (0, 10_000, (28, 28, 1), 10),
    "cifar10": (10_000, 10_000, (32, 32, 3), 10),
    "svhn-crops": (0, 10_000, (32, 32, 1), 10),
    "omniglot": (19_280, 13_180, (28, 28, 1), 1623),
    "uci/bostonHousing": (455, 51, (13,), None),
    "uci/concrete": (927, 103, (8,), None),
    "uci/power-plant": (8611, 957, (4,), None),
    "uci/wine-quality-red": (1439, 160, (11,), None),
    "uci/yacht": (277, 31, (6,), None),
    "adbench/Cardio": (1281, 550, (21,), 2),
    "adbench/lymphography": (103, 45, (18,), 2),
    "text/sms-spam": (4459, 1115, (2048,), 2),
    "text/subjectivity": (8000, 2000, (2048,), 2),
    "text/trec": (5452, 500, (2048,), 6),
}
# The first test labels, as commonly printed.
FIRST_LABELS = {
    "mnist": [7, 2, 1, 0, 4],
    "fashion-mnist": [9, 2, 1, 1, 6],
    "kmnist": [2, 9, 3, 8, 3],
    "cifar10": [3, 8, 8, 0, 6],
}


def check(data, num_train, num_test, row_shape, num_classes):
    assert data.train.x.shape == (num_train, *row_shape)
    assert data.test.x.shape == (num_test, *row_shape)
    assert (len(data.train.y), len(data.test.y)) == (num_train, num_test)
    for part in (data.train, data.test):
        assert part.x.dtype == np.float32
        assert part.y.dtype == (np.float32 if data.task == "regression" else np.int32)
        assert np.isfinite(part.x).all()
    assert (data.classes and len(data.classes)) == num_classes
    if data.image_shape:
        assert data.image_shape == row_shape
        assert data.test.x.min() == 0 and data.test.x.max() == 1
    elif data.texts is None:
        np.testing.assert_allclose(data.train.x.mean(0), 0, atol=1e-4)
        spread = data.train.x.std(0)
        np.testing.assert_allclose(spread[spread > 0], 1, atol=1e-4)


@pytest.mark.parametrize("name", SIZES)
def test_embedded_sets(name):
    data = load(name)
    check(data, *SIZES[name])
    again, other = load(name.upper()), load(name, split=1)
    np.testing.assert_array_equal(data.train.x, again.train.x)
    assert not np.array_equal(data.test.x, other.test.x)


def test_digits_keep_their_class_shares():
    data = load("digits")
    shares = [np.bincount(part.y) / len(part.y) for part in (data.train, data.test)]
    np.testing.assert_allclose(*shares, atol=0.005)


def test_training_statistics_alone_standardize():
    """The test part must not touch the scale: planted outliers there change nothing."""
    train = Split(np.array([[0.0, 7.0], [2.0, 7.0]], np.float32), np.zeros(2, np.float32))
    outliers = Split(np.array([[1e6, 9.0]], np.float32), np.zeros(1, np.float32))
    first, second = standardize(train, outliers)
    np.testing.assert_array_equal(first.x, [[-1, 0], [1, 0]])
    np.testing.assert_array_equal(second.x, [[999_999, 2]])


def test_held_out_classes_become_the_foreign_part():
    data = hold_out_classes(load("iris"), [1])
    assert data.classes == ("setosa", "virginica")
    assert np.array_equal(np.unique(data.train.y), [0, 1])
    assert len(data.ood.x) == 10 and len(data.test.x) == 20
    for wrong in ([3], [0, 1], [-1]):
        with pytest.raises(CredoError, match="cannot hold out"):
            hold_out_classes(load("iris"), wrong)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "digit"}, "did you mean 'digits'"),
        ({"name": "uci/yatch"}, "did you mean 'uci/yacht'"),
        ({"name": "text/nothing"}, "there is no data set 'text/nothing'"),
        ({"name": "mnist", "split": 1}, "mnist has only split 0"),
        ({"name": "text/trec", "split": 2}, "text/trec has only split 0"),
        ({"name": "digits", "split": -1}, "splits from 0 on"),
    ],
)
def test_wrong_requests(arguments, message):
    with pytest.raises(CredoError, match=message):
        load(**arguments)


def test_names_are_unique_and_lower_case():
    assert len(set(names())) == len(names()) >= 28
    assert all(name == name.lower() for name in names())


def idx_file(array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    return gzip.compress(header + array.tobytes())


@pytest.fixture
def small_mnist(tmp_path):
    folder = tmp_path / "mnist"
    folder.mkdir()
    for part, count in (("train", 4), ("t10k", 2)):
        images = np.arange(count * 28 * 28, dtype=np.uint8).reshape(count, 28, 28)
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(idx_file(images))
        labels = np.arange(count, dtype=np.uint8)
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(idx_file(labels))
    return folder


def test_idx_files_are_read_as_written(small_mnist):
    data = load("mnist", data_dir=small_mnist.parent)
    assert data.train.x.shape == (4, 28, 28, 1)
    np.testing.assert_array_equal(data.train.y, [0, 1, 2, 3])
    assert data.train.x[0, 0, 5, 0] == np.float32(5 / 255)


def damage(content, kind):
    if kind == "truncated":
        return content[: len(content) // 2]
    if kind == "no gzip":
        return b"<html>moved</html>"
    raw = bytearray(gzip.decompress(content))
    if kind == "wrong magic":
        raw[2] = 13
    elif kind == "short":
        raw = raw[:-5]
    elif kind == "empty":
        raw = bytearray()
    return gzip.compress(bytes(raw))


@pytest.mark.parametrize("kind", ["truncated", "no gzip", "wrong magic", "short", "empty"])
def test_damaged_idx_files(small_mnist, kind):
    path = small_mnist / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(damage(path.read_bytes(), kind))
    with pytest.raises(CredoError, match=r"t10k-images.*(damaged|not an idx file)"):
        read_idx(path)


def test_images_and_labels_must_match(small_mnist):
    labels = idx_file(np.zeros(3, np.uint8))
    (small_mnist / "t10k-labels-idx1-ubyte.gz").write_bytes(labels)
    with pytest.raises(CredoError, match="2 images for 3 labels"):
        load("mnist", data_dir=small_mnist.parent)


@pytest.fixture
def small_folder(tmp_path):
    uci = tmp_path / "uci" / "Tiny"
    uci.mkdir(parents=True)
    (uci / "data.txt").write_text("1 2 10\n3 2 20\n5 4 30\n")
    for name, text in {
        "index_features": "0\n1\n",
        "index_target": "2\n",
        "n_splits": "1\n",
        "index_train_0": "0\n1\n",
        "index_test_0": "2\n",
    }.items():
        (uci / f"{name}.txt").write_text(text)
    (tmp_path / "adbench").mkdir()
    y = np.arange(10) % 2
    np.savez(tmp_path / "adbench" / "99_mine.npz", X=np.arange(20.0).reshape(10, 2), y=y)
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "SMSSpamCollection").write_text("ham\thello you\nspam\twin now\n" * 5)
    with zipfile.ZipFile(tmp_path / "text" / "qc.zip", "w") as files:
        files.writestr("qc/train.txt", "NUM:dist How far ?\nLOC:city Where ?\n")
        files.writestr("qc/test.txt", "LOC:city Where is Brno ?\n")
    return tmp_path


def test_the_folder_adds_members_to_the_families(small_folder):
    tiny = load("uci/tiny", data_dir=small_folder)
    np.testing.assert_array_equal(tiny.train.x, [[-1, 0], [1, 0]])
    np.testing.assert_array_equal(tiny.test.x, [[3, 2]])
    np.testing.assert_array_equal(tiny.train.y, [10, 20])
    mine = load("adbench/mine", data_dir=small_folder)
    assert mine.task == "anomaly" and mine.classes == ("normal", "anomaly")
    assert {"uci/tiny", "adbench/mine"} < set(names(data_dir=small_folder))
    with pytest.raises(CredoError, match="standard splits 0 to 0, got split=1"):
        load("uci/tiny", split=1, data_dir=small_folder)


def test_texts_stay_beside_their_rows(small_folder):
    spam = load("text/sms-spam", data_dir=small_folder)
    assert spam.classes == ("ham", "spam")
    expected = [0 if text == "hello you" else 1 for text in spam.texts.train]
    np.testing.assert_array_equal(spam.train.y, expected)
    np.testing.assert_array_equal(spam.train.x, hash_texts(spam.texts.train))
    trec = load("text/trec", data_dir=small_folder)
    assert trec.classes == ("LOC", "NUM") and trec.texts.test == ("Where is Brno ?",)


@pytest.mark.parametrize(
    ("file", "content", "name"),
    [
        ("uci/Tiny/data.txt", "1 2 x\n", "uci/tiny"),
        ("uci/Tiny/data.txt", "1 2 nan\n3 2 1\n5 4 3\n", "uci/tiny"),
        ("uci/Tiny/index_test_0.txt", "7\n", "uci/tiny"),
        ("adbench/99_mine.npz", "not a zip", "adbench/mine"),
        ("text/qc.zip", "not a zip", "text/trec"),
        ("text/SMSSpamCollection", "no tab here\n", "text/sms-spam"),
        ("cifar10/data_batch_1.png", "not a picture", "cifar10"),
        ("omniglot/images_background_28x28_derived.npz", "", "omniglot"),
    ],
)
def test_damaged_files(small_folder, file, content, name):
    (small_folder / file).parent.mkdir(exist_ok=True)
    (small_folder / file).write_text(content)
    for other in ("cifar10/train_lables.json", "omniglot/images_evaluation_28x28_derived.npz"):
        (small_folder / other).parent.mkdir(exist_ok=True)
        (small_folder / other).write_text(json.dumps([0]))
    with pytest.raises(CredoError) as caught:
        load(name, data_dir=small_folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", REAL_SIZES)
def test_real_sets(name, data_dir):
    data = load(name, data_dir=data_dir)
    check(data, *REAL_SIZES[name])
    first = FIRST_LABELS.get(name, [])
    assert data.test.y[: len(first)].tolist() == first


@pytest.mark.parametrize(
    ("name", "num_train", "num_test", "width", "num_classes"),
    [
        ("tables/hypothyroid", 3018, 754, 59, 4),  # with a column without values
        ("tables/autoMpg", 318, 80, 8, None),
        ("tables/winequality-white", 3918, 980, 11, None),  # whole numbers, and a quantity
    ],
)
def test_real_tables(name, num_train, num_test, width, num_classes, data_dir):
    data = load(name, data_dir=data_dir)
    assert (data.train.x.shape, data.test.x.shape) == ((num_train, width), (num_test, width))
    assert (data.classes and len(data.classes)) == num_classes and data.name == name.lower()
    again = load(name, split=1, data_dir=data_dir)
    assert not np.array_equal(data.test.y, again.test.y)


def test_every_real_table_is_found(data_dir):
    listed = [name for name in names(data_dir=data_dir) if name.startswith("tables/")]
    files = {f"tables/{path.stem.lower()}" for path in (data_dir / "tables").glob("*.csv")}
    assert set(listed) == files and len(listed) == 27


def test_real_targets_keep_their_units(data_dir):
    boston = load("uci/bostonhousing", split=19, data_dir=data_dir)
    prices = np.concatenate([boston.train.y, boston.test.y])
    np.testing.assert_allclose(prices.mean(), 22.5328, atol=1e-3)
    cardio = load("adbench/cardio", data_dir=data_dir)
    assert cardio.train.y.sum() + cardio.test.y.sum() == 176
