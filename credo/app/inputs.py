"""Data on the command line: the name of a data set, or a table of the user's own."""

import hashlib
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from tyro.conf import Positional, arg

from credo import data as credo_data
from credo.data import Dataset, TableEncoder
from credo.errors import CredoError
from credo.posterior import Posterior

Data = Annotated[Positional[str], arg(metavar="DATA")]
ModelFile = Annotated[Positional[Path], arg(metavar="FILE")]
DataFolder = Annotated[
    Path | None, arg(metavar="DIR", help_behavior_hint="(default: environment variable CREDO_DATA)")
]
TABLES = (".csv", ".parquet")


class Rows(NamedTuple):
    """Inputs as the model takes them, and targets in their own units (None: not asked for)."""

    x: np.ndarray
    y: np.ndarray | None


def is_table(data: str) -> bool:
    return data.lower().endswith(TABLES)


def load_named(data: str, data_dir: Path | None) -> Dataset:
    """A named data set; the error also says what a file would have to look like."""
    if Path(data).is_file():
        raise CredoError(f"cannot read '{data}': a table ends in .csv or .parquet; convert it")
    return credo_data.load(data, data_dir=data_dir)


def model_rows(posterior: Posterior, data: str, data_dir: Path | None, with_target: bool) -> Rows:
    """Rows for a fitted model: the test part of a named data set, or all rows of a file."""
    extra = posterior.record.extra
    stored = extra.get("encoder")
    if stored is None:
        return _named_rows(extra, data, data_dir, with_target)
    encoder = TableEncoder.from_json(stored)
    if not is_table(data):
        raise CredoError(
            f"the model was fitted on a table, so it cannot read the data set '{data}'; give a "
            f".csv or .parquet file with the columns {', '.join(encoder.columns)}"
        )
    frame = credo_data.read_table(data, encoder.text_columns)
    x = credo_data.encode(encoder, frame)
    if not with_target:
        return Rows(x, None)
    y = credo_data.encode_target(encoder, frame)
    return Rows(x, y if encoder.target.classes else encoder.target.mean + encoder.target.std * y)


def digest(path: str) -> str:
    """Recognises a file that a model was fitted on."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _named_rows(extra: dict, data: str, data_dir: Path | None, with_target: bool) -> Rows:
    if is_table(data):
        origin = f"on the data set '{extra['data']}'" if "data" in extra else "in Python"
        raise CredoError(
            f"the model was fitted {origin} and does not know how to read the columns of a table; "
            "give the name of a data set, or fit the table with credo fit"
        )
    dataset = load_named(data, data_dir)
    known = extra.get("classes")
    if with_target and known and list(dataset.classes or ()) != list(known):
        raise CredoError(
            f"'{data}' has other classes than the model, which knows {', '.join(known)}; to see "
            "how the model takes inputs from elsewhere, give it as --ood"
        )
    return Rows(dataset.test.x, dataset.test.y)
