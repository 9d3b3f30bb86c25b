"""`credo predict`: one line of predictions per row, with how sure each is."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from tyro.conf import arg

import credo
from credo.app.inputs import Data, DataFolder, ModelFile, carried_columns, model_inputs
from credo.app.outputs import check_output
from credo.errors import CredoError
from credo.files import atomic_path
from credo.posterior import Posterior
from credo.predictive import CategoricalPredictive, Predictive


@dataclass(frozen=True)
class Predict:
    """Predict with a fitted model, with uncertainty.

    Classes: the most probable one, the probability of each, the entropy (all uncertainty) and the
    mutual information (what more data would settle). Quantities, in their own units: mean, standard
    deviation with its two parts (noise in the data, doubt about the function), 95 % interval.
    """

    model: ModelFile
    """Model written by `credo fit`."""
    data: Data
    """Table (.csv, .tsv, .xlsx, .parquet), or name of a data set, whose test part is predicted."""
    out: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")] = None
    """File to write, .csv or .parquet; without it, CSV goes to standard output."""
    id: Annotated[str | None, arg(metavar="COL", help_behavior_hint="")] = None
    """Column of the table to put before the predictions."""
    keep_columns: bool = False
    """Put all columns of the table before the predictions."""
    num_draws: int = 100
    """Posterior draws to average over."""
    naive: bool = False
    """Predict with one network without noise (weight scaling after dropout), for comparison."""
    data_dir: DataFolder = None
    """Folder of data sets."""

    def run(self) -> None:
        if self.out is not None:
            if self.out.suffix.lower() not in (".csv", ".parquet"):
                raise CredoError(f"--out must end in .csv or .parquet, got '{self.out}'")
            check_output(self.out, [self.model, self.data])
        posterior = credo.load(self.model)
        x = model_inputs(posterior, self.data, self.data_dir)
        carried = None
        if self.id is not None or self.keep_columns:
            carried = carried_columns(self.data, self.id, self.keep_columns)
        used = noiseless(posterior) if self.naive else posterior
        columns = prediction_columns(credo.predict(used, x, self.num_draws))
        write_columns(columns if carried is None else beside(carried, columns), self.out)


def beside(carried: Any, columns: dict[str, Any]) -> dict[str, Any]:
    """The table's own columns, then the predictions."""
    twice = [name for name in carried.columns if name in columns]
    if twice:
        raise CredoError(
            f"the table's column '{twice[0]}' has the name of a prediction; rename it, or carry "
            "another with --id"
        )
    return {name: carried[name].to_numpy() for name in carried.columns} | columns


def noiseless(posterior: Posterior) -> Posterior:
    """The one network at the mean of the noise, where the noise has a mean network."""
    for name in ("weight_scaled", "mean_network"):
        if hasattr(posterior, name):
            return getattr(posterior, name)()
    raise CredoError(
        f"--naive needs a model with noise on units or weights, such as that of dropout or "
        f"bayes-by-backprop; this one was fitted with {posterior.record.method}: leave it out"
    )


def prediction_columns(predicted: Predictive) -> dict[str, np.ndarray]:
    if not isinstance(predicted, CategoricalPredictive):
        return _quantity_columns(predicted)
    classes = predicted.classes or tuple(map(str, range(predicted.probs.shape[1])))
    probabilities = {f"p_{name}": predicted.probs[:, code] for code, name in enumerate(classes)}
    return {
        "predicted": predicted.labels,
        **probabilities,
        "entropy": predicted.entropy,
        "mutual_information": predicted.mutual_information,
    }


def _quantity_columns(predicted: Any) -> dict[str, np.ndarray]:
    if predicted.mean.ndim > 1:
        raise CredoError(
            f"the model has {predicted.mean.shape[1]} targets, the command line writes one; "
            "use credo.predict in Python"
        )
    lower, upper = predicted.interval(0.95)
    return {
        "mean": predicted.mean,
        "std": predicted.std,
        "aleatoric_std": np.sqrt(predicted.aleatoric_variance),
        "epistemic_std": np.sqrt(predicted.epistemic_variance),
        "lower_95": lower,
        "upper_95": upper,
    }


def write_columns(columns: dict[str, Any], out: Path | None) -> None:
    import pandas as pd

    frame = pd.DataFrame(columns)
    if out is None:  # six digits to read; a file has all of them
        frame.to_csv(sys.stdout, index=False, float_format="%.6g")
        return
    with atomic_path(out) as temporary:
        if out.suffix.lower() == ".parquet":
            frame.to_parquet(temporary, index=False)
        else:
            frame.to_csv(temporary, index=False)
