"""`credo laplace`: a posterior around a model that was fitted before."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

import credo
from credo.app.hyperparameters import hyperparameters, with_flags
from credo.app.inputs import DataFolder, ModelFile
from credo.app.job import Job
from credo.app.training import MovedTable
from credo.inference.method import DescentMethod
from credo.posterior import Posterior


@dataclass(frozen=True)
class LaplaceOf:
    """Put a Laplace approximation around a fitted network, without training it any further."""

    model: ModelFile
    """Model written by `credo fit`, with one set of weights: --method map, dropout and the like."""
    out: Annotated[Path, arg(metavar="FILE")]
    """File to write the posterior to."""
    data: MovedTable = None
    """Where the table is now, if it was moved since the fit."""
    data_dir: DataFolder = None
    """Folder of data sets."""

    def run(self) -> None:
        job = Job(self.out, is_resumable=False)
        trained, rows = job.load(self.model, self.data, self.data_dir)

        def work(_: Path | None) -> Posterior:
            return credo.laplace(trained, rows.train, **self.options())

        job.report(job.run(rows, work), rows)

    def options(self) -> dict:
        return {each.name: getattr(self, each.name) for each in laplace_fields()}


def laplace_fields() -> list:
    """The fields of `credo.Laplace` that do not belong to its training."""
    return hyperparameters(credo.Laplace, besides=DescentMethod)


def laplace_with_flags() -> type:
    """`LaplaceOf` with the fields of `credo.Laplace` as further flags."""
    return with_flags(LaplaceOf, laplace_fields())
