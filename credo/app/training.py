"""Rows to learn from: a data set by its name, or a table of the user's own."""

import dataclasses
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from tyro.conf import arg

from credo import data as credo_data
from credo.app.inputs import Rows, by_name, digest, is_table, kind_of, load_named, table_rows
from credo.data import Dataset, Origin, Units
from credo.data.encoder import TableTask
from credo.data.suspicions import table_summary
from credo.data.table import infer_task
from credo.data.table_files import TABLE_ENDINGS
from credo.errors import CredoError, CredoWarning
from credo.posterior import Posterior

MovedTable = Annotated[str | None, arg(metavar="FILE", help_behavior_hint="")]


@dataclass(frozen=True)
class Training:
    """Rows to fit and rows to judge by, as the user has them, and what a model must remember."""

    train: Rows
    test: Rows | None
    units: Units
    origin: Origin | None
    summary: str = ""
    """What was understood of a table, in one line."""

    @property
    def num_rows(self) -> int:
        return len(self.train.y)

    @property
    def data(self) -> str:
        """Name of the data set, or path of the table."""
        return self.origin.data if self.origin else ""

    @property
    def seed(self) -> int:
        """That of the fit."""
        return self.origin.seed if self.origin else 0


def check_target(data: str, target: str | None) -> None:
    """A table needs --target, a data set has its own."""
    if is_table(data) and target is None:
        columns = ", ".join(map(str, credo_data.read_table(data).columns))
        raise CredoError(f"name the column to predict with --target; '{data}' has {columns}")
    if not is_table(data) and target is not None:
        raise CredoError(f"--target needs a table ({TABLE_ENDINGS}); '{data}' is {kind_of(data)}")


def training_rows(origin: Origin, data_dir: Path | None) -> Training:
    """The rows that an origin describes."""
    return _named(origin, data_dir) if origin.target is None else _table(origin)


def training_again(posterior: Posterior, moved: str | None, data_dir: Path | None) -> Training:
    """The rows that a model was fitted to by `credo fit`, and those it set aside."""
    origin = posterior.record.origin
    if origin is None:
        raise CredoError(
            "the model does not say which rows it was fitted to, as it was made in Python; use "
            "credo.extend and credo.laplace in Python, or fit it again"
        )
    if posterior.record.num_updates:
        raise CredoError(
            "the model has taken in other rows since its fit (credo update), which it does not "
            "remember; use it as it is, or fit a new one to all rows"
        )
    if origin.digest is None:
        if moved is not None:
            raise CredoError(f"--data is for tables; the model was fitted to '{origin.data}'")
        return training_rows(origin, data_dir)
    path = moved or origin.data
    if not Path(path).is_file():
        raise CredoError(
            f"the model was fitted to the table '{origin.data}', and there is no file '{path}' "
            "here; say where it is now with --data FILE"
        )
    if digest(path) != origin.digest:
        raise CredoError(
            f"'{path}' is not the table that the model was fitted to; give that one as --data, or "
            "fit a new model"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CredoWarning)  # the fit has said what it found
        rows = training_rows(dataclasses.replace(origin, data=path), data_dir)
    return dataclasses.replace(rows, summary="")


def _named(origin: Origin, data_dir: Path | None) -> Training:
    dataset = load_named(origin.data, data_dir)
    if dataset.task == "regression":
        units = Units.standardizing(y=dataset.train.y)
    else:
        units = Units(classes=dataset.classes)
    train, test = (
        Rows(part.x, by_name(units.classes, part.y)) for part in (dataset.train, dataset.test)
    )
    return Training(train, test if len(test.y) else None, units, origin)


def _table(origin: Origin) -> Training:
    """The rows of a file, some of them (or with `test_fraction` 0 none) set aside to test."""
    assert origin.target is not None
    frame, target = credo_data.read_table(origin.data), origin.target
    task = origin.task or infer_task(frame, target)
    parts: tuple[Any, ...] = (frame,)
    if origin.test_fraction != 0:
        balanced = target if task == "classification" else None
        parts = credo_data.split_table(frame, origin.test_fraction, origin.seed, target=balanced)
    encoder = credo_data.fit_encoder(parts[0], target, task)
    train, *test = (table_rows(encoder, part) for part in parts)
    summary = table_summary(encoder, frame)
    if origin.task is None and encoder.target.has_numbered_classes:
        summary += "; its whole numbers are taken for classes, --task regression for a quantity"
    origin = dataclasses.replace(origin, digest=digest(origin.data))
    return Training(train, test[0] if test else None, Units.of_table(encoder), origin, summary)


def comparison_data(
    data: str, target: str | None, task: TableTask | None, ood: str | None, data_dir: Path | None
) -> tuple[Dataset, Dataset | np.ndarray | None]:
    """A data set with targets in their own units, and inputs from elsewhere."""
    check_target(data, target)
    if target is None:
        dataset, encoder = load_named(data, data_dir), None
    else:
        dataset, encoder = credo_data.load_table(data, target, task=task)
    if ood is None:
        return dataset, None
    if dataset.task == "regression":
        raise CredoError("--ood is for classes, and the target is a quantity; leave it out")
    if encoder is None or not is_table(ood):
        return dataset, load_named(ood, data_dir)
    return dataset, encoder.encode(credo_data.read_table(ood, encoder.text_columns))
