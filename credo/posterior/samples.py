"""A posterior held as parameter draws: one for a point estimate, many for a Markov chain."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credo.errors import CredoError
from credo.files import path_name
from credo.model import Model
from credo.networks import Noise, Params, no_noise
from credo.posterior.record import Record, in_short


@dataclass(frozen=True, repr=False)
class Samples:
    """Parameter draws, every leaf of shape (chain, draw, *parameter)."""

    model: Model
    draws: Params
    record: Record = Record(())  # noqa: RUF009
    weights: Float[Array, "chain draw"] | None = None
    """Of the draws, with sum 1; None: all equal."""

    def __repr__(self) -> str:
        return in_short(self, num_chains=self.num_chains, num_draws=self.num_draws)

    @property
    def num_chains(self) -> int:
        return jax.tree.leaves(self.draws)[0].shape[0]

    @property
    def num_draws(self) -> int:
        """How many distinct draws there are, over all chains."""
        chains, draws = jax.tree.leaves(self.draws)[0].shape[:2]
        return chains * draws

    def sample(self, key: Array, num_draws: int) -> Params:
        """`num_draws` draws, stacked: all of them once, a random part, or with repetition.

        Weighted draws are repeated in proportion to their weights (systematic resampling).
        """
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), self.draws)
        if self.weights is not None:
            ticks = (jnp.arange(num_draws) + jax.random.uniform(key)) / num_draws
            chosen = jnp.searchsorted(jnp.cumsum(self.weights.ravel()), ticks)
            chosen = jnp.minimum(chosen, self.num_draws - 1)
            return jax.tree.map(lambda leaf: leaf[chosen], flat)
        if num_draws == self.num_draws:
            return flat
        repeat = num_draws > self.num_draws
        chosen = jax.random.choice(key, self.num_draws, (num_draws,), replace=repeat)
        return jax.tree.map(lambda leaf: leaf[jnp.sort(chosen)], flat)

    def realize(self, draw: Params) -> tuple[Params, Noise]:
        """The parameters and the noise function that make one draw a function of x."""
        return draw, no_noise

    def to_arviz(self) -> Any:
        """The draws and what the sampler recorded after its warm-up as `arviz.InferenceData`."""
        try:
            import arviz
        except ImportError as error:
            raise CredoError("to_arviz needs ArviZ: pip install 'credo-bayes[arviz]'") from error
        leaves = jax.tree_util.tree_flatten_with_path(self.draws)[0]
        draws = {path_name(path) or "x": np.asarray(leaf) for path, leaf in leaves}
        return arviz.from_dict(posterior=draws, sample_stats=self._stats() or None)

    def _stats(self) -> dict[str, np.ndarray]:
        """What was recorded at each draw, by ArviZ's names, and the weights of the draws."""
        record = self.record
        names = {"divergent": "diverging", "acceptance": "acceptance_rate", "log_joint": "lp"}
        at_draws = {
            name: np.asarray(values)[:, record.num_warmup :][:, record.thin - 1 :: record.thin]
            for name, values in record.history.items()
        }
        exploring = at_draws.pop("exploring", None)
        if exploring is not None and exploring.size:  # those draws have not been kept
            at_draws = {name: values[:, ~exploring[0]] for name, values in at_draws.items()}
        if self.weights is not None:
            at_draws["weight"] = np.asarray(self.weights)
        # A history that is not of draws, such as that of an optimiser, has no place here.
        shape = jax.tree.leaves(self.draws)[0].shape[:2]
        return {names.get(n, n): values for n, values in at_draws.items() if values.shape == shape}


def one_network(model: Model, params: Params, record: Record) -> Samples:
    """The posterior that is one deterministic network."""
    return Samples(model, jax.tree.map(lambda leaf: leaf[None, None], params), record)


def _flatten(posterior: Samples):
    return (posterior.draws, posterior.weights), posterior.model


def _unflatten(model: Model, children) -> Samples:
    return Samples(model, children[0], weights=children[1])


jax.tree_util.register_pytree_node(Samples, _flatten, _unflatten)
