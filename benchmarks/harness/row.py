"""What a benchmark is: one piece of work, done by credo and by its peers."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROWS = Path(__file__).parent.parent / "rows"

Side = Callable[[], Callable[[], Any]]
"""Imports its library, prepares, and returns a function that does one repetition.

The repetition ends when its results exist (no work left on the device), and returns a number that
all sides must agree on, or None; or a function that works this number out after the clock stopped.
"""


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    title: str
    sides: dict[str, Side]
    """The first side is the one all others are compared with."""
    work: float = 1
    """Units of work in one repetition."""
    unit: str = "s"
    """What is shown: `…/s` is a rate; otherwise seconds, or milliseconds, per unit of work."""
    targets: dict[str, float] = field(default_factory=dict)
    """By peer: the least ratio of speeds, or with `ratio="time"` the largest ratio of times."""
    per_result: bool = False
    """The repetition returns how much it achieved (effective draws): times are divided by that."""
    ratio: str = "speed"
    """speed: peer's time / first side's time. time: first side's time / peer's time."""
    flops: float = 0
    """Floating-point operations of the matrix products in one unit of work."""
    share_target: float | None = None
    """The least share of the machine's matrix-multiply peak."""
    tolerance: float | None = None
    """Largest relative difference between the numbers that the sides return; None: not compared."""
    note: str = ""
    """What the sides do, in a sentence or two, for the page."""


def names() -> list[str]:
    """Every row, in the order of its file name."""
    return sorted(path.stem for path in ROWS.glob("[!_]*.py"))


def load(name: str) -> Row:
    return importlib.import_module(f"rows.{name}").ROW
