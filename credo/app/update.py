"""`credo update`: new rows for a deep ensemble filter or an exact posterior."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

import credo
from credo.app.inputs import Data, DataFolder, ModelFile, model_rows
from credo.app.job import Job
from credo.app.outputs import check_output
from credo.app.training import Training
from credo.posterior import Posterior


@dataclass(frozen=True)
class Update:
    """Take new rows into a model that was fitted with --method denfi or exact.

    For denfi the table holds all rows so far, old and new, unless the model was fitted with
    --memory new: then, and for exact, the new rows alone. A run that was killed goes on where it
    was when the same command is given again.
    """

    model: ModelFile
    """Model written by `credo fit` with one of these methods, or by this command."""
    data: Data
    """Table (.csv, .tsv, .xlsx, .parquet) with the target, or name of a set (its test part)."""
    out: Annotated[Path, arg(metavar="FILE")]
    """File to write the updated model to; may be the model itself."""
    seed: int = 0
    """Fixes the noise of the update, together with the number of updates before it."""
    data_dir: DataFolder = None
    """Folder of data sets."""

    def run(self) -> None:
        check_output(self.out, [self.data])
        before = credo.load(self.model)
        job = Job(self.out, is_resumable=before.record.method == "denfi")
        job.check()
        new = model_rows(before, self.data, self.data_dir)
        rows = Training(new, None, before.record.units, before.record.origin)

        def work(checkpoint: Path | None) -> Posterior:
            return credo.update(before, rows.train, key=self.seed, checkpoint=checkpoint)

        updated = job.run(rows, work)
        seconds = updated.record.seconds
        print(f"updated with {rows.num_rows:,} rows in {seconds:.1f} s: {self.out}")
