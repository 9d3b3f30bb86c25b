"""Rows to learn from: a data set by its name, or a table of the user's own."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from tyro.conf import arg

from credo import data as credo_data
from credo.app.inputs import digest, is_table, load_named
from credo.data import Dataset, Split
from credo.data.dataset import make_split
from credo.data.encoder import TableTask
from credo.errors import CredoError
from credo.posterior import Posterior

MovedTable = Annotated[str | None, arg(metavar="FILE", help_behavior_hint="")]


@dataclass(frozen=True)
class Training:
    """Rows to fit, rows to judge by, and what a model must remember to read others like them.

    Targets of a regression are standardised; `extra` has the shift and factor to undo it.
    """

    train: Split
    test: Split | None
    extra: dict[str, Any]

    @property
    def seed(self) -> int:
        """That of the fit."""
        return self.extra["rows"]["seed"]

    @property
    def factor(self) -> float:
        """The standard deviation that a regression's targets were divided by."""
        return self.extra.get("factor") or 1.0


def check_target(data: str, target: str | None) -> None:
    """A table needs --target, a data set has its own."""
    if is_table(data) and target is None:
        columns = ", ".join(map(str, credo_data.read_table(data).columns))
        raise CredoError(f"name the column to predict with --target; '{data}' has {columns}")
    if not is_table(data) and target is not None:
        raise CredoError(f"--target is for tables (.csv, .parquet), and '{data}' is none")


def named_training(data: str, data_dir: Path | None, seed: int) -> Training:
    """The training and test part of a named data set; the seed is that of the fit."""
    dataset = load_named(data, data_dir)
    extra: dict[str, Any] = {"data": dataset.name, "classes": dataset.classes}
    extra["rows"] = {"data": data, "seed": seed}
    if dataset.task != "regression":
        return Training(dataset.train, _some(dataset.test), extra)
    shift, factor = float(dataset.train.y.mean()), float(dataset.train.y.std()) or 1.0
    parts = [Split(part.x, (part.y - shift) / factor) for part in (dataset.train, dataset.test)]
    return Training(parts[0], _some(parts[1]), extra | {"shift": shift, "factor": factor})


def table_training(
    path: str, target: str, task: TableTask | None, test_fraction: float, seed: int
) -> Training:
    """The rows of a file, some of them (or with `test_fraction` 0 none) set aside to test."""
    if test_fraction == 0:
        frame = credo_data.read_table(path)
        encoder = credo_data.fit_encoder(frame, target, task)
        x, y = credo_data.encode(encoder, frame), credo_data.encode_target(encoder, frame)
        train, test = make_split(x, y, encoder.target.task), None
    else:
        dataset, encoder = credo_data.load_table(
            path, target, task=task, test_fraction=test_fraction, seed=seed
        )
        train, test = dataset.train, _some(dataset.test)
    extra = {
        "data": path,
        "digest": digest(path),
        "classes": encoder.target.classes,
        "shift": encoder.target.mean,
        "factor": encoder.target.std,
        "encoder": encoder.to_json(),
        "rows": {
            "path": path, "target": target, "task": task, "test_fraction": test_fraction,
            "seed": seed,
        },
    }  # fmt: skip
    return Training(train, test, extra)


def training_again(posterior: Posterior, data: str | None, data_dir: Path | None) -> Training:
    """The rows that a model was fitted to by `credo fit`, and those it set aside."""
    extra = posterior.record.extra
    if "rows" not in extra:
        raise CredoError(
            "the model does not say which rows it was fitted to: it was made in Python, or by an "
            "older version; use credo.extend and credo.laplace in Python, or fit it again"
        )
    if posterior.record.num_updates:
        raise CredoError(
            "the model has taken in other rows since its fit (credo update), which it does not "
            "remember; use it as it is, or fit a new one to all rows"
        )
    how = dict(extra["rows"])
    if "path" not in how:
        if data is not None:
            raise CredoError(f"--data is for tables; the model was fitted to '{how['data']}'")
        return named_training(data_dir=data_dir, **how)
    how["path"] = data or how["path"]
    if not Path(how["path"]).is_file():
        raise CredoError(
            f"the model was fitted to the table '{extra['data']}', and there is no file "
            f"'{how['path']}' here; say where it is now with --data FILE"
        )
    if digest(how["path"]) != extra["digest"]:
        raise CredoError(
            f"'{how['path']}' is not the table that the model was fitted to; give that one as "
            "--data, or fit a new model"
        )
    return table_training(**how)


def remembering(posterior: Posterior, rows: Training) -> Posterior:
    """The posterior with the place of its rows as it is now."""
    return replace(posterior, record=replace(posterior.record, extra=rows.extra))


def comparison_data(
    data: str, target: str | None, task: TableTask | None, ood: str | None, data_dir: Path | None
) -> tuple[Dataset, Dataset | np.ndarray | None]:
    """A data set with targets in their own units, and inputs from elsewhere."""
    check_target(data, target)
    if target is None:
        dataset, encoder = load_named(data, data_dir), None
    else:
        dataset, encoder = credo_data.load_table(data, target, task=task)
    if dataset.task == "regression":
        if ood is not None:
            raise CredoError("--ood is for classes, and the target is a quantity; leave it out")
        if encoder is not None:
            shift, factor = encoder.target.mean, encoder.target.std
            parts = [Split(p.x, shift + factor * p.y) for p in (dataset.train, dataset.test)]
            dataset = replace(dataset, train=parts[0], test=parts[1])
    if ood is None:
        return dataset, None
    if encoder is None or not is_table(ood):
        return dataset, load_named(ood, data_dir)
    return dataset, credo_data.encode(encoder, credo_data.read_table(ood, encoder.text_columns))


def _some(split: Split) -> Split | None:
    return split if len(split.x) else None
