"""What the engine runs: an algorithm on an objective.

An objective says what is learned:

    init(key, example) -> params                  where a run starts
    loss(key, params, batch) -> (loss, info)      what is to be small; may be random

An algorithm says how: a frozen dataclass whose fields are its hyper-parameters. Its numbers are
data for the compiled step (see `credo.struct`), its whole numbers and choices are not.

    plan(num_rows) -> Plan                            how long, how many chains, which batches
    init(key, objective, params, batch) -> state      only what the next step needs
    step(key, objective, state, batch) -> (state, info)

The other functions of `Algorithm` have defaults. States of several chains are stacked: every leaf
has the chains as its first axis.
"""

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array

from credo.struct import Struct

Info = dict[str, Array]


class Plan(NamedTuple):
    """The shape of a run. `num_steps` counts all steps of one chain, warm-up included."""

    num_steps: int
    num_warmup: int = 0
    thin: int = 1
    num_chains: int = 1
    batch_size: int | None = None
    """None: every step sees all the data."""
    with_replacement: bool = False
    """Draw every batch afresh, instead of passing through shuffled data."""
    sync_steps: tuple[int, ...] = ()
    """Numbers of steps after which `synchronize` sees the states of all chains."""
    first_chain: int = 0
    """Number of the first chain; chains of one key and one number are the same."""

    @property
    def num_kept(self) -> int:
        return (self.num_steps - self.num_warmup) // self.thin


class Objective(Protocol):
    """What is learned: see the top of this module."""

    def init(self, key: Array, example: Any) -> Any: ...

    def loss(self, key: Array, params: Any, batch: Any) -> tuple[Array, Info]: ...


class Algorithm(Struct):
    """How it is learned: see the top of this module."""

    def plan(self, num_rows: int) -> Plan:
        """The shape of a run on `num_rows` rows."""
        raise NotImplementedError

    def init(self, key: Array, objective: Any, params: Any, batch: Any) -> Any:
        """The state before the first step."""
        raise NotImplementedError

    def step(self, key: Array, objective: Any, state: Any, batch: Any) -> tuple[Any, Info]:
        """The state after a step, and what to record of it."""
        raise NotImplementedError

    def keep(self, state: Any) -> Any:
        """What the run stores every `thin` steps after the warm-up; None: nothing."""
        return None

    def is_finished(self, state: Any) -> Array:
        """Whether this chain may end before its plan does; nothing changes any more then."""
        return jnp.zeros((), bool)

    def check(self, key: Array, objective: Any, params: Any, data: Any) -> None:
        """Raise before any work is done where it could only fail."""

    def synchronize(self, states: Any) -> Any:
        """Exchange between chains at the plan's `sync_steps`."""
        return states

    def divergence_hint(self) -> str:
        """What to change when the loss is no longer a finite number."""
        return "check the data and the settings"


def stack(trees: list[Any]) -> Any:
    """Pytrees of one structure as one, with a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def unstack(tree: Any, count: int) -> list[Any]:
    """The pytrees that `stack` joined."""
    return [pick(tree, index) for index in range(count)]


def pick(tree: Any, index: Any) -> Any:
    """One entry, or a part, of the leading axis of every leaf."""
    return jax.tree.map(lambda leaf: leaf[index], tree)
