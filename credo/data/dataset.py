"""What a data set is: a training part, a test part, and what their numbers mean."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from credo.errors import CredoError

Task = Literal["classification", "regression", "anomaly"]


class Split(NamedTuple):
    """Inputs `x` (float32) and targets `y` (int32 for classes, float32 for quantities)."""

    x: np.ndarray
    y: np.ndarray


class Texts(NamedTuple):
    """The sentences behind the rows of a text data set."""

    train: tuple[str, ...]
    test: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Dataset:
    """A named data set, ready for a network.

    Images have shape (n, height, width, channels) with values in [0, 1]; the columns of tables
    are standardized with the mean and standard deviation of the training part alone. A set that
    only serves as a test or out-of-distribution set has a training part of length 0.

    Attributes:
        name: the name it was loaded by.
        task: "classification", "regression", or "anomaly" (y = 1 marks an anomaly).
        train: the part to fit.
        test: the part to judge by.
        classes: what the values of y mean, in order; None for regression.
        image_shape: (height, width, channels); None where inputs are not images.
        features: what the columns of x mean; None where nobody named them.
        ood: inputs unlike the training part; their y is never used.
        texts: the raw sentences of a text data set.
    """

    name: str
    task: Task
    train: Split
    test: Split
    classes: tuple[str, ...] | None = None
    image_shape: tuple[int, ...] | None = None
    features: tuple[str, ...] | None = None
    ood: Split | None = None
    texts: Texts | None = None


def make_split(x: np.ndarray, y: np.ndarray, task: Task) -> Split:
    """A split with the number types the rest of the library expects."""
    target_type = np.float32 if task == "regression" else np.int32
    return Split(np.asarray(x, np.float32), np.asarray(y, target_type))


def hold_out_classes(dataset: Dataset, held_out: Sequence[int]) -> Dataset:
    """The data set without some of its classes, whose test rows become the `ood` part.

    The remaining classes are numbered from 0 again, in their old order.

    Example:
        >>> import credo.data
        >>> digits = hold_out_classes(credo.data.load("digits"), [8, 9])
        >>> digits.classes
        ('0', '1', '2', '3', '4', '5', '6', '7')
        >>> len(digits.test.x), len(digits.ood.x)
        (289, 71)
    """
    classes = dataset.classes or ()
    kept = [index for index in range(len(classes)) if index not in held_out]
    if len(kept) + len(set(held_out)) != len(classes) or len(kept) < 2:
        raise CredoError(
            f"cannot hold out classes {list(held_out)} of {dataset.name}, which has "
            f"{len(classes)}: give numbers from 0 to {len(classes) - 1} and keep at least two"
        )
    return replace(
        dataset,
        train=_keep_classes(dataset.train, kept),
        test=_keep_classes(dataset.test, kept),
        classes=tuple(classes[index] for index in kept),
        ood=Split(*(part[np.isin(dataset.test.y, held_out)] for part in dataset.test)),
        texts=None,  # the sentences would no longer match the rows
    )


def _keep_classes(split: Split, kept: Sequence[int]) -> Split:
    rows = np.isin(split.y, kept)
    return Split(split.x[rows], np.searchsorted(kept, split.y[rows]).astype(np.int32))
