"""Maximum a posteriori: the mode of the posterior, by stochastic gradient descent.

    θ_MAP = argmin_θ  −(1/N) [ Σ_j log p(y_j | x_j, θ) + log p(θ) ]

With a normal prior of scale s this is weight decay 1/(2 s² N) on the mean loss. One draw, so no
uncertainty about the function: the baseline that every other method should beat.
"""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from credo.inference.arrival import mode_warnings
from credo.inference.method import DescentMethod
from credo.model import Batch, Target
from credo.networks import Params
from credo.posterior import Samples
from credo.posterior.samples import one_network


@dataclass(frozen=True)
class MAP(DescentMethod):
    """Maximum a posteriori by stochastic gradient descent.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.default_model(3, credo.networks.MLP(hidden=(16,)))
        >>> posterior = credo.fit(model, data.train, credo.MAP(num_steps=200))
    """

    def posterior_of(self, target: Target, learned: Params) -> Samples:
        return one_network(target.model, learned)

    def warnings(
        self, target: Target, posterior: Any, data: Batch, info: dict[str, np.ndarray]
    ) -> list[str]:
        found = super().warnings(target, posterior, data, info)
        params = jax.tree.map(lambda leaf: leaf[0, 0], posterior.draws)
        return found or mode_warnings("map", self, target, params, data)

    @property
    def gives_draws(self) -> bool:
        return True
