"""`credo evaluate`: how good the predictions are, each number with its standard error."""

import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from tyro.conf import arg

import credo
from credo.app.inputs import Data, DataFolder, ModelFile, digest, is_table, model_inputs, model_rows
from credo.app.predict import noiseless
from credo.app.text import score_table
from credo.evaluation import Estimate


@dataclass(frozen=True)
class Evaluate:
    """Score a fitted model on data with known answers.

    Classes: accuracy, NLL, Brier score, ECE. Quantities: RMSE, NLL, coverage and width of the 95 %
    interval. With --ood, also how well uncertainty tells inputs from elsewhere apart.
    """

    model: ModelFile
    """Model written by `credo fit`."""
    data: Data
    """Table (.csv, .tsv, .xlsx, .parquet) with the target, or name of a set (its test part)."""
    ood: Annotated[str | None, arg(metavar="DATA", help_behavior_hint="")] = None
    """Inputs unlike the training data: a table or the name of a data set."""
    num_draws: int = 100
    """Posterior draws to average over."""
    naive: bool = False
    """Score one network without noise (weight scaling after dropout), for comparison."""
    json: bool = False
    """Print JSON instead of a table."""
    data_dir: DataFolder = None
    """Folder of data sets."""

    def run(self) -> None:
        posterior = credo.load(self.model)
        rows = model_rows(posterior, self.data, self.data_dir)
        elsewhere = None
        if self.ood is not None:
            elsewhere = model_inputs(posterior, self.ood, self.data_dir)
        origin = posterior.record.origin
        if origin is not None and is_table(self.data) and digest(self.data) == origin.digest:
            warnings.warn(
                f"the model was fitted on rows of '{self.data}', which flatters these scores; "
                "credo fit printed those of the rows it had set aside",
                credo.CredoWarning,
                stacklevel=2,
            )
        used = noiseless(posterior) if self.naive else posterior
        predicted = credo.predict(used, rows.x, self.num_draws)
        other = None if elsewhere is None else credo.predict(used, elsewhere, self.num_draws)
        scores = credo.evaluate(predicted, rows.y, other)
        print(as_json(scores) if self.json else score_table(scores))


def as_json(scores: Mapping[str, Estimate]) -> str:
    """`{"accuracy": {"value": …, "error": …}, …}`; what is not a finite number is null."""
    named = {
        name: {"value": _finite(score.value), "error": _finite(score.error)}
        for name, score in scores.items()
    }
    return json.dumps(named, indent=2)


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
