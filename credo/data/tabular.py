"""Named tables: those that come with scikit-learn, the UCI regression sets, and ADBench."""

from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np

from credo.data.dataset import Dataset, Split, Task, make_split
from credo.data.locate import DataDir, known_files, locate, reading
from credo.errors import CredoError


def load_embedded(name: str, split: int = 0) -> Dataset:
    """A data set that comes with scikit-learn; 20 % of it to test, drawn with seed `split`."""
    from sklearn import datasets

    loaders = {
        "digits": datasets.load_digits,
        "breast-cancer": datasets.load_breast_cancer,
        "wine": datasets.load_wine,
        "iris": datasets.load_iris,
        "diabetes": lambda: datasets.load_diabetes(scaled=False),
    }
    bunch = loaders[name]()
    task: Task = "regression" if name == "diabetes" else "classification"
    train, test = random_split(bunch.data, bunch.target, task, 0.2, split)
    if name == "digits":
        train, test = (Split(part.x.reshape(-1, 8, 8, 1) / 16, part.y) for part in (train, test))
        return Dataset(name, task, train, test, tuple("0123456789"), image_shape=(8, 8, 1))
    classes = None if task == "regression" else tuple(map(str, bunch.target_names))
    features = tuple(map(str, bunch.feature_names))
    return Dataset(name, task, *standardize(train, test), classes, features=features)


def load_uci(name: str, split: int = 0, data_dir: DataDir = None) -> Dataset:
    """A UCI regression set with the standard train/test split of that number.

    Reference: Hernandez-Lobato & Adams, Probabilistic Backpropagation, ICML 2015; split files of
    Gal & Ghahramani, Dropout as a Bayesian Approximation, ICML 2016.
    """
    folder = find_member(name, uci_names(data_dir))
    num_splits = int(_read_numbers(f"{folder}/n_splits.txt", data_dir)[0])
    if not 0 <= split < num_splits:
        raise CredoError(f"{name} has the standard splits 0 to {num_splits - 1}, got split={split}")
    data = _read_numbers(f"{folder}/data.txt", data_dir, axes=2)
    columns = _read_numbers(f"{folder}/index_features.txt", data_dir).astype(int)
    target = int(_read_numbers(f"{folder}/index_target.txt", data_dir)[0])
    rows = [
        _read_numbers(f"{folder}/index_{part}_{split}.txt", data_dir).astype(int)
        for part in ("train", "test")
    ]
    with reading(Path(folder)):
        parts = [make_split(data[row][:, columns], data[row, target], "regression") for row in rows]
    return Dataset(name, "regression", *standardize(*parts))


def load_adbench(name: str, split: int = 0, data_dir: DataDir = None) -> Dataset:
    """An anomaly-detection table; 30 % to test, stratified, drawn with seed `split`.

    The training part keeps its anomalies, labelled 1, as in the benchmark.

    Reference: Han et al., ADBench: Anomaly Detection Benchmark, NeurIPS 2022.
    """
    path = locate(find_member(name, adbench_names(data_dir)), data_dir)
    with reading(path), np.load(path, allow_pickle=False) as arrays:
        x, y = arrays["X"], arrays["y"]
    train, test = random_split(x, y, "anomaly", 0.3, split)
    return Dataset(name, "anomaly", *standardize(train, test), ("normal", "anomaly"))


def uci_names(data_dir: DataDir = None) -> dict[str, str]:
    """Lower-case name of each UCI set, and its folder."""
    tables = [PurePosixPath(path) for path in known_files("uci/", data_dir)]
    folders = [str(path.parent) for path in tables if path.name == "data.txt"]
    return {folder.lower(): folder for folder in folders}


def adbench_names(data_dir: DataDir = None) -> dict[str, str]:
    """Lower-case name of each ADBench set, and its file: adbench/cardio is 6_cardio.npz."""
    tables = [path for path in known_files("adbench/", data_dir) if path.endswith(".npz")]
    return {
        "adbench/" + PurePosixPath(path).stem.partition("_")[2].lower(): path for path in tables
    }


def find_member(name: str, members: dict[str, str]) -> str:
    """The file or folder behind a name."""
    if name not in members:
        raise CredoError(f"there is no data set '{name}'; there are: {', '.join(sorted(members))}")
    return members[name]


def random_split(
    x: np.ndarray, y: np.ndarray, task: Task, test_fraction: float, seed: int
) -> tuple[Split, Split]:
    """A reproducible split, with the same class shares in both parts (none for regression)."""
    from sklearn.model_selection import train_test_split

    stratify = None if task == "regression" else y
    train_x, test_x, train_y, test_y = train_test_split(
        x, y, test_size=test_fraction, random_state=seed, stratify=stratify
    )
    return make_split(train_x, train_y, task), make_split(test_x, test_y, task)


def standardize(train: Split, test: Split) -> tuple[Split, Split]:
    """Shifts and scales the columns so that the training part has mean 0 and variance 1.

    Constant columns become 0; targets stay in their own units.

    Example:
        >>> part = make_split(np.array([[1.0, 5.0], [3.0, 5.0]]), np.zeros(2), "regression")
        >>> standardize(part, part)[1].x
        array([[-1.,  0.],
               [ 1.,  0.]], dtype=float32)
    """
    wide = train.x.astype(np.float64)
    mean, std = wide.mean(0), np.where(np.ptp(wide, 0) > 0, wide.std(0), 1.0)
    first, second = (
        Split(((part.x - mean) / std).astype(np.float32), part.y) for part in (train, test)
    )
    return first, second


def _read_numbers(path: str, data_dir: DataDir, axes: Literal[1, 2] = 1) -> np.ndarray:
    file = locate(path, data_dir)
    with reading(file):
        numbers = np.loadtxt(file, ndmin=axes)
        if not np.all(np.isfinite(numbers)) or numbers.size == 0:
            raise ValueError("expected finite numbers")
        return numbers
