"""Data on the command line: the name of a data set, or a table of the user's own."""

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from tyro.conf import Positional, arg

from credo import data as credo_data
from credo.data import Dataset, TableEncoder
from credo.data.table import own_targets
from credo.data.table_files import TABLE_ENDINGS, is_table_file
from credo.errors import CredoError
from credo.posterior import Posterior, Record

if TYPE_CHECKING:
    import pandas as pd

Data = Annotated[Positional[str], arg(metavar="DATA")]
ModelFile = Annotated[Positional[Path], arg(metavar="FILE")]
DataFolder = Annotated[
    Path | None, arg(metavar="DIR", help_behavior_hint="(default: environment variable CREDO_DATA)")
]


class Rows(NamedTuple):
    """Rows as the user has them: a data frame or an array, and targets in their own units."""

    x: Any
    y: np.ndarray
    """Quantities, or names of classes; class numbers only where the classes have no names."""


def is_table(data: str) -> bool:
    return is_table_file(data)


def kind_of(data: str) -> str:
    """What an argument names, for messages."""
    if os.path.isdir(data):
        return "a folder"
    return "a file of another kind" if os.path.isfile(data) else "the name of a data set"


def load_named(data: str, data_dir: Path | None) -> Dataset:
    """A named data set; the error also says what a file would have to look like."""
    if Path(data).is_file():
        raise CredoError(f"cannot read '{data}': a table ends in {TABLE_ENDINGS}; convert it")
    return credo_data.load(data, data_dir=data_dir)


def digest(path: str) -> str:
    """Recognises a file that a model was fitted on."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def by_name(classes: tuple[str, ...] | None, codes: np.ndarray) -> np.ndarray:
    """Targets as `credo.fit` and `credo.evaluate` take them.

    Names, because numbers would be taken for names where the classes are called 1, 2, 3.
    """
    return codes if classes is None else np.asarray(classes, object)[codes]


def table_rows(encoder: TableEncoder, frame: Any) -> Rows:
    """Rows of a table with its target."""
    return Rows(frame, by_name(encoder.target.classes, own_targets(encoder, frame)))


def model_inputs(posterior: Posterior, data: str, data_dir: Path | None) -> Any:
    """Rows for a fitted model: the test part of a named data set, or all rows of a file."""
    encoder = _encoder(posterior.record, data)
    if encoder is None:
        return load_named(data, data_dir).test.x
    return credo_data.read_table(data, encoder.text_columns)


def carried_columns(data: str, id: str | None, keep_all: bool) -> "pd.DataFrame":
    """Columns of a table to stand beside its predictions, as they are written in it."""
    if not is_table(data):
        raise CredoError(f"--id and --keep-columns need a table; '{data}' is {kind_of(data)}")
    names = list(credo_data.read_table(data).columns)
    if id is not None and id not in names:
        raise CredoError(f"--id: '{data}' has no column '{id}'; it has {', '.join(names)}")
    frame = credo_data.read_table(data, names)
    if not keep_all:
        return frame[[id]]
    return frame[sorted(names, key=lambda name: name != id)]  # the id first


def model_rows(posterior: Posterior, data: str, data_dir: Path | None) -> Rows:
    """The same with their targets."""
    encoder = _encoder(posterior.record, data)
    if encoder is not None:
        return table_rows(encoder, credo_data.read_table(data, encoder.text_columns))
    dataset = load_named(data, data_dir)
    known = posterior.record.units.classes
    if known is not None and dataset.classes != known:
        raise CredoError(
            f"'{data}' has other classes than the model, which knows {', '.join(known)}; to see "
            "how the model takes inputs from elsewhere, give it as --ood"
        )
    return Rows(dataset.test.x, by_name(known, dataset.test.y))


def _encoder(record: Record, data: str) -> TableEncoder | None:
    """How the model reads a table; None: it takes data sets by name."""
    encoder = record.units.inputs
    if isinstance(encoder, TableEncoder):
        if not is_table(data):
            raise CredoError(
                f"the model was fitted on a table and needs one; '{data}' is {kind_of(data)}: give "
                f"a file ({TABLE_ENDINGS}) with the columns {', '.join(encoder.columns)}"
            )
        return encoder
    if is_table(data):
        origin = "in Python" if record.origin is None else f"on the data set '{record.origin.data}'"
        raise CredoError(
            f"the model was fitted {origin} and does not know how to read the columns of a table; "
            "give the name of a data set, or fit the table with credo fit"
        )
    return None
