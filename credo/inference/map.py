"""Maximum a posteriori: the mode of the posterior, by stochastic gradient descent.

    θ_MAP = argmin_θ  −(1/N) [ Σ_j log p(y_j | x_j, θ) + log p(θ) ]

With a normal prior of scale s this is weight decay 1/(2 s² N) on the mean loss. One draw, so no
uncertainty about the function: the baseline that every other method should beat.
"""

from dataclasses import dataclass

from jaxtyping import Array

from credo.inference import optimize
from credo.inference.method import Info, Plan
from credo.inference.optimize import Descent, Optimizer, Schedule
from credo.model import Batch, Target
from credo.networks import Params, no_noise
from credo.posterior import Record, Samples
from credo.posterior.samples import one_network


@dataclass(frozen=True)
class MAP:
    """Maximum a posteriori by stochastic gradient descent.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.Model(credo.networks.MLP(hidden=(16,)), credo.Categorical(3))
        >>> posterior = credo.fit(model, data.train, credo.MAP(num_steps=200))
    """

    learning_rate: float = 1e-3
    """Step size of the optimiser."""
    num_steps: int = 4000
    """Gradient steps."""
    num_epochs: float | None = None
    """Passes over the data; where given, replaces num_steps."""
    batch_size: int = 128
    """Rows per step."""
    optimizer: Optimizer = "adam"
    """adam, sgd or momentum."""
    schedule: Schedule = "cosine"
    """How the learning rate changes: constant, or cosine decay to zero."""

    def __post_init__(self) -> None:
        optimize.check_descent(self)

    def plan(self, num_data: int) -> Plan:
        return optimize.plan_descent(self, num_data)

    def init(self, key: Array, target: Target, params: Params, batch: Batch) -> Descent:
        return optimize.start(self, target.num_data, params)

    def step(
        self, key: Array, target: Target, state: Descent, batch: Batch
    ) -> tuple[Descent, Info]:
        return optimize.descend(self, target, state, batch, no_noise)

    def keep(self, state: Descent) -> None:
        return None

    def posterior(self, target: Target, states: list[Descent], kept: None) -> Samples:
        return one_network(target.model, states[0].params, Record(target.input_shape))

    def remedy(self) -> str:
        return optimize.remedy(self)
