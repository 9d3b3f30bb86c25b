"""What a posterior remembers of how it came about."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np


def in_short(posterior: Any, **facts: Any) -> str:
    """What a posterior shows of itself: not its thousands of weights."""
    told = {"method": posterior.record.method, "model": posterior.model, **facts}
    listed = ", ".join(f"{name}={value!r}" for name, value in told.items())
    return f"{type(posterior).__name__}({listed})"


@dataclass(frozen=True)
class Record:
    """How a posterior was made: enough to check inputs, draw training curves, say what it is."""

    input_shape: tuple[int, ...]
    """Shape of one input row."""
    method: str = ""
    """Registry name of the method."""
    options: dict[str, Any] = field(default_factory=dict)
    """The method's hyper-parameters."""
    seconds: float = 0.0
    """Time spent in inference."""
    history: dict[str, np.ndarray] = field(default_factory=dict)
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
    extra: dict[str, Any] = field(default_factory=dict)
    """JSON-able data of the front that made the fit, such as a table's encoding."""
