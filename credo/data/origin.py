"""Where the rows of a fit are to be found again."""

from dataclasses import dataclass
from typing import Literal

from credo.fields import at_least, between, check_fields
from credo.saving import Saveable


@dataclass(frozen=True)
class Origin(Saveable):
    """A data set by its name, or a table by its path, with what chose its training rows."""

    data: str
    """Name of the data set, or path of the table."""
    seed: int = 0
    """Fixed the rows set aside, and the run."""
    digest: str | None = None
    """Recognises the table; None for a named data set."""
    target: str | None = None
    """Column that is predicted."""
    task: Literal["classification", "regression"] | None = None
    """What the target was said to be; None: what its values looked like."""
    test_fraction: float = 0.2
    """Share of the table's rows that were set aside."""

    def __post_init__(self) -> None:
        check_fields(self, seed=at_least(0), test_fraction=between(0, 1))
