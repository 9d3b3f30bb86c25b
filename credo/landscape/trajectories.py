"""Several descents from different starts, and the networks passed on the way.

Not in the registry: it is not a posterior but what the study of loss landscapes looks at.
"""

from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Array

from credo.engine import DescentState, Info, Plan
from credo.errors import CredoError
from credo.fields import COUNT, check_fields
from credo.inference import MAP, Method
from credo.model import Batch, Target
from credo.networks import Params
from credo.posterior import Samples


@dataclass(frozen=True)
class Trajectories(Method):
    """MAP from `num_members` initialisations, with snapshots (member, snapshot) as draws.

    Snapshots are equally far apart, and the last is where the descent ends.
    """

    descent: MAP = field(default_factory=MAP)
    """The descent itself."""
    num_members: int = 5
    """Descents, each from its own initialisation and with its own batches."""
    num_snapshots: int = 20
    """Networks kept of each."""

    def __post_init__(self) -> None:
        check_fields(self, num_members=COUNT, num_snapshots=COUNT)
        if self.descent.validation_fraction > 0:
            raise CredoError(
                "Trajectories: a descent that stops early has no snapshots after that; leave "
                f"validation_fraction out (got {self.descent.validation_fraction:g})"
            )

    def plan(self, num_rows: int) -> Plan:
        plan = self.descent.plan(num_rows)
        kept = min(self.num_snapshots, plan.num_steps)
        thin = plan.num_steps // kept
        rest = plan.num_steps - kept * thin
        return plan._replace(num_warmup=rest, thin=thin, num_chains=self.num_members)

    def init(self, key: Array, target: Target, params: Params, batch: Batch) -> DescentState:
        return self.descent.init(key, target, params, batch)

    def step(
        self, key: Array, target: Target, state: DescentState, batch: Batch
    ) -> tuple[DescentState, Info]:
        return self.descent.step(key, target, state, batch)

    def keep(self, state: DescentState) -> Params:
        return state.learned

    def posterior(self, target: Target, states: DescentState, kept: Any) -> Samples:
        return Samples(target.model, kept)

    def divergence_hint(self) -> str:
        return self.descent.divergence_hint()

    @property
    def gives_draws(self) -> bool:
        return True
