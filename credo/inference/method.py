"""What an inference method is: an algorithm on a target, and the posterior that it leaves.

A frozen dataclass with the base `Method` (or `DescentMethod`, for those that minimise a loss):

    plan(num_rows) -> Plan                       how long, how many chains, which batches
    init(key, target, params, batch) -> state    only what the next step needs
    step(key, target, state, batch) -> (state, info)
    keep(state) -> pytree or None                what the run stores every `thin` steps
    posterior(target, states, kept) -> Posterior

`states` are stacked, and `kept` has the axes (chain, draw, ...). Everything else has a default here
or in `Algorithm`, and wrappers such as `Ensemble` pass all of it on.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from credo.engine import Algorithm, Descent, DescentState, pick
from credo.model import Batch, Target
from credo.posterior import Posterior


class Method(Algorithm):
    """Base of inference methods: see the top of this module."""

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
    def gives_draws(self) -> bool:
        """Whether the posterior is draws of weights, such as one network or a chain."""
        return False

    @property
    def has_acceptance(self) -> bool:
        """Whether steps are accepted or rejected by a density."""
        return False


@dataclass(frozen=True, kw_only=True)
class DescentMethod(Descent, Method):
    """Base of methods that minimise a loss: they say what is learned, and what it means."""

    def posterior_of(self, target: Target, learned: Any) -> Posterior:
        """The posterior that what was learned describes."""
        raise NotImplementedError

    def posterior(self, target: Target, states: DescentState, kept: Any) -> Posterior:
        return self.posterior_of(target, pick(states, 0).result)

    @property
    def held_out_fraction(self) -> float:
        return self.validation_fraction
