"""What is learned from a user's table and kept with the model, as plain values."""

import math
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from credo.errors import CredoError
from credo.saving import Saveable

TableTask = Literal["classification", "regression"]
DecimalMark = Literal[".", ","]
DateOrder = Literal["ymd", "dmy", "mdy"]
MONEY = ("€", "$", "£", "¥", "₹", "₩", "₽", "EUR", "USD", "GBP", "CHF", "JPY", "CZK", "PLN", "SEK",
         "NOK", "DKK", "Kč", "zł", "kr")  # fmt: skip


@dataclass(frozen=True)
class CellFormat(Saveable):
    """How the numbers of a column are written: new tables are read as the training rows were."""

    decimal: DecimalMark = "."
    """Before the fraction of a number in a text."""
    unit: str = ""
    """A currency, or "%": numbers are what stands before it."""
    first_day: str | None = None
    """Of a column of dates: the first day of the training rows, from which days are counted."""
    date_order: DateOrder = "ymd"
    """Of dates in texts: whether year, day or month comes first."""

    def __post_init__(self) -> None:
        if self.unit not in ("", "%", *MONEY):
            raise CredoError(f"{self.unit!r:.60} is no unit that credo knows")
        if self.first_day is not None:
            date.fromisoformat(self.first_day)


@dataclass(frozen=True)
class NumericColumn(Saveable):
    """A column of numbers: `(value - mean) / std`, where a missing value counts as `fill`.

    `fill` is the training median; `indicator` adds a 0/1 column that marks missing values, and is
    set where the training data had some.
    """

    name: str
    mean: float
    std: float
    fill: float
    indicator: bool
    format: CellFormat = CellFormat()

    def __post_init__(self) -> None:
        _check_scale(self.name, self.mean, self.std)
        if not math.isfinite(self.fill):
            raise CredoError(f"column {self.name!r} fills missing values with {self.fill}")


@dataclass(frozen=True)
class CategoricalColumn(Saveable):
    """A column of labels: one 0/1 column per category, all 0 for a category unseen in training.

    `missing` adds a column for missing values, and is set where the training data had some.
    """

    name: str
    categories: tuple[str, ...]
    missing: bool

    def __post_init__(self) -> None:
        _check_distinct(self.categories, f"categories of column {self.name!r}")


@dataclass(frozen=True)
class TargetColumn(Saveable):
    """The classes in order, or the mean and standard deviation to undo with `y * std + mean`."""

    name: str
    task: TableTask
    classes: tuple[str, ...] | None = None
    mean: float = 0.0
    std: float = 1.0
    format: CellFormat = CellFormat()

    def __post_init__(self) -> None:
        _check_scale(self.name, self.mean, self.std)
        if (self.classes is not None) != (self.task == "classification"):
            raise CredoError(f"column {self.name!r} has classes if and only if these are its task")
        _check_distinct(self.classes or (), f"classes of column {self.name!r}")
        if self.format.first_day is not None:
            raise CredoError(f"column {self.name!r} is predicted, and holds dates")

    @property
    def has_numbered_classes(self) -> bool:
        """Whether the classes might be meant as numbers."""
        return self.classes is not None and all(map(is_number, self.classes))


@dataclass(frozen=True)
class TableEncoder(Saveable):
    """How a table becomes numbers: numeric columns first, then categorical ones."""

    numeric: tuple[NumericColumn, ...]
    categorical: tuple[CategoricalColumn, ...]
    target: TargetColumn
    left_out: tuple[str, ...] = ()
    """Columns of the training rows that say nothing: without values, or all of different texts."""

    def __post_init__(self) -> None:
        _check_distinct((*self.columns, self.target.name, *self.left_out), "columns")
        if not self.columns:
            raise CredoError("a table needs columns besides its target")

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that `encode` needs."""
        return tuple(c.name for c in self.numeric) + tuple(c.name for c in self.categorical)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the columns that `encode` returns."""
        names: list[str] = []
        for column in self.numeric:
            names += [column.name, f"{column.name} missing"][: 1 + column.indicator]
        for each in self.categorical:
            names += [f"{each.name}={category}" for category in each.categories]
            names += [f"{each.name} missing"] * each.missing
        return tuple(names)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Columns that `read_table` should keep as text."""
        names = [column.name for column in self.categorical]
        names += [column.name for column in self.numeric if column.format.decimal == ","]
        named = any(not is_number(label) for label in self.target.classes or ())
        if named or self.target.format.decimal == ",":
            names.append(self.target.name)
        return tuple(names)

    def encode(self, frame: Any) -> Any:
        """Inputs for a network, float32, one row per row; columns are found by name."""
        from credo.data.table import encode

        return encode(self, frame)


def _check_distinct(names: tuple[str, ...], what: str) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise CredoError(f"the {what} must differ, got {twice!r} twice")


def _check_scale(name: str, mean: float, std: float) -> None:
    if not (math.isfinite(mean) and 0 < std < math.inf):
        raise CredoError(f"column {name!r} has no finite mean and positive standard deviation")


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
