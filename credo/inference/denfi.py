"""DEnFi, the deep ensemble filter: an ensemble that follows a stream of data.

An initial fit, then for every new datum or batch, for each member i:

    inflation      θ̃_i = θ_i + q ξ,  ξ ~ N(0, I)       forget a little, so that members differ
    assimilation   θ_i = argmin_θ  −log p(data, θ) + ‖θ − θ̃_i‖² / 2r,    started at θ̃_i

with all data so far (`memory="all"`; r is the radius of the localisation, ∞ by default). With
`memory="new"` old data are forgotten and live on in the ensemble alone: the new rows, with noise of
the member's own on their targets where it is known (`credo.Normal`; elsewhere members draw together
unless inflated), against ½ (θ − θ̃_i)ᵀ P⁻¹ (θ − θ̃_i), P the ensemble's covariance.
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

from credo.errors import CredoError
from credo.inference import optimize
from credo.inference.ensemble import Ensemble, EnsembleState, with_noisy_targets
from credo.inference.map import MAP
from credo.inference.method import NOT_NEGATIVE, POSITIVE, Info, Plan, check_fields
from credo.inference.optimize import Descent, Schedule
from credo.model import Batch, Target
from credo.networks import Params
from credo.networks.prior_function import PriorFunction
from credo.posterior import Posterior, Samples


@dataclass(frozen=True)
class DEnFi:
    """Deep ensemble filter: an ensemble that follows a stream of data.

    `credo.fit` makes the ensemble, `credo.update` takes new data into it.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.Model(credo.networks.MLP(hidden=(8,)), credo.Categorical(3))
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
        counts = dict.fromkeys(("size", "num_steps", "update_steps", "batch_size"), POSITIVE)
        check_fields(
            self, inflation=NOT_NEGATIVE, radius=POSITIVE, learning_rate=POSITIVE, **counts
        )
        if self.memory == "new" and self.size < 2:
            raise CredoError('DEnFi: memory="new" needs a size of at least 2, whose spread it uses')

    def plan(self, num_data: int) -> Plan:
        return self._initial.plan(num_data)

    def init(self, key: Array, target: Target, params: Params, batch: Batch) -> EnsembleState:
        return self._initial.init(key, target, params, batch)

    def step(
        self, key: Array, target: Target, state: EnsembleState, batch: Batch
    ) -> tuple[EnsembleState, Info]:
        return self._initial.step(key, target, state, batch)

    def keep(self, state: EnsembleState) -> None:
        return None

    def posterior(self, target: Target, states: list[EnsembleState], kept: None) -> Posterior:
        return self._initial.posterior(target, states, kept)

    def remedy(self) -> str:
        return optimize.remedy(self)

    @property
    def _initial(self) -> Ensemble:
        member = MAP(
            self.learning_rate, self.num_steps, batch_size=self.batch_size, schedule=self.schedule
        )
        # Anchored members are draws from the posterior, as a filter without memory needs them.
        return Ensemble(member, self.size, anchored=self.memory == "new")


class Start(NamedTuple):
    """Where a member's update starts, and what pulls it back there."""

    center: Params
    pull: Array
    """P⁻¹: a number, one for each weight, or a matrix."""


class AssimilationState(NamedTuple):
    """A member in an update."""

    descent: Descent
    start: Start
    key: Array


@dataclass(frozen=True)
class Assimilation:
    """One update of all members, as a run of the engine.

    Its data are padded (rows without a number), so that a stream compiles a few programs instead of
    one for every new label; each step draws its batch from the rows that are there.
    """

    filter: DEnFi

    @property
    def _descent(self) -> MAP:
        own = self.filter
        return MAP(own.learning_rate, own.update_steps, None, own.batch_size, "adam", own.schedule)

    def plan(self, num_data: int) -> Plan:
        steps = self.filter.update_steps
        return Plan(steps, num_warmup=steps, num_chains=self.filter.size)

    def init(self, key: Array, target: Target, params: Start, batch: Batch) -> AssimilationState:
        # The optimiser starts afresh: its memory is of other weights and other data.
        descent = optimize.start(self._descent, target.num_data, params.center)
        return AssimilationState(descent, params, jax.random.key_data(key))

    def step(
        self, key: Array, target: Target, state: AssimilationState, batch: Batch
    ) -> tuple[AssimilationState, Info]:
        forgetful = self.filter.memory == "new"
        assert batch.row is not None  # `padded` numbers them
        there: Array = batch.row >= 0
        count = jnp.sum(there)
        if len(there) > self.filter.batch_size:
            chosen = jax.random.randint(key, (self.filter.batch_size,), 0, count)
            batch = jax.tree.map(lambda column: column[chosen], batch)
            there = jnp.ones(len(chosen), bool)
        if forgetful:
            batch = with_noisy_targets(target, state.key, batch)

        def objective(params: Params) -> tuple[Array, Info]:
            terms = target.model.training_terms(params, batch)
            log_likelihood = count * jnp.sum(jnp.where(there, terms, 0.0)) / jnp.sum(there)
            log_prior = 0.0 if forgetful else target.log_prior(params)
            held = distance(params, state.start)
            energy = held - (log_likelihood + log_prior) / target.temperature
            return energy / count, {"nll": -log_likelihood / count}

        descent, info = optimize.descend_on(
            self._descent, target.num_data, state.descent, objective
        )
        return state._replace(descent=descent), info

    def keep(self, state: AssimilationState) -> None:
        return None

    def posterior(self, target: Target, states: list[AssimilationState], kept: None) -> Samples:
        members = [state.descent.params for state in states]
        return Samples(target.model, jax.tree.map(lambda *a: jnp.stack(a)[:, None], *members))

    def remedy(self) -> str:
        return optimize.remedy(self.filter)


def distance(params: Params, start: Start) -> Array:
    """½ (θ − c)ᵀ P⁻¹ (θ − c)."""
    moved = ravel_pytree(params)[0] - ravel_pytree(start.center)[0]
    pulled = start.pull @ moved if start.pull.ndim == 2 else start.pull * moved
    return 0.5 * moved @ pulled


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


def pull_of(method: DEnFi, members: list[Params]) -> Array:
    """P⁻¹ of the localisation, and of the ensemble where it stands for old data."""
    flat = jnp.stack([ravel_pytree(member)[0] for member in members])
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


def starts_of(method: DEnFi, posterior: Samples, key: Array) -> list[Start]:
    """Inflated members, and what each is pulled back by."""
    if not isinstance(posterior, Samples) or posterior.num_draws != method.size:
        raise CredoError(
            f"an update needs an ensemble of {method.size} networks, as credo.fit with "
            f"credo.DEnFi makes it, got {posterior!r}"
        )
    if isinstance(posterior.model.network, PriorFunction):
        raise CredoError("an ensemble with prior functions cannot be updated: they stay fixed")
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), posterior.draws)
    members = [jax.tree.map(lambda leaf, i=i: leaf[i], flat) for i in range(method.size)]
    keys = jax.random.split(key, method.size)
    inflated = [
        inflate(k, member, method.inflation, method.relative) for k, member in zip(keys, members)
    ]
    pull = pull_of(method, inflated)
    return [Start(member, pull) for member in inflated]


def padded(batch: Batch) -> Batch:
    """The batch with rows up to the next eighth of a power of two: copies without a number."""
    count = len(batch.x)
    step = max(8, 2 ** (count.bit_length() - 4))
    more = -count % step
    chosen = jnp.arange(count + more) % count
    numbers = jnp.pad(jnp.arange(count), (0, more), constant_values=-1)
    return Batch(batch.x[chosen], batch.y[chosen], numbers)
