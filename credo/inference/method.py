"""What every inference method is: fields that are its hyper-parameters, and pure functions.

A method is a frozen dataclass, no base class:

    plan(num_data) -> Plan                      how long, how many chains, which batches
    init(key, target, params, batch) -> state   state holds only what the next step needs
    step(key, target, state, batch) -> (state, info)
    keep(state) -> pytree or None               what the run stores every `thin` steps
    posterior(target, states, kept) -> Posterior

and, where it can go wrong in its own way,

    check(key, target, params, data) -> None                   raise before any work is done
    meet(states) -> states                                     exchange between chains, see Plan
    finish(target, posterior, data) -> posterior               what needs all data after the run
    warnings(target, posterior, batch, info) -> list of str    what to say after the run
    remedy() -> str                                            what to change after a NaN

`states` has one state per chain, `kept` leaves have leading axes (chain, draw).
"""

import math
from numbers import Integral, Real
from types import NoneType
from typing import (
    Any,
    Literal,
    NamedTuple,
    NoReturn,
    Protocol,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from jaxtyping import Array

from credo.errors import CredoError
from credo.model import Batch, Target
from credo.networks import Params
from credo.posterior import Posterior

State = TypeVar("State")
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
    meetings: tuple[int, ...] = ()
    """Numbers of steps after which the method's `meet` sees the states of all chains."""
    first_chain: int = 0
    """Number of the first chain; chains of one key and one number are the same."""

    @property
    def num_kept(self) -> int:
        return (self.num_steps - self.num_warmup) // self.thin


class Method(Protocol[State]):
    """The contract described at the top of this module."""

    def plan(self, num_data: int) -> Plan: ...

    def init(self, key: Array, target: Target, params: Params, batch: Batch) -> State: ...

    def step(
        self, key: Array, target: Target, state: State, batch: Batch
    ) -> tuple[State, Info]: ...

    def keep(self, state: State) -> Params | None: ...

    def posterior(self, target: Target, states: list[State], kept: Any) -> Posterior: ...


def check_fields(method: Any, **bounds: tuple[float, float]) -> None:
    """Raise unless each named field is a number in its half-open interval (low, high].

    A field of type int must be whole, and a field that names one of several choices must be one of
    them. NumPy's numbers become Python's, so that a method can always be saved as JSON.
    """
    kinds = get_type_hints(type(method))
    for name, kind in kinds.items():
        if get_origin(kind) is Literal and getattr(method, name) not in get_args(kind):
            choices = ", ".join(map(repr, get_args(kind)))
            _refuse(method, name, f"one of {choices}")
    for name, (low, high) in bounds.items():
        value = getattr(method, name)
        allowed = (kinds[name], *get_args(kinds[name]))
        if value is None and NoneType in allowed:
            continue
        whole = int in allowed
        number = isinstance(value, Integral if whole else Real) and math.isfinite(value)
        if not (number and low < value <= high):
            above = "at least 0" if low == NOT_NEGATIVE[0] else f"greater than {low:g}"
            upper = "" if math.isinf(high) else f" and at most {high:g}"
            _refuse(method, name, f"a {'whole ' if whole else ''}number {above}{upper}")
        object.__setattr__(method, name, int(value) if whole else float(value))


def _refuse(method: Any, name: str, expected: str) -> NoReturn:
    value = getattr(method, name)
    raise CredoError(f"{type(method).__name__}: {name} must be {expected}, got {value!r}")


POSITIVE = (0.0, math.inf)
COUNT = (0, math.inf)
NOT_NEGATIVE = (-1e-300, math.inf)
