"""Columns of a user's table: what kind each is, what is learnt from it, how it becomes numbers."""

import math
import warnings
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from credo.data.encoder import CategoricalColumn, NumericColumn
from credo.errors import CredoError, CredoWarning

if TYPE_CHECKING:
    import pandas as pd

# A text column with more different values than this is an identifier or prose, not a category.
MAX_CATEGORIES = 1000
NUMBER_TYPES = {"integer", "floating", "mixed-integer-float", "decimal"}
CATEGORY_TYPES = {"boolean", "categorical"}
TEXT_TYPES = {"string", "mixed-integer"}
DATE_PATTERN = r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}"
CONVERT = "convert it to numbers or plain categories"


def fit_numeric(frame: "pd.DataFrame", name: str) -> NumericColumn:
    """Mean, standard deviation and median of the values that are there."""
    values = numbers(frame, name)
    present = values[~np.isnan(values)]
    with np.errstate(over="ignore", invalid="ignore"):
        mean, std = float(present.mean()), float(present.std())
        fill = float(np.median(present))
    if not math.isfinite(mean + std + fill):
        raise CredoError(f"the values of column '{name}' are too large to standardize; rescale it")
    constant = present.min() == present.max() or std == 0
    return NumericColumn(name, mean, 1.0 if constant else std, fill, len(present) < len(values))


def encode_numeric(column: NumericColumn, frame: "pd.DataFrame") -> np.ndarray:
    """The standardized values, and the missing-value marks where the column has them."""
    values = numbers(frame, column.name)
    missing = np.isnan(values)
    with np.errstate(over="ignore"):
        filled = (np.where(missing, column.fill, values) - column.mean) / column.std
        encoded = filled.astype(np.float32)
    if not np.isfinite(encoded).all():
        position = int(np.argmin(np.isfinite(encoded)))
        raise CredoError(
            f"{_cell(frame, column.name, position)} is too large; correct or remove it"
        )
    return np.stack([encoded, missing] if column.indicator else [encoded], 1, dtype=np.float32)


def fit_categorical(frame: "pd.DataFrame", name: str) -> CategoricalColumn:
    """The categories that occur, sorted."""
    codes, categories = category_codes(frame, name)
    if len(categories) > MAX_CATEGORIES:
        raise CredoError(
            f"column '{name}' has {len(categories)} different texts, more than {MAX_CATEGORIES}: "
            "it looks like an identifier or free text; remove it or group its values"
        )
    return CategoricalColumn(name, sort_labels(categories), bool((codes < 0).any()))


def encode_categorical(column: CategoricalColumn, frame: "pd.DataFrame") -> np.ndarray:
    """One 0/1 column per category, and one for missing values where the column has it."""
    codes, labels = category_codes(frame, column.name)
    _warn_of_unseen(column, codes, labels)
    place = {category: index for index, category in enumerate(column.categories)}
    unseen, width = len(place) + 1, len(place) + column.missing
    # Codes are -1 for missing values, so their place goes last.
    targets = np.array([place.get(label, unseen) for label in labels] + [len(place)])
    one_hot = np.eye(unseen + 1, width, dtype=np.float32)
    return one_hot[targets[codes]]


def _warn_of_unseen(column: CategoricalColumn, codes: np.ndarray, labels: Any) -> None:
    """Say what the model cannot know of: it sees such rows as having no category at all."""
    known = set(column.categories)
    unseen = [label for label in labels if label not in known]
    rows = int(np.isin(codes, [i for i, label in enumerate(labels) if label not in known]).sum())
    if not column.missing and (codes < 0).any():
        unseen, rows = [*unseen, "missing"], rows + int((codes < 0).sum())
    if rows:
        named = ", ".join(map(str, unseen[:3])) + (", …" if len(unseen) > 3 else "")
        warnings.warn(
            f"column '{column.name}': {rows} of {len(codes)} rows have values that the training "
            f"data did not have ({named}); read their predictions with care",
            CredoWarning,
            stacklevel=2,
        )


def column_kind(frame: "pd.DataFrame", name: str) -> Literal["numeric", "categorical"]:
    """Numeric or categorical; dates, lists and the like are refused.

    Text is numeric if all of it reads as numbers, a mistake if more than half of it does, and
    categorical otherwise. True/false columns are categorical.
    """
    import pandas as pd

    series = frame[name]
    inferred = pd.api.types.infer_dtype(series, skipna=True)
    if series.isna().all():
        raise CredoError(f"column '{name}' has no values; remove it")
    if inferred in NUMBER_TYPES:
        return "numeric"
    if inferred in CATEGORY_TYPES:
        return "categorical"
    if inferred not in TEXT_TYPES:
        raise CredoError(f"column '{name}' holds {inferred} values; {CONVERT}")
    texts = series.value_counts()  # each text once: long tables repeat few
    if texts.index.astype(str).str.fullmatch(DATE_PATTERN).all():
        raise CredoError(f"column '{name}' holds dates; {CONVERT}")
    readable = pd.to_numeric(texts.index.to_series(), errors="coerce").notna().to_numpy()
    if readable.all():
        return "numeric"
    if texts[readable].sum() > texts[~readable].sum():
        position = int(np.argmax(series.isin(texts.index[~readable])))
        raise CredoError(
            f"{_cell(frame, name, position)} is not a number, as most of the column is; correct "
            "it, leave it empty if it is missing, or start all categories with a letter"
        )
    return "categorical"


def numbers(frame: "pd.DataFrame", name: str) -> np.ndarray:
    """The column as float64 with NaN for missing values; text and infinities are refused."""
    import pandas as pd

    series = frame[name]
    if series.dtype.kind in "mMc":  # pandas would count nanoseconds
        raise CredoError(f"column '{name}' holds {series.dtype} values; convert it to numbers")
    values = pd.to_numeric(series, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    text = np.isnan(values) & series.notna().to_numpy()
    if text.any():
        cell = _cell(frame, name, int(np.argmax(text)))
        raise CredoError(f"{cell} is not a number; correct it, or leave it empty if it is missing")
    infinite = np.isinf(values)
    if infinite.any():
        cell = _cell(frame, name, int(np.argmax(infinite)))
        raise CredoError(f"{cell} is infinite; correct it, or leave it empty if it is missing")
    return values


def category_codes(frame: "pd.DataFrame", name: str) -> tuple[np.ndarray, list[str]]:
    """For each row a position in the list of labels, -1 where the value is missing."""
    import pandas as pd

    try:
        codes, values = pd.factorize(frame[name])
    except TypeError as error:
        raise CredoError(f"column '{name}' holds values that are no categories: {error}") from error
    return codes, [label(value) for value in values]


def label(value: Hashable) -> str:
    """The one spelling of a category, however a file's reader typed it: 1.0 is '1'.

    Example:
        >>> label(1.0), label(True), label("true"), label("01")
        ('1', 'True', 'True', '01')
    """
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    text = str(value)
    return text.capitalize() if text.lower() in ("true", "false") else text


def sort_labels(labels: list[str]) -> tuple[str, ...]:
    """Without repeats; in the order of numbers if all are numbers, else of the alphabet."""
    unique = sorted(set(labels))
    try:
        return tuple(sorted(unique, key=float))
    except ValueError:
        return tuple(unique)


def row_name(frame: "pd.DataFrame", position: int) -> str:
    """How a user finds a row: counted from 1, without the header."""
    index = frame.index[position]
    return f"row {index + 1}" if isinstance(index, (int, np.integer)) else f"row {index!r}"


def _cell(frame: "pd.DataFrame", name: str, position: int) -> str:
    value = frame[name].iloc[position]
    shown = repr(value) if isinstance(value, str) else value
    return f"column '{name}', {row_name(frame, position)}: {shown}"
