"""Warm-up of the samplers: the step size by dual averaging, the posterior's scales by its variance.

Every chain adapts on its own between the sync steps of its plan. There the chains share what they
learned: one step size (the median, which one stuck chain does not drag along) and one scale matrix
from the variances *within* chains, which chains in different modes do not inflate. A chain whose
step size is far from the others' has no say in the scales.

References: Hoffman & Gelman, The No-U-Turn Sampler, JMLR 2014 (dual averaging, section 3.2).
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from credo.caching import jit
from credo.engine import pick
from credo.networks import Params

Mass = Literal["unit", "diagonal", "dense"]
FORGET, UPDATES = 0.1, (0.3, 0.5, 0.8)  # shares of the warm-up
SHORTEST = 20  # warm-up for scales: the step size starts afresh with them, and needs its time
MOST_DENSE = 100  # dimensions up to which a density's scales are a matrix by default
IN_STEP = 5.0  # factor from the median step size within which a chain has a say in the scales


class StepSize(NamedTuple):
    """Nesterov's averaging of log ε (Hoffman & Gelman 2014, eq. 6)."""

    num_updates: Array
    log_step: Array
    log_average: Array
    shortfall: Array
    log_center: Array


class Moments(NamedTuple):
    """Running mean and sum of squared deviations (or of their outer products) of the positions."""

    num_draws: Array
    mean: Array
    scatter: Array


class Warmup(NamedTuple):
    """What a chain has learned so far. θ = scales · z makes z roughly isotropic; None is θ = z."""

    num_steps: Array
    step_size: StepSize
    moments: Moments | None
    scales: Any


def start_step_size(size: Array | float) -> StepSize:
    log_step = jnp.log(jnp.asarray(size, float))
    zero = jnp.zeros((), float)
    return StepSize(jnp.zeros((), int), log_step, log_step, zero, log_step + jnp.log(10.0))


def next_step_size(state: StepSize, acceptance: Array, target: float) -> StepSize:
    """One update with the constants of Hoffman & Gelman: γ = 0.05, t₀ = 10, κ = 0.75."""
    count = state.num_updates + 1
    rate = 1.0 / (count + 10.0)
    shortfall = (1 - rate) * state.shortfall + rate * (target - acceptance)
    log_step = state.log_center - jnp.sqrt(count) / 0.05 * shortfall
    weight = count**-0.75
    average = weight * log_step + (1 - weight) * state.log_average
    return StepSize(count, log_step, average, shortfall, state.log_center)


def default_mass(num_dimensions: int, num_warmup: int) -> Mass:
    """The scales of a bare density: a matrix where the warm-up can learn one."""
    if num_warmup < SHORTEST:
        return "unit"
    return "dense" if num_dimensions <= MOST_DENSE else "diagonal"


def start(params: Params, step_size: float, mass: Mass) -> Warmup:
    moments, scales = None, None
    if mass != "unit":
        flat, unravel = ravel_pytree(params)
        scales = unravel(jnp.ones_like(flat)) if mass == "diagonal" else jnp.eye(flat.size)
        moments = _no_moments(flat.size, mass, flat.dtype)
    return Warmup(jnp.zeros((), int), start_step_size(step_size), moments, scales)


def current_step_size(state: Warmup, num_warmup: int) -> Array:
    """The trial size during the warm-up, its average afterwards."""
    adapting = state.num_steps < num_warmup
    size = state.step_size
    return jnp.exp(jnp.where(adapting, size.log_step, size.log_average))


def advance(
    state: Warmup, params: Params, acceptance: Array, target: float, num_warmup: int
) -> Warmup:
    """Learn from one transition; after the warm-up, nothing."""
    size = next_step_size(state.step_size, acceptance, target)
    moments = state.moments
    if moments is not None:
        flat, _ = ravel_pytree(params)
        forgotten = jax.tree.map(jnp.zeros_like, moments)
        forget = state.num_steps == int(FORGET * num_warmup)
        moments = jax.tree.map(lambda a, b: jnp.where(forget, a, b), forgotten, moments)
        moments = _add(moments, flat)
    updated = Warmup(state.num_steps + 1, size, moments, state.scales)
    adapting = state.num_steps < num_warmup
    chosen = jax.tree.map(lambda new, old: jnp.where(adapting, new, old), updated, state)
    return chosen._replace(num_steps=state.num_steps + 1)


def sync_steps(num_warmup: int, mass: Mass) -> tuple[int, ...]:
    """When chains exchange what they learned: scales within the warm-up, step size at its end."""
    if num_warmup == 0:
        return ()
    if mass == "unit" or num_warmup < SHORTEST:
        return (num_warmup,)
    return (*(int(part * num_warmup) for part in UPDATES), num_warmup)


def synchronize(states: Any, num_warmup: int) -> Any:
    """Stacked states with one step size for all; before the end of the warm-up new scales too."""
    warmup: Warmup = states.warmup
    count = len(warmup.num_steps)
    log_steps = warmup.step_size.log_average
    log_step = jnp.median(log_steps)
    if warmup.moments is None or int(warmup.num_steps[0]) >= num_warmup:
        size = warmup.step_size._replace(log_average=jnp.full(count, log_step))
        return states._replace(warmup=warmup._replace(step_size=size))
    size = _shared(start_step_size(jnp.exp(log_step)), count)
    in_step = jnp.abs(log_steps - log_step) <= jnp.log(IN_STEP)
    trusted = jax.tree.map(lambda leaf: _where_chain(in_step, leaf), warmup.moments)
    scales = _shared(_new_scales(trusted, pick(warmup.scales, 0)), count)
    empty = jax.tree.map(jnp.zeros_like, warmup.moments)
    return states._replace(warmup=Warmup(warmup.num_steps, size, empty, scales))


def _shared(tree: Any, count: int) -> Any:
    """The same for every chain."""
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *jnp.shape(leaf))), tree)


def _where_chain(chosen: Array, leaf: Array) -> Array:
    """Zero for the other chains."""
    return jnp.where(chosen.reshape(-1, *[1] * (leaf.ndim - 1)), leaf, 0)


@jit
def _new_scales(moments: Moments, scales: Any) -> Any:
    """From the variances within chains; a few draws, or chains that stood still, teach nothing."""
    count = jnp.sum(jnp.maximum(moments.num_draws - 1, 0))
    scatter = jnp.sum(moments.scatter, axis=0) / jnp.maximum(count, 1)
    enough = (count >= 10) & jnp.any(scatter > 0)
    if scatter.ndim == 1:
        # A little of the mean variance, for a direction that happened not to move.
        variance = (count * scatter + 5 * jnp.mean(scatter)) / (count + 5)
        old, unravel = ravel_pytree(scales)
        return unravel(jnp.where(enough, jnp.sqrt(variance), old))
    # A little towards the diagonal, the less the more draws there are per dimension: a hundredth
    # of it would hide the narrow directions of strongly correlated coordinates.
    size = scatter.shape[0]
    share = 0.1 * jnp.minimum(1.0, size / jnp.maximum(count, 1)) ** 2
    diagonal = jnp.diag((count * jnp.diag(scatter) + 5 * jnp.trace(scatter) / size) / (count + 5))
    factor = jnp.linalg.cholesky((1 - share) * scatter + share * diagonal)
    return jnp.where(enough & jnp.all(jnp.isfinite(factor)), factor, scales)


def push(scales: Any, momentum: Params) -> Params:
    """scales · z: from whitened coordinates to parameters."""
    if scales is None:
        return momentum
    if not is_dense(scales):
        return jax.tree.map(jnp.multiply, scales, momentum)
    flat, unravel = ravel_pytree(momentum)
    return unravel(scales @ flat)


def pull(scales: Any, gradient: Params) -> Params:
    """scalesᵀ · g: a gradient in whitened coordinates."""
    if not is_dense(scales):
        return push(scales, gradient)
    flat, unravel = ravel_pytree(gradient)
    return unravel(scales.T @ flat)


def is_dense(scales: Any) -> bool:
    """A pytree of parameters is never a bare matrix here: `sample` wraps its positions."""
    return isinstance(scales, jax.Array) and scales.ndim == 2


def _no_moments(size: int, mass: Mass, dtype: Any) -> Moments:
    shape = (size,) if mass == "diagonal" else (size, size)
    return Moments(jnp.zeros((), int), jnp.zeros(size, dtype), jnp.zeros(shape, dtype))


def _add(moments: Moments, value: Array) -> Moments:
    """Welford's update."""
    count = moments.num_draws + 1
    before = value - moments.mean
    mean = moments.mean + before / count
    after = value - mean
    product = before * after if moments.scatter.ndim == 1 else jnp.outer(before, after)
    return Moments(count, mean, moments.scatter + product)
