"""A posterior held as parameter draws: one for a point estimate, many for a Markov chain."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credo.errors import CredoError
from credo.files import path_name
from credo.model import Model
from credo.networks import Noise, Params, no_noise
from credo.posterior.posterior import Posterior, not_negative, require
from credo.posterior.record import Record
from credo.saving import Context, Leaves, Saveable


class HasDraws:
    """What draws of a model and of a bare density share; every leaf is (chain, draw, ...)."""

    draws: Any
    record: Record
    weights: Array | None

    @property
    def num_chains(self) -> int:
        return jax.tree.leaves(self.draws)[0].shape[0]

    @property
    def num_draws(self) -> int:
        """How many distinct draws there are, over all chains."""
        chains, draws = jax.tree.leaves(self.draws)[0].shape[:2]
        return chains * draws

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


@dataclass(frozen=True, repr=False)
class Samples(HasDraws, Posterior):
    """Parameter draws of a model, every leaf of shape (chain, draw, *parameter)."""

    model: Model
    draws: Params
    record: Record = field(default_factory=Record)
    weights: Float[Array, "chain draw"] | None = None
    """Of the draws, with sum 1; None: all equal."""

    like_params: ClassVar = ("draws",)
    leading_axes: ClassVar = 2

    def facts(self) -> dict[str, Any]:
        return {"num_chains": self.num_chains, "num_draws": self.num_draws}

    def validate(self, template: Params) -> None:
        _check_weights(self)

    def sample(self, key: Array, num_draws: int) -> Params:
        """`num_draws` draws, stacked: all of them once, a random part, or with repetition.

        All of them have their weights (`draw_weights`); another number of weighted draws is made
        by repeating them in proportion to their weights (systematic resampling).
        """
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), self.draws)
        if self.weights is not None and num_draws != self.num_draws:
            ticks = (jnp.arange(num_draws) + jax.random.uniform(key)) / num_draws
            chosen = jnp.searchsorted(jnp.cumsum(self.weights.ravel()), ticks)
            chosen = jnp.minimum(chosen, self.num_draws - 1)
            return jax.tree.map(lambda leaf: leaf[chosen], flat)
        if num_draws == self.num_draws:
            return flat
        repeat = num_draws > self.num_draws
        chosen = jax.random.choice(key, self.num_draws, (num_draws,), replace=repeat)
        return jax.tree.map(lambda leaf: leaf[jnp.sort(chosen)], flat)

    def draw_weights(self, num_draws: int) -> Array | None:
        all_of_them = self.weights is not None and num_draws == self.num_draws
        return self.weights.ravel() if all_of_them else None  # type: ignore[union-attr]

    def realize(self, draw: Params) -> tuple[Params, Noise]:
        return draw, no_noise


@dataclass(frozen=True, repr=False)
class Draws(HasDraws, Saveable):
    """Draws from a bare log density, every leaf of shape (chain, draw, *position)."""

    draws: Any
    record: Record = field(default_factory=Record)
    weights: Float[Array, "chain draw"] | None = None
    """Of the draws, with sum 1; None: all equal."""

    @classmethod
    def from_fields(cls, fields: dict[str, Any], context: Context) -> Any:
        draws = fields["draws"]
        if isinstance(draws, Leaves):  # of containers that the file does not know
            draws = draws.arrays
        shapes = {np.shape(leaf)[:2] for leaf in jax.tree.leaves(draws)}
        fit = len(shapes) == 1 and len(next(iter(shapes))) == 2 and 0 not in next(iter(shapes))
        require(fit, "its draws have no common chains and draws")
        kinds = {getattr(leaf, "dtype", np.dtype(object)).kind for leaf in jax.tree.leaves(draws)}
        require(kinds <= set("biuf"), "its draws are no numbers")
        found = cls(**{**fields, "draws": draws})
        _check_weights(found)
        return found

    def __repr__(self) -> str:
        shown = f"num_chains={self.num_chains}, num_draws={self.num_draws}"
        return f"Draws(method={self.record.method!r}, {shown})"


def _check_weights(posterior: Samples | Draws) -> None:
    """Refuse weights, read from a file, that are not those of the draws."""
    if posterior.weights is None:
        return
    shape = jax.tree.leaves(posterior.draws)[0].shape[:2]
    require(posterior.weights.shape == shape, "its weights are not those of its draws")
    not_negative(posterior.weights, "weights")
    total = float(np.asarray(posterior.weights, float).sum())
    require(abs(total - 1) < 1e-3, f"its weights add up to {total:g}, not 1")


def one_network(model: Model, params: Params, record: Record | None = None) -> Samples:
    """The posterior that is one deterministic network."""
    draws = jax.tree.map(lambda leaf: leaf[None, None], params)
    return Samples(model, draws, Record() if record is None else record)
