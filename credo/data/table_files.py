"""A user's own table: reading it from a file, and setting rows aside for the test."""

import os
import warnings
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from credo.data.columns import category_codes, writes_decimal_commas
from credo.data.delimited import separator, text_encoding
from credo.errors import CredoError, CredoNote

if TYPE_CHECKING:
    import pandas as pd


def read_table(path: str | os.PathLike[str], text_columns: Sequence[str] = ()) -> "pd.DataFrame":
    """The table in a file, with the names of its columns in the first line.

    Numbers that pandas does not read as such, with decimal commas for instance, stay texts, as
    dates do: `fit_encoder` learns from the whole column how to read them.

    Args:
        path: ends in .csv or .tsv (also with .gz; commas, semicolons, tabs or bars; UTF-8, UTF-16
            or Latin-1), .xlsx (its first sheet) or .parquet.
        text_columns: columns to keep as text although they may look like numbers; give
            `encoder.text_columns` when reading data for a fitted encoder.
    """
    path = Path(path)
    reader = next((READERS[e] for e in READERS if path.name.lower().endswith(e)), None)
    if reader is None:
        raise CredoError(f"cannot read '{path}': expected a file that ends in {TABLE_ENDINGS}")
    if not path.is_file():
        raise CredoError(f"there is no file '{path}'")
    try:
        frame = reader(path, text_columns)
    except CredoError:
        raise
    except (OSError, EOFError, ValueError, LookupError, Warning, zlib.error, BadZipFile) as error:
        reason = " ".join(str(error).split())
        raise CredoError(f"cannot read '{path}': {reason}") from error
    check_frame(frame, f"'{path}'")
    return frame


def is_table_file(path: str) -> bool:
    """Whether a name ends like that of a table."""
    return path.lower().endswith(tuple(READERS))


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


def _read_delimited(path: Path, text_columns: Sequence[str]) -> "pd.DataFrame":
    import pandas as pd

    encoding = text_encoding(path)
    how: dict[str, Any] = {
        "sep": separator(path, encoding),
        "encoding": encoding,
        "skipinitialspace": True,
    }
    # pandas would rename repeated names, so the header is looked at by itself first
    header = pd.read_csv(path, header=None, nrows=1, dtype=str, **how)
    _check_header(header.iloc[0].tolist(), path)

    def read(texts: Iterable[str]) -> "pd.DataFrame":
        with warnings.catch_warnings():
            # rows longer than the header are only warned of
            warnings.simplefilter("error", pd.errors.ParserWarning)
            types = dict.fromkeys(texts, str)
            return pd.read_csv(path, index_col=False, low_memory=False, dtype=types, **how)

    frame = read(text_columns)
    if not writes_decimal_commas(frame):
        return frame
    # 1.234 is a number to pandas, and may be a thousand in such a file
    return read([*text_columns, *frame.select_dtypes("floating").columns])


def _read_excel(path: Path, text_columns: Sequence[str]) -> "pd.DataFrame":
    import pandas as pd

    del text_columns  # a workbook knows the types of its cells
    try:
        import openpyxl  # noqa: F401
    except ImportError:
        raise CredoError(
            f"'{path}' needs the extra 'excel': pip install 'credo-bayes[excel]', or save it as CSV"
        ) from None
    with pd.ExcelFile(path, engine="openpyxl") as book:
        cells = pd.read_excel(book, header=None)
        if len(book.sheet_names) > 1:
            first = book.sheet_names[0]
            warnings.warn(f"'{path}': read its first sheet, '{first}'", CredoNote, stacklevel=2)
    if not len(cells):
        raise CredoError(f"'{path}' has no cells")
    names = cells.iloc[0].tolist()
    _check_header(names, path)
    return cells.iloc[1:].reset_index(drop=True).set_axis(names, axis=1).infer_objects()


def _read_parquet(path: Path, text_columns: Sequence[str]) -> "pd.DataFrame":
    import pandas as pd

    del text_columns  # a Parquet file knows the types of its columns
    return pd.read_parquet(path).reset_index(drop=True)


READERS: dict[str, Callable[[Path, Sequence[str]], "pd.DataFrame"]] = {
    ".csv": _read_delimited,
    ".csv.gz": _read_delimited,
    ".tsv": _read_delimited,
    ".tsv.gz": _read_delimited,
    ".xlsx": _read_excel,
    ".parquet": _read_parquet,
}
TABLE_ENDINGS = ".csv, .tsv (or .gz of them), .xlsx or .parquet"


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
