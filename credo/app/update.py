"""`credo update`: new rows for a deep ensemble filter or an exact posterior."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from tyro.conf import arg

import credo
from credo.app.inputs import Data, DataFolder, ModelFile, model_rows
from credo.app.outputs import check_output, remove_leftovers


@dataclass(frozen=True)
class Update:
    """Take new rows into a model that was fitted with --method denfi or exact.

    For denfi the table holds all rows so far, old and new, unless the model was fitted with
    --memory new: then, and for exact, the new rows alone.
    """

    model: ModelFile
    """Model written by `credo fit` with one of these methods, or by this command."""
    data: Data
    """Table (.csv, .parquet) with the target, or the name of a data set (its test part)."""
    out: Annotated[Path, arg(metavar="FILE")]
    """File to write the updated model to; may be the model itself."""
    seed: int = 0
    """Fixes the noise of the update, together with the number of updates before it."""
    data_dir: DataFolder = None
    """Folder of data sets."""

    def run(self) -> None:
        check_output(self.out, [self.data])
        posterior = credo.load(self.model)
        rows = model_rows(posterior, self.data, self.data_dir, with_target=True)
        assert rows.y is not None
        extra = posterior.record.extra
        y = rows.y
        if not extra.get("classes"):
            y = (np.asarray(y) - extra.get("shift", 0.0)) / extra.get("factor", 1.0)
        updated = credo.update(posterior, (rows.x, y), key=self.seed)
        credo.save(updated, self.out)
        remove_leftovers(self.out)
        print(f"updated with {len(rows.x):,} rows in {updated.record.seconds:.1f} s: {self.out}")
