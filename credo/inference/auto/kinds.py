"""What kinds of members `auto` has, how many folds, and how long they train."""

from typing import NamedTuple


class Kind(NamedTuple):
    """Members that see the same features and learn in the same way."""

    name: str
    blocks: tuple[str, ...]
    """Of `credo.data.features`."""
    learning_rate: float
    length: float = 1.0
    """Share of the steps after which the learning rate has come down to 0."""
    dropout: float = 0.1
    decay: float = 0.02
    is_linear: bool = False
    num_parts: int | None = None
    """Of a normal mixture; None: all."""


PLAIN = Kind("plain", ("plain", "flags"), 1e-2, length=0.4)
STEPS = Kind("steps", ("plain", "steps", "flags"), 3e-3)
SHORT = STEPS._replace(name="steps, short", length=0.16)
SCORES = Kind("scores", ("scores", "flags"), 5e-3, length=0.4)
ONE_PART = STEPS._replace(name="one normal", length=0.4, num_parts=1)
ADDITIVE = Kind("additive", ("steps", "flags"), 1e-2, length=0.4, decay=0.05, is_linear=True)
LINEAR = Kind("linear", ("plain", "flags"), 1e-2, length=0.4, decay=0.05, is_linear=True)

CLASSES = (PLAIN, STEPS, SHORT, SCORES, ADDITIVE, LINEAR)
QUANTITIES = (PLAIN, STEPS, SHORT, SCORES, ONE_PART, ADDITIVE, LINEAR)
NETWORKS = (Kind("slower", (), 1e-3), Kind("faster", (), 3e-3))
"""For networks that take no features of tables."""

NUM_FOLDS = 4


class Budget(NamedTuple):
    """Steps of a member, rows of a step."""

    num_steps: int
    batch_size: int


def budget(num_rows: int) -> Budget:
    """More rows: longer runs with larger batches."""
    steps = 1000 if num_rows < 400 else 2000
    for limit, batch in ((500, 32), (1500, 64), (6000, 128)):
        if num_rows < limit:
            return Budget(steps, batch)
    return Budget(steps, 256)
