"""What looks wrong in a table although it can be fitted, and what was understood of it."""

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from credo.data.columns import category_codes, numbers
from credo.data.encoder import TableEncoder
from credo.data.targets import own_values
from credo.errors import CredoWarning

if TYPE_CHECKING:
    import pandas as pd

LEAK_CORRELATION = 0.9999
FEWEST_ROWS = 10  # in fewer, much is alike by chance


def table_summary(encoder: TableEncoder, frame: "pd.DataFrame") -> str:
    """What was understood of a table, in one line.

    Example:
        >>> import pandas as pd
        >>> from credo.data import fit_encoder
        >>> table = pd.DataFrame({"a": [1, 2, None, 4], "b": [*"uuvu"], "y": [1.5, 2.5, 2.0, 4.0]})
        >>> table_summary(fit_encoder(table, "y"), table)
        'y: regression, 4 rows, 2 columns: 1 numeric, 1 category, 1 gap'
    """
    target = encoder.target
    task = (
        target.task if target.classes is None else f"{target.task}, {len(target.classes)} classes"
    )
    dates = sum(column.format.first_day is not None for column in encoder.numeric)
    parts = [
        f"{len(encoder.numeric) - dates} numeric",
        _counted(dates, "date", "dates"),
        _counted(len(encoder.categorical), "category", "categories"),
        _counted(len(encoder.left_out), "left out", "left out"),
        _counted(int(frame[list(encoder.columns)].isna().to_numpy().sum()), "gap", "gaps"),
    ]
    count = len(encoder.columns) + len(encoder.left_out)
    columns = f"{count} column{'s' if count > 1 else ''}"
    listed = ", ".join(part for part in parts if part)
    return f"{target.name}: {task}, {len(frame)} rows, {columns}: {listed}"


def _counted(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}" if count else ""


def warn_of_suspicions(encoder: TableEncoder, frame: "pd.DataFrame") -> None:
    """Warn of classes with one row, columns that never change, and columns that give all away."""
    if len(frame) < FEWEST_ROWS:
        return
    target = encoder.target.name
    leaks = [
        f"column '{name}' gives the target '{target}' away in all rows: if it is not known before "
        "the target is, remove it"
        for name in _leaks(encoder, frame)
    ]
    for suspicion in (*_lone_classes(encoder, frame), *_constants(encoder, frame), *leaks):
        warnings.warn(suspicion, CredoWarning, stacklevel=3)


def _lone_classes(encoder: TableEncoder, frame: "pd.DataFrame") -> Iterator[str]:
    target = encoder.target
    if target.classes is None:
        return
    counts = np.bincount(own_values(target, frame), minlength=len(target.classes))
    lone = [name for name, count in zip(target.classes, counts) if count == 1]
    if lone:
        named = ", ".join(lone[:5]) + (", …" if len(lone) > 5 else "")
        yield (
            f"only one row to learn from has the class {named}; gather more rows, or join it with "
            f"another class of '{target.name}'"
        )


def _constants(encoder: TableEncoder, frame: "pd.DataFrame") -> Iterator[str]:
    names = [name for name in encoder.columns if frame[name].nunique(dropna=False) == 1]
    if names:
        named = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        yield f"the same value in all rows to learn from, of which nothing is learned: {named}"


def _leaks(encoder: TableEncoder, frame: "pd.DataFrame") -> list[str]:
    """Columns that correlate fully with a quantity, or have one value for each class."""
    values = own_values(encoder.target, frame)
    if encoder.target.classes is not None:
        return [name for name in encoder.columns if _is_one_to_one(frame, name, values)]
    return [
        column.name
        for column in encoder.numeric
        if _correlation(numbers(frame, column.name, column.format), values) > LEAK_CORRELATION
    ]


def _is_one_to_one(frame: "pd.DataFrame", name: str, classes: np.ndarray) -> bool:
    codes = category_codes(frame, name)[0]
    pairs = len({*zip(codes.tolist(), classes.tolist())})
    return pairs == len(np.unique(codes)) == len(np.unique(classes))


def _correlation(values: np.ndarray, target: np.ndarray) -> float:
    """Its absolute value, over the rows that have a value."""
    known = ~np.isnan(values)
    if known.sum() < FEWEST_ROWS or not (np.ptp(values[known]) and np.ptp(target[known])):
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # of huge numbers
        return abs(float(np.corrcoef(values[known], target[known])[0, 1]))
