"""DEnFi, the deep ensemble filter: an ensemble that follows a stream of data.

An initial fit, then for every new datum or batch, for each member i:

    inflation      θ̃_i = θ_i + q ξ,  ξ ~ N(0, I)       forget a little, so that members differ
    assimilation   θ_i = argmin_θ  −log p(data, θ) + ‖θ − θ̃_i‖² / 2r,    started at θ̃_i

with all data so far (`memory="all"`; r is the radius of the localisation, ∞ by default). With
`memory="new"` old data are forgotten and live on in the ensemble alone: the new rows, with noise of
the member's own on their targets where it is known (`Normal(scale=…)`; elsewhere members draw
together unless inflated), against ½ (θ − θ̃_i)ᵀ P⁻¹ (θ − θ̃_i), P the ensemble's covariance.
For a linear model with normal noise that is the Kalman filter of a random walk of variance q².

Reference: Ulrych & Šmídl, Deep Ensemble Filter for Active Learning, ÚTIA report 2383, 2020.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from credo.engine import DescentState, Info, Plan, descend, unstack
from credo.engine.descent import Schedule
from credo.errors import CredoError
from credo.fields import COUNT, POSITIVE, at_least, check_fields
from credo.inference.ensembles.ensemble import Ensemble, with_noisy_targets
from credo.inference.method import Method, Wrapper
from credo.inference.point.map import MAP
from credo.model import Batch, Target
from credo.networks import Params
from credo.networks.prior_function import PriorFunction
from credo.posterior import Samples
from credo.struct import replace_unchecked


@dataclass(frozen=True)
class DEnFi(Wrapper):
    """Deep ensemble filter: an ensemble that follows a stream of data.

    `credo.fit` makes the ensemble, `credo.update` takes new data into it.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.default_model(3, credo.networks.MLP(hidden=(8,)))
        >>> few = data.train.x[:50], data.train.y[:50]
        >>> posterior = credo.fit(model, few, credo.DEnFi(size=3, num_steps=100))
        >>> posterior = credo.update(posterior, data.train)
        >>> posterior.num_draws
        3
    """

    size: int = 10
    """Members."""
    inflation: float = 0.1
    """Standard deviation q of the noise on the weights before an update."""
    relative: bool = True
    """Whether q is in units of each layer's root mean square, or absolute."""
    radius: float | None = None
    """Variance r within which an update keeps each weight; None or ∞: no bound."""
    memory: Literal["all", "new"] = "all"
    """What an update learns from: all data so far, or the new rows alone."""
    covariance: Literal["diagonal", "full"] = "diagonal"
    """The ensemble's covariance that stands for old data where these are forgotten."""
    learning_rate: float = 1e-3
    """Step size of Adam."""
    num_steps: int = 2500
    """Gradient steps of the initial fit."""
    update_steps: int = 700
    """Gradient steps of an update."""
    batch_size: int = 128
    """Rows per step."""
    schedule: Schedule = "cosine"
    """How the learning rate changes within a fit: constant, or cosine decay to zero."""

    def __post_init__(self) -> None:
        if self.radius == math.inf:
            object.__setattr__(self, "radius", None)
        counts = dict.fromkeys(("size", "num_steps", "update_steps", "batch_size"), COUNT)
        check_fields(self, inflation=at_least(0), radius=POSITIVE, learning_rate=POSITIVE, **counts)
        if self.memory == "new" and self.size < 2:
            raise CredoError('DEnFi: memory="new" needs a size of at least 2, whose spread it uses')

    def descent(self, num_steps: int) -> MAP:
        """The descent of a member."""
        # Not by `MAP(...)`, whose checks a traced rate would not pass: it has passed them here.
        return replace_unchecked(
            MAP(batch_size=self.batch_size, schedule=self.schedule, num_steps=num_steps),
            learning_rate=self.learning_rate,
        )

    @property
    def inner(self) -> Ensemble:
        """The ensemble of the initial fit."""
        # Anchored members are draws from the posterior, as a filter without memory needs them.
        return Ensemble(self.descent(self.num_steps), self.size, anchored=self.memory == "new")


class Start(NamedTuple):
    """Where a member's update starts, and how strongly it is drawn back there."""

    center: Params
    precision: Array
    """P⁻¹: a number, one for each weight, or a matrix."""


class AssimilationState(NamedTuple):
    """A member in an update."""

    descent: DescentState
    start: Start
    key: Array


@dataclass(frozen=True)
class Assimilation(Method):
    """One update of all members, as a run of the engine."""

    filter: DEnFi

    def plan(self, num_rows: int) -> Plan:
        return self._descent.plan(num_rows)._replace(num_chains=self.filter.size)

    def init(self, key: Array, target: Target, params: Start, batch: Batch) -> AssimilationState:
        # The optimiser starts afresh: its memory is of other weights and other data.
        descent = self._descent.init(key, target, params.center, batch)
        return AssimilationState(descent, params, jax.random.key_data(key))

    def step(
        self, key: Array, target: Target, state: AssimilationState, batch: Batch
    ) -> tuple[AssimilationState, Info]:
        forgets = self.filter.memory == "new"
        if forgets:
            batch = with_noisy_targets(target, state.key, batch)

        def loss(params: Params) -> tuple[Array, Info]:
            log_likelihood = target.training_likelihood(params, batch)
            log_prior = 0.0 if forgets else target.log_prior(params)
            energy = distance(params, state.start)
            energy = energy - (log_likelihood + log_prior) / target.temperature
            return energy / target.num_data, {"nll": -log_likelihood / target.num_data}

        held = state.descent
        rule = self._descent.transformation(target, held.learned)
        learned, memory, info = descend(rule, held.learned, held.memory, loss)
        descent = held._replace(learned=learned, memory=memory, step=held.step + 1)
        return state._replace(descent=descent), info

    def posterior(self, target: Target, states: AssimilationState, kept: None) -> Samples:
        return Samples(target.model, jax.tree.map(lambda a: a[:, None], states.descent.learned))

    def divergence_hint(self) -> str:
        return self._descent.divergence_hint()

    @property
    def _descent(self) -> MAP:
        return self.filter.descent(self.filter.update_steps)


def distance(params: Params, start: Start) -> Array:
    """½ (θ − c)ᵀ P⁻¹ (θ − c)."""
    moved = ravel_pytree(params)[0] - ravel_pytree(start.center)[0]
    product = start.precision @ moved if start.precision.ndim == 2 else start.precision * moved
    return 0.5 * moved @ product


def inflate(key: Array, params: Params, inflation: float, relative: bool) -> Params:
    """θ + q ξ, with q in units of each layer's root mean square, or absolute.

    A weight and its bias are a layer (a bias alone may be zero); elsewhere every array is one.
    """
    paths, structure = jax.tree.flatten_with_path(params)
    keys = jax.random.split(key, len(paths))
    layers: dict[tuple, list[Array]] = {}
    for path, leaf in paths:
        layers.setdefault(_layer(path), []).append(leaf)

    def one(key: Array, path: tuple, leaf: Array) -> Array:
        squares = jnp.concatenate([jnp.ravel(jnp.square(part)) for part in layers[_layer(path)]])
        unit = jnp.sqrt(jnp.mean(squares)) if relative else 1.0
        return leaf + inflation * unit * jax.random.normal(key, leaf.shape, leaf.dtype)

    return jax.tree.unflatten(structure, [one(k, *part) for k, part in zip(keys, paths)])


def _layer(path: tuple) -> tuple:
    """Where the layer of an array stands in the pytree."""
    return path[:-1] if getattr(path[-1], "key", None) in ("w", "b") else path


def anchor_precision(method: DEnFi, members: Params) -> Array:
    """P⁻¹ of the localisation, and of the ensemble where it stands for old data."""
    flat = jax.vmap(lambda member: ravel_pytree(member)[0])(members)
    local = 0.0 if method.radius is None else 1.0 / method.radius
    if method.memory == "all":
        return jnp.asarray(local, flat.dtype)
    if method.covariance == "diagonal":
        return 1.0 / jnp.maximum(jnp.var(flat, axis=0, ddof=1), 1e-12) + local
    size, weights = flat.shape
    if size <= weights:
        raise CredoError(
            f'covariance="full" needs more members than weights, got {size} members of {weights} '
            'weights; use covariance="diagonal"'
        )
    return jnp.linalg.inv(jnp.cov(flat, rowvar=False)) + local * jnp.eye(weights)


def inflated_starts(method: DEnFi, posterior: Samples, key: Array) -> list[Start]:
    """Inflated members, and how strongly each is drawn back."""
    if not isinstance(posterior, Samples) or posterior.num_draws != method.size:
        raise CredoError(
            f"an update needs an ensemble of {method.size} networks, as credo.fit with "
            f"credo.DEnFi makes it, got {posterior!r}"
        )
    if isinstance(posterior.model.network, PriorFunction):
        raise CredoError("an ensemble with prior functions cannot be updated: they stay fixed")
    members = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), posterior.draws)
    keys = jax.random.split(key, method.size)
    inflated = jax.vmap(lambda k, m: inflate(k, m, method.inflation, method.relative))(
        keys, members
    )
    precision = anchor_precision(method, inflated)
    return [Start(member, precision) for member in unstack(inflated, method.size)]
