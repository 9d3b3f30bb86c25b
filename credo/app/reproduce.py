"""`credo reproduce`: run an experiment, print what it found, write its page."""

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import Positional, arg

from credo.app.hyperparameters import hyperparameters, summary, with_flags
from credo.app.inputs import DataFolder
from credo.app.text import columns
from credo.errors import CredoError
from credo.experiments.registry import EXPERIMENTS, Experiment, experiment_named


@dataclass(frozen=True)
class Reproduce:
    """Reproduce a published table or figure, or list what can be reproduced.

    The settings of an experiment are flags too: `credo reproduce NAME --help` lists them. The page
    (Markdown, with its pictures) has our numbers beside the published ones and says which patterns
    hold.
    """

    name: Annotated[Positional[str | None], arg(metavar="[NAME]", help_behavior_hint="")] = None
    """An experiment; without it, all of them are listed."""
    out: Annotated[Path, arg(metavar="DIR")] = Path("docs/results")
    """Folder for the page and its pictures."""
    data_dir: DataFolder = None
    """Folder of data sets."""

    experiment: ClassVar[type[Experiment] | None] = None  # the one whose settings are flags

    def run(self) -> None:
        if self.name is None:
            print(columns([(name, summary(experiment_named(name))) for name in EXPERIMENTS]))
            return
        experiment = self.chosen()
        check_folder(self.out)
        page = experiment.run(self.data_dir)
        path = page.write(self.out)
        print(page.text())
        holding = [pattern for pattern in page.patterns if pattern.holds]
        print(f"{len(holding)} of {len(page.patterns)} patterns hold; wrote {path}")

    def chosen(self) -> Experiment:
        cls = self.experiment or experiment_named(self.name or "")
        settings = {each.name for each in dataclasses.fields(cls)}  # type: ignore[arg-type]
        return cls(**{name: getattr(self, name) for name in settings if hasattr(self, name)})


def check_folder(folder: Path) -> None:
    """Raise now, before minutes of work, if files could not be written to `folder` after it."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise CredoError(f"--out needs a folder; '{existing}' is a file")
    if not os.access(existing, os.W_OK):
        raise CredoError(f"cannot write to the folder '{existing}': permission denied")


def experiment_in(arguments: Sequence[str]) -> str | None:
    """The name of the experiment, which comes first: it decides which further flags there are.

    Example:
        >>> experiment_in(["reproduce", "weight-decay", "--seeds", "3"])
        'weight-decay'
    """
    return arguments[1] if len(arguments) > 1 and not arguments[1].startswith("-") else None


def reproduce_with_flags_of(experiment: type[Experiment]) -> type:
    """`Reproduce` with the settings of an experiment as further flags."""
    return with_flags(Reproduce, hyperparameters(experiment), experiment=experiment)
