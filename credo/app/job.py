"""A run that ends with a model file: checked before, saved whole, nothing left beside it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import credo
from credo.app.outputs import check_output, checkpoint_of, only_writer, remove_leftovers, resumable
from credo.app.text import score_table
from credo.app.training import Training, training_again
from credo.posterior import Posterior, replace_record


@dataclass(frozen=True)
class Job:
    """What `fit`, `extend`, `laplace` and `update` share: check, load, run, save, clean up."""

    out: Path
    """The model file to write."""
    is_resumable: bool = True
    """Whether the run saves itself beside the output; one of seconds need not."""

    @property
    def checkpoint(self) -> Path | None:
        return checkpoint_of(self.out) if self.is_resumable else None

    def check(self, inputs: Iterable[str | Path] = ()) -> None:
        """Raise now, before the work, if the model could not be written after it."""
        check_output(self.out, inputs)
        if self.checkpoint is not None:
            check_output(self.checkpoint)

    def load(
        self, model: Path, moved: str | None, data_dir: Path | None
    ) -> tuple[Posterior, Training]:
        """A model, and the rows that it was fitted to."""
        self.check()
        posterior = credo.load(model)
        rows = training_again(posterior, moved, data_dir)
        self.check([rows.data])
        return posterior, rows

    def run(self, rows: Training, work: Callable[[Path | None], Posterior]) -> Posterior:
        """Do the work, which gets the checkpoint to go on from, and save what it gives."""
        with only_writer(self.out):
            if rows.summary:
                print(rows.summary, flush=True)
            with resumable(self.checkpoint):
                posterior = work(self.checkpoint)
            posterior = replace_record(posterior, origin=rows.origin)
            credo.save(posterior, self.out)
            if self.checkpoint is not None:  # kept until here: the model is on disk now
                self.checkpoint.unlink(missing_ok=True)
            remove_leftovers(self.out)
        return posterior

    def report(self, posterior: Posterior, rows: Training) -> None:
        """Print what was written, and how well it predicts the rows set aside."""
        record = posterior.record
        print(f"{self.out}: {record.method} on {rows.num_rows} rows, {record.seconds:.1f} seconds")
        for note in record.notes:
            print(note)
        if rows.test is None:
            return
        x, y = rows.test
        print(f"\non {len(y)} rows set aside:")
        print(score_table(credo.evaluate(credo.predict(posterior, x), y)))
