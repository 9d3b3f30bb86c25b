"""`credo extend`: more members for an ensemble that was fitted before."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

import credo
from credo.app.fit import print_report
from credo.app.inputs import DataFolder, ModelFile
from credo.app.outputs import check_output, checkpoint_of, remove_leftovers, resumable
from credo.app.training import MovedTable, remembering, training_again


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
        check_output(self.out)
        posterior = credo.load(self.model)
        rows = training_again(posterior, self.data, self.data_dir)
        check_output(self.out, [rows.extra["data"]])
        checkpoint = checkpoint_of(self.out)
        with resumable(checkpoint):
            larger = credo.extend(
                posterior, rows.train, self.size, rows.seed, checkpoint=checkpoint,
                keep_checkpoint=True,  # until the model is on disk
            )  # fmt: skip
        larger = remembering(larger, rows)
        credo.save(larger, self.out)
        checkpoint.unlink(missing_ok=True)
        remove_leftovers(self.out)
        print_report(self.out, larger, rows)
