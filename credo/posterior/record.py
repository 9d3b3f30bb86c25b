"""What a posterior remembers of how it came about."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from credo.data.origin import Origin
from credo.data.units import Units
from credo.errors import CredoError
from credo.fields import COUNT, POSITIVE, at_least, check_fields
from credo.saving import Saveable


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
    origin: Origin | None = None
    """Where the rows of the fit are to be found; None: they came from Python."""

    def __post_init__(self) -> None:
        counts = dict.fromkeys(("num_warmup", "num_data", "num_updates"), at_least(0))
        check_fields(self, seconds=at_least(0), temperature=POSITIVE, thin=COUNT, **counts)
        if any(size < 0 for size in self.input_shape):
            raise CredoError(f"Record: input_shape has no negative sizes, got {self.input_shape}")
