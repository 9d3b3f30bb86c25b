"""The settings of a study of a loss landscape, and its findings."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from credo.errors import CredoError
from credo.evaluation import Estimate
from credo.landscape.functions import Plane
from credo.landscape.paths import Slice

MEMBERS = "independent solutions"


@dataclass(frozen=True)
class Study:
    """How a landscape is looked at."""

    num_members: int = 5
    num_steps: int = 2000
    learning_rate: float = 1e-3
    batch_size: int = 64
    num_snapshots: int = 20
    tunnel_steps: int = 1000
    num_points: int = 25
    """Points of a path, and of a side of the slice."""
    num_rows: int = 2000
    """Rows of the training part behind every loss, and of the test part behind predictions."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.num_members < 3:
            raise CredoError(
                f"a landscape needs at least 3 members, for the plane through three solutions, "
                f"got {self.num_members}"
            )
        least = {"num_steps": 4, "num_snapshots": 2, "tunnel_steps": 1, "num_points": 3,
                 "num_rows": 2}  # fmt: skip
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise CredoError(f"{name} must be at least {bound}, got {getattr(self, name)}")


class Path(NamedTuple):
    """What is met on the way from one solution to another."""

    loss: np.ndarray
    """On training rows."""
    accuracy: np.ndarray
    """On test rows."""
    change: np.ndarray
    """Disagreement with the first end on test rows."""
    barrier: float


class Scores(NamedTuple):
    """How well networks predict together."""

    accuracy: Estimate
    nll: Estimate
    note: str = ""


@dataclass(frozen=True)
class Findings:
    """What a study found. Members are numbered; the base solution of all subspaces is member 0."""

    cosine: np.ndarray
    disagreement: np.ndarray
    own_cosine: np.ndarray
    """Of each snapshot of member 0 with its end."""
    own_disagreement: np.ndarray
    accuracy: np.ndarray
    """Of each member on the test rows."""
    places: np.ndarray
    """t-SNE of the snapshots, (member, snapshot, 2)."""
    clouds: dict[str, np.ndarray]
    """t-SNE of the samples around member 0 that are nearly as accurate as it."""
    stays: float
    """Share of late snapshots whose nearest function is of the same member."""
    planes: dict[str, Plane]
    together: dict[str, Scores]
    times: np.ndarray
    routes: dict[str, Path]
    slice: Slice
    num_classes: int


def comparable(planes: dict[str, Plane], name: str, slack: float = 0.01) -> np.ndarray:
    """Which samples are at most `slack` less accurate than the least accurate member."""
    least = planes[MEMBERS].accuracy.min() - slack
    return planes[name].accuracy >= least


def between(matrix: np.ndarray) -> np.ndarray:
    """The entries of different members."""
    return matrix[~np.eye(len(matrix), dtype=bool)]
