"""`credo extend`: more members for an ensemble that was fitted before."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

import credo
from credo.app.inputs import DataFolder, ModelFile
from credo.app.job import Job
from credo.app.training import MovedTable
from credo.posterior import Posterior


@dataclass(frozen=True)
class Extend:
    """Add members to a fitted ensemble, on the rows it was fitted to.

    The result is that of a larger ensemble from the start, to the bit. A run that was killed goes
    on where it was when the same command is given again.
    """

    model: ModelFile
    """Model written by `credo fit --method ensemble`, or by this command."""
    size: int
    """Members in all."""
    out: Annotated[Path, arg(metavar="FILE")]
    """File to write the larger ensemble to; may be the model itself."""
    data: MovedTable = None
    """Where the table is now, if it was moved since the fit."""
    data_dir: DataFolder = None
    """Folder of data sets."""

    def run(self) -> None:
        job = Job(self.out)
        smaller, rows = job.load(self.model, self.data, self.data_dir)

        def work(checkpoint: Path | None) -> Posterior:
            return credo.extend(
                smaller, rows.train, self.size, rows.seed, checkpoint=checkpoint,
                keep_checkpoint=True,
            )  # fmt: skip

        job.report(job.run(rows, work), rows)
