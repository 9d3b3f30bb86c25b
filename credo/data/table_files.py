"""A user's own table: reading it from a file, and setting rows aside for the test."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from credo.data.columns import category_codes
from credo.errors import CredoError

if TYPE_CHECKING:
    import pandas as pd


def read_table(path: str | os.PathLike[str], text_columns: Sequence[str] = ()) -> "pd.DataFrame":
    """The table in a CSV file (commas, UTF-8, names in the first line) or a Parquet file.

    Args:
        path: ends in .csv or .parquet.
        text_columns: columns of a CSV file to keep as text although they may look like numbers;
            give `encoder.text_columns` when reading data for a fitted encoder.
    """
    path = Path(path)
    readers = {".csv": _read_csv, ".parquet": _read_parquet}
    if path.suffix.lower() not in readers:
        raise CredoError(f"cannot read '{path}': expected a file that ends in .csv or .parquet")
    if not path.is_file():
        raise CredoError(f"there is no file '{path}'")
    try:
        frame = readers[path.suffix.lower()](path, text_columns)
    except CredoError:
        raise
    except (OSError, ValueError, Warning) as error:
        reason = " ".join(str(error).split())
        raise CredoError(f"cannot read '{path}': {reason}") from error
    check_frame(frame, f"'{path}'")
    return frame


def split_table(
    frame: "pd.DataFrame", test_fraction: float, seed: int, *, target: str | None = None
) -> tuple["pd.DataFrame", "pd.DataFrame"]:
    """Training and test rows, drawn at random.

    Args:
        frame: the table.
        test_fraction: share of the rows to test on, above 0 and below 1.
        seed: the same seed gives the same rows.
        target: column of classes to balance: each keeps its share in both parts, to the nearest
            row, and at least one row to train on.

    Example:
        >>> import pandas as pd
        >>> train, test = split_table(pd.DataFrame({"x": range(10)}), 0.2, seed=0)
        >>> len(train), len(test)
        (8, 2)
    """
    if not 0 < test_fraction < 1:
        raise CredoError(f"test_fraction must lie between 0 and 1, got {test_fraction}")
    if len(frame) < 2:
        raise CredoError(f"a table of {len(frame)} rows cannot be split; give at least two")
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(frame))
    # Systematic sampling: every 1/test_fraction-th row of the order, from a random start.
    marks = np.floor(np.arange(len(frame) + 1) * test_fraction + generator.random())
    chosen = np.diff(marks) > 0
    if target is not None:
        codes = category_codes(frame, target)[0]
        order = order[np.argsort(codes[order], kind="stable")]
        chosen &= np.diff(codes[order], prepend=-2) == 0  # the first row of a class is to train on
    if chosen.all() or not chosen.any():
        chosen = np.arange(len(frame)) == len(frame) - 1
    return frame.iloc[np.sort(order[~chosen])], frame.iloc[np.sort(order[chosen])]


def check_frame(frame: "pd.DataFrame", origin: str = "the table") -> None:
    """Refuses tables without rows, with repeated or with nameless columns."""
    names = list(frame.columns)
    repeated = sorted({str(name) for name in names if names.count(name) > 1})
    if repeated:
        raise CredoError(f"{origin} has several columns named {', '.join(repeated)}; rename them")
    odd = [name for name in names if not isinstance(name, str)]
    if odd:
        raise CredoError(f"{origin} has a column named {odd[0]!r}; column names must be text")
    if len(frame) == 0:
        raise CredoError(f"{origin} has no rows")


def _read_csv(path: Path, text_columns: Sequence[str]) -> "pd.DataFrame":
    import pandas as pd

    # pandas would rename repeated names, so the header is looked at by itself first
    header = pd.read_csv(path, header=None, nrows=1, dtype=str, encoding="utf-8-sig")
    _check_header(header.iloc[0].tolist(), path)
    with warnings.catch_warnings():
        # rows longer than the header are only warned of
        warnings.simplefilter("error", pd.errors.ParserWarning)
        return pd.read_csv(
            path,
            index_col=False,
            low_memory=False,
            encoding="utf-8-sig",
            dtype=dict.fromkeys(text_columns, str),
        )


def _read_parquet(path: Path, text_columns: Sequence[str]) -> "pd.DataFrame":
    import pandas as pd

    del text_columns  # a Parquet file knows the types of its columns
    return pd.read_parquet(path).reset_index(drop=True)


def _check_header(names: list[str | float], path: Path) -> None:
    import pandas as pd

    repeated = sorted({str(name) for name in names if names.count(name) > 1})
    if not pd.to_numeric(pd.Series(names), errors="coerce").isna().any():
        raise CredoError(
            f"the first line of '{path}' has numbers instead of column names ({names[0]}, ...); "
            "add a line of names at the top"
        )
    if any(not isinstance(name, str) for name in names):
        place = [isinstance(name, str) for name in names].index(False) + 1
        raise CredoError(f"column {place} of '{path}' has no name; name it or remove it")
    if repeated:
        raise CredoError(f"'{path}' has several columns named {', '.join(repeated)}; rename them")
    if len(names) == 1 and any(mark in str(names[0]) for mark in ";\t|"):
        raise CredoError(f"'{path}' has one column, '{names[0]}'; separate the columns by commas")
