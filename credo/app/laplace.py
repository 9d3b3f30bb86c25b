"""`credo laplace`: a posterior around a model that was fitted before."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

import credo
from credo.app.fit import print_report
from credo.app.inputs import DataFolder, ModelFile
from credo.app.outputs import check_output, remove_leftovers
from credo.app.training import MovedTable, remembering, training_again
from credo.inference.curvature import Curvature
from credo.inference.laplace import Layers, Structure


@dataclass(frozen=True)
class LaplaceOf:
    """Put a Laplace approximation around a fitted network, without training it any further."""

    model: ModelFile
    """Model written by `credo fit`, with one set of weights: --method map, dropout and the like."""
    out: Annotated[Path, arg(metavar="FILE")]
    """File to write the posterior to."""
    structure: Structure = "kron"
    """kron (by layers), full, diagonal, or subnetwork (full over num_weights weights)."""
    layers: Layers = "last"
    """Which layers are uncertain: the last, or all."""
    curvature: Curvature = "ggn"
    """ggn (generalised Gauss-Newton) or fisher (empirical, at the labels seen)."""
    num_weights: int = 100
    """Weights of the subnetwork, those of largest variance."""
    tune_prior: bool = True
    """Whether prior scales, and a learnt noise, are multiplied by what maximises the evidence."""
    linearized: bool = True
    """Whether draws are of the linearised network, or weights of the network itself."""
    data: MovedTable = None
    """Where the table is now, if it was moved since the fit."""
    data_dir: DataFolder = None
    """Folder of data sets."""

    def run(self) -> None:
        check_output(self.out)
        trained = credo.load(self.model)
        rows = training_again(trained, self.data, self.data_dir)
        check_output(self.out, [rows.extra["data"]])
        posterior = credo.laplace(
            trained, rows.train, self.structure, layers=self.layers, curvature=self.curvature,
            num_weights=self.num_weights, tune_prior=self.tune_prior,
            linearized=self.linearized,
        )  # fmt: skip
        posterior = remembering(posterior, rows)
        credo.save(posterior, self.out)
        remove_leftovers(self.out)
        print_report(self.out, posterior, rows)
