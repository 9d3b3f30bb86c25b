"""What an inference method is: an algorithm on a target, and the posterior that it leaves.

A frozen dataclass with the base `Method` (or `DescentMethod`, for those that minimise a loss):

    plan(num_rows) -> Plan                       how long, how many chains, which batches
    init(key, target, params, batch) -> state    only what the next step needs
    step(key, target, state, batch) -> (state, info)
    keep(state) -> pytree or None                what the run stores every `thin` steps
    posterior(target, states, kept) -> Posterior

`states` are stacked, and `kept` has the axes (chain, draw, ...). Everything else has a default here
or in `Algorithm`. A method around another has the base `Wrapper`, which passes all of it on.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array

from credo.data.source import Source
from credo.data.units import Units
from credo.engine import Algorithm, Descent, DescentState, Info, Plan, pick
from credo.inference.arrival import descent_warnings
from credo.model import Batch, Model, Target
from credo.posterior import Posterior


class Setup(NamedTuple):
    """What the engine runs for a method."""

    algorithm: Algorithm
    objective: Any
    source: Source
    starts: list[Any] | None = None
    """Where each chain starts; None: where the objective begins."""


class Method(Algorithm):
    """Base of inference methods: see the top of this module."""

    def adapted(self, model: Model, units: Units, x: Any, y: Any) -> tuple[Model, Units]:
        """The model and the inputs that the method prefers to those given; by default these."""
        return model, units

    def for_density(self, num_dimensions: int) -> "Method":
        """The method as it suits a bare density: what its fields leave open is chosen."""
        return self

    def setup(
        self, target: Target, source: Source, rows: Batch, units: Units, key: int | Array
    ) -> Setup:
        """What is run; by default the method itself on the target."""
        return Setup(self, target, source)

    def posterior(self, target: Target, states: Any, kept: Any) -> Posterior:
        """What the run has found."""
        raise NotImplementedError

    def finish(self, target: Target, posterior: Any, data: Batch) -> Any:
        """What needs all data after the run."""
        return posterior

    def warnings(
        self, target: Target, posterior: Any, data: Batch, info: dict[str, np.ndarray]
    ) -> list[str]:
        """What to say after the run."""
        return []

    @property
    def finishes_on_all_rows(self) -> bool:
        """Whether `finish` needs all data in memory, which a stream has not."""
        return type(self).finish is not Method.finish

    @property
    def held_out_fraction(self) -> float:
        """Share of the rows that the run holds out to stop early."""
        return 0.0

    @property
    def can_be_member(self) -> bool:
        """Whether another method may run its steps: not where its setup is its own."""
        return type(self).setup is Method.setup

    @property
    def gives_draws(self) -> bool:
        """Whether the posterior is draws of weights, such as one network or a chain."""
        return False

    @property
    def has_acceptance(self) -> bool:
        """Whether steps are accepted or rejected by a density."""
        return False


class Wrapper(Method):
    """Base of methods around another, `inner`: what they do not change is done as it does it.

    One whose states are not those of the inner method takes these out for it.
    """

    @property
    def inner(self) -> Method:
        """The method around which this one is."""
        raise NotImplementedError

    def plan(self, num_rows: int) -> Plan:
        return self.inner.plan(num_rows)

    def init(self, key: Array, objective: Any, params: Any, batch: Any) -> Any:
        return self.inner.init(key, objective, params, batch)

    def step(self, key: Array, objective: Any, state: Any, batch: Any) -> tuple[Any, Info]:
        return self.inner.step(key, objective, state, batch)

    def keep(self, state: Any) -> Any:
        return self.inner.keep(state)

    def is_finished(self, state: Any) -> Array:
        return self.inner.is_finished(state)

    def check(self, key: Array, objective: Any, params: Any, data: Any) -> None:
        self.inner.check(key, objective, params, data)

    def synchronize(self, states: Any) -> Any:
        return self.inner.synchronize(states)

    def divergence_hint(self) -> str:
        return self.inner.divergence_hint()

    def adapted(self, model: Model, units: Units, x: Any, y: Any) -> tuple[Model, Units]:
        return self.inner.adapted(model, units, x, y)

    def setup(
        self, target: Target, source: Source, rows: Batch, units: Units, key: int | Array
    ) -> Setup:
        return Setup(self, target, source)  # see `can_be_member`

    def for_density(self, num_dimensions: int) -> Any:
        return self  # bare densities are sampled without wrappers

    def posterior(self, target: Target, states: Any, kept: Any) -> Posterior:
        return self.inner.posterior(target, states, kept)

    def finish(self, target: Target, posterior: Any, data: Batch) -> Any:
        return self.inner.finish(target, posterior, data)

    def warnings(
        self, target: Target, posterior: Any, data: Batch, info: dict[str, np.ndarray]
    ) -> list[str]:
        return self.inner.warnings(target, posterior, data, info)

    @property
    def finishes_on_all_rows(self) -> bool:
        return self.inner.finishes_on_all_rows

    @property
    def can_be_member(self) -> bool:
        return self.inner.can_be_member

    @property
    def held_out_fraction(self) -> float:
        return self.inner.held_out_fraction

    @property
    def gives_draws(self) -> bool:
        return self.inner.gives_draws

    @property
    def has_acceptance(self) -> bool:
        return self.inner.has_acceptance


@dataclass(frozen=True, kw_only=True)
class DescentMethod(Descent, Method):
    """Base of methods that minimise a loss: they say what is learned, and what it means."""

    def posterior_of(self, target: Target, learned: Any) -> Posterior:
        """The posterior that what was learned describes."""
        raise NotImplementedError

    def posterior(self, target: Target, states: DescentState, kept: Any) -> Posterior:
        return self.posterior_of(target, pick(states, 0).result)

    def warnings(
        self, target: Target, posterior: Any, data: Batch, info: dict[str, np.ndarray]
    ) -> list[str]:
        """Whether the descent has arrived, by its losses."""
        return descent_warnings(self._name, self, target, info)

    @property
    def held_out_fraction(self) -> float:
        return self.validation_fraction

    @property
    def anneals(self) -> bool:
        """Whether what is minimised changes along the run, so that losses may rise."""
        return False

    @property
    def _name(self) -> str:
        from credo.inference.registry import name_of  # which imports the methods

        return name_of(self)
