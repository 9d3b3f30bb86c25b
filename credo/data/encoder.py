"""What is learnt from a user's table and kept with the model: small, readable, plain JSON."""

import json
import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from credo.errors import CredoError

TableTask = Literal["classification", "regression"]


@dataclass(frozen=True)
class NumericColumn:
    """A column of numbers: `(value - mean) / std`, where a missing value counts as `fill`.

    `fill` is the training median; `indicator` adds a 0/1 column that marks missing values, and is
    set where the training data had some.
    """

    name: str
    mean: float
    std: float
    fill: float
    indicator: bool


@dataclass(frozen=True)
class CategoricalColumn:
    """A column of labels: one 0/1 column per category, all 0 for a category unseen in training.

    `missing` adds a column for missing values, and is set where the training data had some.
    """

    name: str
    categories: tuple[str, ...]
    missing: bool


@dataclass(frozen=True)
class TargetColumn:
    """The classes in order, or the mean and standard deviation to undo with `y * std + mean`."""

    name: str
    task: TableTask
    classes: tuple[str, ...] | None = None
    mean: float = 0.0
    std: float = 1.0


@dataclass(frozen=True)
class TableEncoder:
    """How a table becomes numbers: numeric columns first, then categorical ones."""

    numeric: tuple[NumericColumn, ...]
    categorical: tuple[CategoricalColumn, ...]
    target: TargetColumn

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
        named = any(not _is_number(label) for label in self.target.classes or ())
        return tuple(c.name for c in self.categorical) + (self.target.name,) * named

    def to_json(self) -> str:
        """Everything, as JSON text."""
        return json.dumps(asdict(self), allow_nan=False)

    @staticmethod
    def from_json(text: str) -> "TableEncoder":
        """The encoder that `to_json` wrote."""
        try:
            fields = json.loads(text)
            encoder = TableEncoder(
                tuple(NumericColumn(**column) for column in fields["numeric"]),
                tuple(CategoricalColumn(**_tupled(column)) for column in fields["categorical"]),
                TargetColumn(**_tupled(fields["target"])),
            )
            _check_values(encoder)
            return encoder
        except (ValueError, TypeError, KeyError) as error:
            raise CredoError(f"the stored table encoding is damaged ({error})") from error


def _check_values(encoder: TableEncoder) -> None:
    scales = [(column.mean, column.std) for column in encoder.numeric]
    scales += [(encoder.target.mean, encoder.target.std)]
    scales += [(column.fill, 1.0) for column in encoder.numeric]
    labels = [label for column in encoder.categorical for label in column.categories]
    if not all(math.isfinite(mean) and 0 < std < math.inf for mean, std in scales):
        raise ValueError("a mean or standard deviation is not a number")
    if not all(isinstance(text, str) for text in (*encoder.columns, encoder.target.name, *labels)):
        raise ValueError("a name or category is not text")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _tupled(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()
    }
