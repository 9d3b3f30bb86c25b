"""What a posterior remembers of how it came about."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from credo.data.origin import Origin
from credo.data.units import Units
from credo.errors import CredoError
from credo.fields import POSITIVE, at_least, between, check_fields
from credo.saving import Saveable

LONGEST_NAME = 200
MOST = between(0, 2**62)


@dataclass(frozen=True)
class Record(Saveable):
    """How a posterior was made: enough to read inputs, draw training curves, say what it is."""

    input_shape: tuple[int, ...] = ()
    """Shape of one input row, as the network takes it."""
    units: Units = field(default_factory=Units)
    """How a user's rows become inputs, and outputs become the user's targets."""
    method: str = ""
    """Registry name of the method."""
    options: dict[str, Any] = field(default_factory=dict)
    """The method's hyper-parameters."""
    seconds: float = 0.0
    """Time spent in inference."""
    history: dict[str, np.ndarray] = field(default_factory=dict, metadata={"nan": True})
    """Quantities recorded along the run, each of shape (chain, step)."""
    temperature: float = 1.0
    """Of the target."""
    num_warmup: int = 0
    """Steps of the history before the first draw that is kept."""
    thin: int = 1
    """Steps of the history per draw."""
    num_data: int = 0
    """Rows of the fit, or of the last update."""
    num_updates: int = 0
    """How often new data were taken in since the fit."""
    notes: tuple[str, ...] = ()
    """What the method has chosen, in a line each."""
    origin: Origin | None = None
    """Where the rows of the fit are to be found; None: they came from Python."""

    def __post_init__(self) -> None:
        check_fields(
            self, seconds=at_least(0), temperature=POSITIVE, thin=between(1, 2**62),
            num_warmup=MOST, num_data=MOST, num_updates=MOST,
        )  # fmt: skip
        if not self.method.isprintable() or len(self.method) > LONGEST_NAME:
            raise CredoError(f"Record: method is no name of one, got {self.method!r:.60}")
        if not _is_plain(self.options):
            raise CredoError("Record: options hold something else than numbers, texts and methods")
        for name, values in self.history.items():
            if np.ndim(values) < 2 or np.asarray(values).dtype.kind not in "biuf":
                raise CredoError(
                    f"Record: the history of {name!r:.60} has no number for each chain and step"
                )
        if any(size < 0 for size in self.input_shape):
            raise CredoError(f"Record: input_shape has no negative sizes, got {self.input_shape}")


def _is_plain(value: Any) -> bool:
    """Whether a method's hyper-parameters are what `credo.inference.registry.options_of` gives."""
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_plain(entry) for name, entry in value.items())
    return value is None or isinstance(value, bool | int | float | str)
