"""Columns of a user's table: what kind each is, what is learnt from it, how it becomes numbers."""

import math
import warnings
from collections.abc import Hashable
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from credo.data import cells
from credo.data.encoder import CategoricalColumn, CellFormat, DecimalMark, NumericColumn
from credo.errors import CredoError, CredoNote, CredoWarning

if TYPE_CHECKING:
    import pandas as pd

# A text column with more different values than this is an identifier or prose, not a category.
MAX_CATEGORIES = 1000
# So is one in which more than this share of at least so many texts is different.
UNIQUE_SHARE, FEWEST_UNIQUE = 0.95, 20
NUMBER_TYPES = {"integer", "floating", "mixed-integer-float", "decimal"}
CATEGORY_TYPES = {"boolean", "categorical"}
DATE_TYPES = {"datetime64", "datetime", "date"}
TEXT_TYPES = {"string", "mixed-integer", "mixed"}
PLAIN = CellFormat()
CONVERT = "convert it to numbers or plain categories"


class ColumnType(NamedTuple):
    """What a column holds."""

    kind: Literal["numeric", "categorical", "empty", "unique"]
    format: CellFormat = PLAIN


def fit_numeric(frame: "pd.DataFrame", name: str, format: CellFormat = PLAIN) -> NumericColumn:
    """Mean, standard deviation and median of the values that are there."""
    values = numbers(frame, name, format)
    present = values[~np.isnan(values)]
    with np.errstate(over="ignore", invalid="ignore"):
        mean, std = float(present.mean()), float(present.std())
        fill = float(np.median(present))
    if not math.isfinite(mean + std + fill):
        raise CredoError(f"the values of column '{name}' are too large to standardize; rescale it")
    constant = present.min() == present.max() or std == 0
    gaps = len(present) < len(values)
    return NumericColumn(name, mean, 1.0 if constant else std, fill, gaps, format)


def encode_numeric(column: NumericColumn, frame: "pd.DataFrame") -> np.ndarray:
    """The standardized values, and the missing-value marks where the column has them."""
    values = numbers(frame, column.name, column.format)
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
    codes, labels = category_codes(frame, name)
    categories = sort_labels([cells.one_spelling(each) for each in labels])
    return CategoricalColumn(name, categories, bool((codes < 0).any()))


def encode_categorical(column: CategoricalColumn, frame: "pd.DataFrame") -> np.ndarray:
    """One 0/1 column per category, and one for missing values where the column has it."""
    codes, labels = category_codes(frame, column.name)
    labels = [cells.one_spelling(each) for each in labels]
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


def column_type(frame: "pd.DataFrame", name: str) -> ColumnType:
    """What a column holds; lists and the like are refused.

    Text is numeric if all of it reads as numbers or as dates, a mistake if more than half of it
    does, and categorical otherwise; unless nearly every row has a text of its own. True/false
    columns are categorical.
    """
    import pandas as pd

    series = frame[name]
    if series.isna().all():
        return ColumnType("empty")
    inferred = pd.api.types.infer_dtype(series, skipna=True)
    if inferred in NUMBER_TYPES:
        return ColumnType("numeric")
    if inferred in CATEGORY_TYPES:
        return ColumnType("categorical")
    if inferred in DATE_TYPES:
        return ColumnType("numeric", CellFormat(first_day=_first_day(_instants(series))))
    if inferred not in TEXT_TYPES or not series.dropna().map(_is_plain).all():
        raise CredoError(f"column '{name}' holds {inferred} values; {CONVERT}")
    return _text_type(frame, name)


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | Real)


def _text_type(frame: "pd.DataFrame", name: str) -> ColumnType:
    series = frame[name]
    counts = series.value_counts()  # each text once: long tables repeat few
    dates = np.array([cells.is_date(text) for text in counts.index])
    if _is_kind(frame, name, counts, dates, "a date"):
        order = cells.date_order(counts.index[dates], name)
        draft = CellFormat(first_day="1970-01-01", date_order=order)
        days = numbers(frame, name, draft)
        return ColumnType("numeric", CellFormat(first_day=_first_day(days), date_order=order))
    decimal = decimal_mark(frame, name)
    found = [cells.read_number(text, decimal) for text in counts.index]
    if _is_kind(frame, name, counts, np.array([each is not None for each in found]), "a number"):
        units = {each.unit for each in found if each is not None}
        return ColumnType("numeric", CellFormat(decimal, _common_unit(name, units)))
    few = len(counts) <= max(FEWEST_UNIQUE, UNIQUE_SHARE * counts.sum())
    return ColumnType("categorical" if few and len(counts) <= MAX_CATEGORIES else "unique")


def _is_kind(
    frame: "pd.DataFrame", name: str, counts: "pd.Series", readable: np.ndarray, what: str
) -> bool:
    """Whether all texts of a column are readable as something; if only most are, an error."""
    if readable.all() or counts[readable].sum() <= counts[~readable].sum():
        return bool(readable.all())
    position = int(np.argmax(frame[name].isin(counts.index[~readable])))
    raise CredoError(
        f"{_cell(frame, name, position)} is not {what}, as most of the column is; correct "
        "it, leave it empty if it is missing, or start all categories with a letter"
    )


def _common_unit(name: str, units: set[str]) -> str:
    named = units - {""}
    if len(named) > 1 or ("%" in units and "" in units):
        listed = ", ".join(sorted(unit or "no unit" for unit in units))
        raise CredoError(f"column '{name}' mixes numbers with {listed}; write all of them alike")
    return next(iter(named), "")


def decimal_mark(frame: "pd.DataFrame", name: str) -> DecimalMark:
    """The decimal mark of a column of texts; the other columns decide where its own cannot."""
    found = _readable_share(frame[name])
    if found["."] != found[","]:
        return "." if found["."] > found[","] else ","
    either_way = [text for text in frame[name].dropna().unique() if _is_ambiguous(text)]
    if found["."] < 1 or not either_way:
        return "."
    others = [each for each in frame.columns if each != name]
    if writes_decimal_commas(frame[others]):
        return ","
    if not _writes_decimal_points(frame[others]):
        read = cells.read_number(either_way[0], ".")
        assert read is not None
        warnings.warn(
            f"column '{name}': {either_way[0]} is read as {read.value:g}; if that is wrong, write "
            "its numbers without groups of three digits",
            CredoNote,
            stacklevel=2,
        )
    return "."


def _is_ambiguous(text: Any) -> bool:
    return cells.read_number(text, ".") != cells.read_number(text, ",")


def writes_decimal_commas(frame: "pd.DataFrame") -> bool:
    """Whether some column of texts holds numbers that only a decimal comma explains."""
    return any(
        found[","] == 1 and found["."] < 1 for found in map(_readable_share, _text_columns(frame))
    )


def _writes_decimal_points(frame: "pd.DataFrame") -> bool:
    floats = frame.select_dtypes("floating")
    shares = map(_readable_share, _text_columns(frame))
    return bool((floats % 1 > 0).any(axis=None)) or any(
        found["."] == 1 and found[","] < 1 for found in shares
    )


def _text_columns(frame: "pd.DataFrame") -> "list[pd.Series]":
    import pandas as pd

    series = [frame[name] for name in frame.columns]
    return [each for each in series if pd.api.types.infer_dtype(each, skipna=True) == "string"]


def _readable_share(series: "pd.Series") -> dict[DecimalMark, float]:
    """The share of different texts that are numbers with a decimal point, and with a comma."""
    texts = series.dropna().unique()
    marks: tuple[DecimalMark, ...] = (".", ",")
    return {
        mark: float(
            np.mean([cells.read_number(text, mark) is not None for text in texts] or [False])
        )
        for mark in marks
    }


def numbers(frame: "pd.DataFrame", name: str, format: CellFormat = PLAIN) -> np.ndarray:
    """The column as float64 with NaN for missing values; text and infinities are refused.

    Dates are days since the first of the training rows.
    """
    series = frame[name]
    if format.first_day is not None:
        return _days(frame, name, format)
    if series.dtype.kind in "mMc":  # pandas would count nanoseconds
        raise CredoError(f"column '{name}' holds {series.dtype} values; convert it to numbers")
    if series.dtype.kind in "biuf":
        values = series.to_numpy(np.float64, na_value=np.nan)
        if format.unit == "%" and len(values):
            raise CredoError(
                f"column '{name}' has no percent signs, unlike the training data; write 12% as "
                "12%, not as 12 or 0.12"
            )
    else:
        values = _written_numbers(frame, name, format)
    infinite = np.isinf(values)
    if infinite.any():
        cell = _cell(frame, name, int(np.argmax(infinite)))
        raise CredoError(f"{cell} is infinite; correct it, or leave it empty if it is missing")
    return values


def _written_numbers(frame: "pd.DataFrame", name: str, format: CellFormat) -> np.ndarray:
    codes, texts = _different(frame, name)
    found = [cells.read_number(text, format.decimal) for text in texts]
    mark = "" if format.decimal == "." else " with a decimal comma, as in the training data"
    fix = f"is not a number{mark}; correct it, or leave it empty if it is missing"
    _refuse_unread(frame, name, codes, [each is None for each in found], fix)
    wrong = [each is not None and _is_other_unit(each.unit, format.unit) for each in found]
    known = format.unit or "no unit"
    _refuse_unread(
        frame, name, codes, wrong, f"has another unit than the training data, which had {known}"
    )
    return np.array([*(each.value for each in found if each is not None), np.nan])[codes]


def _is_other_unit(unit: str, known: str) -> bool:
    """A currency may be left out, a percent sign may not."""
    return unit != known and (unit != "" or known == "%")


def _days(frame: "pd.DataFrame", name: str, format: CellFormat) -> np.ndarray:
    import pandas as pd

    assert format.first_day is not None
    series = frame[name]
    if pd.api.types.infer_dtype(series, skipna=True) in DATE_TYPES:
        start = pd.Timestamp(format.first_day, tz="UTC")
        return ((_instants(series) - start) / pd.Timedelta(days=1)).to_numpy(np.float64)
    codes, texts = _different(frame, name)
    found = [cells.read_date(text, format.date_order) for text in texts]
    shown = {"ymd": "2024-01-31", "dmy": "31.1.2024", "mdy": "1/31/2024"}[format.date_order]
    fix = f"is not a date such as {shown}; correct it, or leave it empty if it is missing"
    _refuse_unread(frame, name, codes, [each is None for each in found], fix)
    return np.append(cells.days_since(format.first_day, found), np.nan)[codes]


def _instants(series: "pd.Series") -> "pd.Series":
    import pandas as pd

    return pd.to_datetime(series, utc=True)


def _first_day(instants: Any) -> str:
    """The day of the earliest instant, given as such or in days since 1970."""
    import pandas as pd

    if isinstance(instants, np.ndarray):
        return str(pd.Timestamp(0) + pd.Timedelta(days=math.floor(np.nanmin(instants))))[:10]
    return instants.min().date().isoformat()


def _different(frame: "pd.DataFrame", name: str) -> tuple[np.ndarray, list[Any]]:
    """For each row a position in the list of different values, -1 where the value is missing."""
    import pandas as pd

    try:
        codes, values = pd.factorize(frame[name])
    except TypeError as error:
        raise CredoError(f"column '{name}' holds values that are no categories: {error}") from error
    return codes, list(values)


def _refuse_unread(
    frame: "pd.DataFrame", name: str, codes: np.ndarray, unread: list[bool], fix: str
) -> None:
    if any(unread):
        position = int(np.argmax(np.isin(codes, np.flatnonzero(unread))))
        raise CredoError(f"{_cell(frame, name, position)} {fix}")


def category_codes(frame: "pd.DataFrame", name: str) -> tuple[np.ndarray, list[str]]:
    """For each row a position in the list of labels, -1 where the value is missing."""
    codes, values = _different(frame, name)
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
