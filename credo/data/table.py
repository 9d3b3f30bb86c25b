"""A user's own table as numbers: an encoding learnt from the training rows, kept with the model."""

import os
from typing import TYPE_CHECKING

import numpy as np

from credo.data.columns import (
    column_kind,
    encode_categorical,
    encode_numeric,
    fit_categorical,
    fit_numeric,
    numbers,
)
from credo.data.dataset import Dataset, make_split
from credo.data.encoder import TableEncoder, TableTask, TargetColumn
from credo.data.table_files import check_frame, read_table, split_table
from credo.data.targets import (
    check_target,
    fit_target,
    infer_task,
    target_values,
)
from credo.errors import CredoError

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "TableEncoder",
    "TargetColumn",
    "encode",
    "encode_target",
    "fit_encoder",
    "infer_task",
    "load_table",
    "read_table",
    "split_table",
]


def fit_encoder(frame: "pd.DataFrame", target: str, task: TableTask | None = None) -> TableEncoder:
    """Learns the encoding from the training rows.

    Args:
        frame: training rows, with the target.
        target: name of the column to predict.
        task: whether the target is a class or a quantity; `infer_task` decides where None.

    Example:
        >>> import pandas as pd
        >>> table = pd.DataFrame({"size": [1.0, 3.0], "color": ["red", "blue"], "y": ["a", "b"]})
        >>> encoder = fit_encoder(table, "y")
        >>> encoder.features
        ('size', 'color=blue', 'color=red')
        >>> encode(encoder, table)
        array([[-1.,  0.,  1.],
               [ 1.,  1.,  0.]], dtype=float32)
    """
    check_frame(frame)
    check_target(frame, target)
    features = [name for name in frame.columns if name != target]
    if not features:
        raise CredoError(f"the table has no column besides the target '{target}'")
    kinds = {name: column_kind(frame, name) for name in features}
    return TableEncoder(
        tuple(fit_numeric(frame, name) for name in features if kinds[name] == "numeric"),
        tuple(fit_categorical(frame, name) for name in features if kinds[name] == "categorical"),
        fit_target(frame, target, task or infer_task(frame, target)),
    )


def encode(encoder: TableEncoder, frame: "pd.DataFrame") -> np.ndarray:
    """Inputs for a network, float32, one row per row; columns are found by name.

    The target column may be there or not; any other surplus or missing column is refused.
    """
    check_frame(frame)
    missing = [name for name in encoder.columns if name not in frame.columns]
    surplus = [
        name for name in frame.columns if name not in (*encoder.columns, encoder.target.name)
    ]
    if missing or surplus:
        problems = [f"lacks {', '.join(missing)}"] * bool(missing)
        problems += [f"has the unknown {', '.join(surplus)}"] * bool(surplus)
        raise CredoError(
            f"the table {' and '.join(problems)}; the model was fitted on the "
            f"{len(encoder.columns)} columns {', '.join(encoder.columns)}"
        )
    parts = [encode_numeric(column, frame) for column in encoder.numeric]
    parts += [encode_categorical(column, frame) for column in encoder.categorical]
    return np.concatenate(parts, axis=1)


def encode_target(encoder: TableEncoder, frame: "pd.DataFrame") -> np.ndarray:
    """Class numbers (int32), or standardized values (float32)."""
    return target_values(encoder.target, frame)


def own_targets(encoder: TableEncoder, frame: "pd.DataFrame") -> np.ndarray:
    """Class numbers, or quantities in their own units."""
    if encoder.target.classes is None:
        check_target(frame, encoder.target.name)
        return numbers(frame, encoder.target.name)
    return target_values(encoder.target, frame)


def load_table(
    path: str | os.PathLike[str],
    target: str,
    *,
    task: TableTask | None = None,
    test_fraction: float = 0.2,
    seed: int = 0,
) -> tuple[Dataset, TableEncoder]:
    """A user's file as a data set, and the encoding, fitted on its training part alone.

    Inputs are encoded, targets are in their own units: `Units.of_table(encoder)` knows both.
    """
    frame = read_table(path)
    task = task or infer_task(frame, target)
    balanced = target if task == "classification" else None
    parts = split_table(frame, test_fraction, seed, target=balanced)
    encoder = fit_encoder(parts[0], target, task)
    train, test = (
        make_split(encode(encoder, part), own_targets(encoder, part), task) for part in parts
    )
    classes = encoder.target.classes
    return Dataset(str(path), task, train, test, classes, features=encoder.features), encoder
