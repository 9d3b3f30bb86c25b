"""Several descents from different starts, and the networks passed on the way.

Not in the registry: it is not a posterior but what the study of loss landscapes looks at.
"""

from dataclasses import dataclass

from jaxtyping import Array

from credo.inference.map import MAP
from credo.inference.method import COUNT, Info, Plan, check_fields
from credo.inference.optimize import Descent
from credo.model import Batch, Target
from credo.networks import Params
from credo.posterior import Samples


@dataclass(frozen=True)
class Trajectories:
    """MAP from `num_members` initialisations, with snapshots (member, snapshot) as draws.

    Snapshots are equally far apart, and the last is where the descent ends.
    """

    descent: MAP = MAP()  # noqa: RUF009
    """The descent itself."""
    num_members: int = 5
    """Descents, each from its own initialisation and with its own batches."""
    num_snapshots: int = 20
    """Networks kept of each."""

    def __post_init__(self) -> None:
        check_fields(self, num_members=COUNT, num_snapshots=COUNT)

    def plan(self, num_data: int) -> Plan:
        plan = self.descent.plan(num_data)
        kept = min(self.num_snapshots, plan.num_steps)
        thin = plan.num_steps // kept
        rest = plan.num_steps - kept * thin
        return plan._replace(num_warmup=rest, thin=thin, num_chains=self.num_members)

    def init(self, key: Array, target: Target, params: Params, batch: Batch) -> Descent:
        return self.descent.init(key, target, params, batch)

    def step(
        self, key: Array, target: Target, state: Descent, batch: Batch
    ) -> tuple[Descent, Info]:
        return self.descent.step(key, target, state, batch)

    def keep(self, state: Descent) -> Params:
        return state.params

    def posterior(self, target: Target, states: list[Descent], kept: Params) -> Samples:
        return Samples(target.model, kept)

    def remedy(self) -> str:
        return self.descent.remedy()
