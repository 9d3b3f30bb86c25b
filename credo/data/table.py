"""A user's own table as numbers: an encoding learnt from the training rows, kept with the model."""

import os
import warnings
from typing import TYPE_CHECKING

import numpy as np

from credo.data.columns import (
    ColumnType,
    column_type,
    encode_categorical,
    encode_numeric,
    fit_categorical,
    fit_numeric,
)
from credo.data.dataset import Dataset, make_split
from credo.data.encoder import TableEncoder, TableTask, TargetColumn
from credo.data.suspicions import warn_of_suspicions
from credo.data.table_files import check_frame, read_table, split_table
from credo.data.targets import (
    check_target,
    fit_target,
    infer_task,
    own_values,
    target_values,
)
from credo.errors import CredoError, CredoNote

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
    types = {name: column_type(frame, name) for name in frame.columns if name != target}
    left_out = [name for name, found in types.items() if found.kind in ("empty", "unique")]
    if len(left_out) == len(types):
        named = f" but {', '.join(left_out)}, without values or with different texts in all rows"
        raise CredoError(
            f"the table has no column besides the target '{target}'{named if left_out else ''}"
        )
    _note_left_out(types, left_out)
    numeric = [(name, found.format) for name, found in types.items() if found.kind == "numeric"]
    categorical = [name for name, found in types.items() if found.kind == "categorical"]
    encoder = TableEncoder(
        tuple(fit_numeric(frame, name, format) for name, format in numeric),
        tuple(fit_categorical(frame, name) for name in categorical),
        fit_target(frame, target, task or infer_task(frame, target)),
        tuple(left_out),
    )
    warn_of_suspicions(encoder, frame)
    return encoder


def _note_left_out(types: dict[str, ColumnType], left_out: list[str]) -> None:
    reasons = {"empty": "it has no values", "unique": "nearly every row has a text of its own"}
    for name in left_out:
        warnings.warn(
            f"column '{name}' is left out: {reasons[types[name].kind]}", CredoNote, stacklevel=3
        )


def encode(encoder: TableEncoder, frame: "pd.DataFrame") -> np.ndarray:
    """Inputs for a network, float32, one row per row; columns are found by name.

    The target column may be there or not; further columns are ignored, missing ones are refused.
    """
    check_frame(frame)
    missing = [name for name in encoder.columns if name not in frame.columns]
    known = (*encoder.columns, encoder.target.name, *encoder.left_out)
    surplus = [name for name in frame.columns if name not in known]
    if missing:
        besides = f" and has the unknown {', '.join(surplus)}" if surplus else ""
        raise CredoError(
            f"the table lacks {', '.join(missing)}{besides}; the model was fitted on the "
            f"{len(encoder.columns)} columns {', '.join(encoder.columns)}"
        )
    if surplus:
        named = ", ".join(surplus[:5]) + (", …" if len(surplus) > 5 else "")
        warnings.warn(
            f"ignored columns that the model was not fitted on: {named}", CredoNote, stacklevel=2
        )
    parts = [encode_numeric(column, frame) for column in encoder.numeric]
    parts += [encode_categorical(column, frame) for column in encoder.categorical]
    return np.concatenate(parts, axis=1)


def encode_target(encoder: TableEncoder, frame: "pd.DataFrame") -> np.ndarray:
    """Class numbers (int32), or standardized values (float32)."""
    return target_values(encoder.target, frame)


def own_targets(encoder: TableEncoder, frame: "pd.DataFrame") -> np.ndarray:
    """Class numbers, or quantities in their own units."""
    return own_values(encoder.target, frame)


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
