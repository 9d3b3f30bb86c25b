"""`credo theatre`: a page in which the samplers can be watched."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from credo.app.outputs import check_output


@dataclass(frozen=True)
class Theatre:
    """Watch the samplers move: write a page that plays their recorded paths.

    Every sampler runs on five densities of the plane at four step sizes, about two minutes in all.
    The page is one HTML file that needs no other and no network.
    """

    out: Annotated[Path, arg(metavar="FILE")] = Path("theatre.html")
    """The page to write."""
    num_steps: int = 400
    """Steps of every run; 400 make a page of 2 MB."""
    seed: int = 0
    """Seed of every run."""

    def run(self) -> None:
        from credo.report.theatre import write_theatre

        check_output(self.out)
        write_theatre(self.out, self.num_steps, self.seed)
        print(f"wrote {self.out}")
