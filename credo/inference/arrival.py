"""Has a descent arrived? Judged by the losses of its steps, and at a mode by a Newton step.

By the losses: time is measured in learning rate, T(s) = Σ rate up to step s, for near the end of a
cosine schedule every loss stands still. A loss that falls over the last tenth of that time, by more
than its noise and by more than a share of all that the run gained, would fall on.

At a mode θ* of U = −log p(θ, D) the gradient g is zero. Elsewhere conjugate gradients on the
Hessian H give a step Δ ≈ −H⁻¹ g, and what U falls by at θ + Δ tells how far the end is from a
mode: with a quadratic U, by ½ Δᵀ H Δ, half the squared distance in posterior standard deviations.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from credo.caching import jit

NUM_ERRORS = 4.0  # standard errors that a change must exceed
FEWEST_STEPS = 20  # of a run whose losses say anything
LEAST_FALL = 0.02  # nats a row: a change of the likelihood by 2 %
SHARE_OF_FALL = 0.03  # of the fall over the whole run
PARTED = 0.3  # nats a row between training and held-out loss
NEWTON_STEPS = 20  # of conjugate gradients
QUICK_WORK = 2e7  # rows times parameters that a run of conjugate gradients may always have
NEWTON_SHARE = 0.1  # of the work of the descent, where it has more
ROW_GAIN = 0.1  # nats a row that a Newton step may still gain, or a loss rise


def descent_warnings(name: str, method: Any, target: Any, info: dict[str, np.ndarray]) -> list[str]:
    """What the losses of a run say of its end."""
    losses = info["loss"][0]
    losses = losses[np.isfinite(losses)]
    if len(losses) < FEWEST_STEPS:
        return []
    found = _rise(name, method, losses)
    held_out = getattr(target, "held_out", None)
    if held_out is not None and "validation_nll" in info:
        return found + _parting(name, info, len(held_out.x))
    return found or _fall(name, method, losses)


def _rise(name: str, method: Any, losses: np.ndarray) -> list[str]:
    """The end lies above the beginning, or above what the run had reached."""
    end = losses[-max(5, len(losses) // 100) :]
    tenths = np.array_split(losses, 10)
    means = np.array([part.mean() for part in tenths])
    # The first loss is that of one batch, and as noisy as one at the end; a run that was far above
    # it needs no such allowance.
    noise = NUM_ERRORS * (_error(end) if jumped_up(losses) else end.std())
    if not method.anneals and end.mean() > losses[0] + LEAST_FALL + noise:
        return [
            f"{name}: the loss ended at {end.mean():.3g} nats a row, above the {losses[0]:.3g} "
            f"where it began; {method.divergence_hint()}"
        ]
    last, lowest = means[-1], int(means.argmin())
    noise = NUM_ERRORS * np.hypot(_error(tenths[-1]), _error(tenths[lowest]))
    if method.anneals or last <= means[lowest] + max(noise, ROW_GAIN):
        return []
    return [
        f"{name}: the loss rose from {means[lowest]:.3g} to {last:.3g} nats a row towards the end; "
        f"{method.divergence_hint()}"
    ]


def jumped_up(losses: np.ndarray) -> bool:
    """Whether a part of the run lay far above its beginning."""
    highest = max(part.mean() for part in np.array_split(losses, 10))
    end = losses[-max(5, len(losses) // 100) :]
    return bool(highest > losses[0] + 1 + NUM_ERRORS * end.std())


def _fall(name: str, method: Any, losses: np.ndarray) -> list[str]:
    """The loss falls by more than its noise, and more than little, over the last tenth of time."""
    before, after = last_tenths(method, losses)
    fall = before.mean() - after.mean()
    noise = NUM_ERRORS * np.hypot(_error(before), _error(after))
    if fall <= max(noise, LEAST_FALL, SHARE_OF_FALL * (losses[0] - after.mean())):
        return []
    is_too_fast = not method.anneals and jumped_up(losses)
    hint = method.divergence_hint() if is_too_fast else _longer(method, len(losses))
    return [
        f"{name}: the loss still fell by {fall:.2g} nats a row over the last tenth of the descent, "
        f"to {after.mean():.3g}; {hint}"
    ]


def last_tenths(method: Any, losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The losses of the last tenth but one, and of the last, of the time in learning rate."""
    steps = np.arange(len(losses))
    rates = np.ones(len(losses))
    if isinstance(method.optimizer, str):
        rates = np.asarray(jax.vmap(method.rate_schedule(len(losses)))(jnp.asarray(steps)))
    time = np.cumsum(rates) / rates.sum()
    return losses[(time > 0.8) & (time <= 0.9)], losses[time > 0.9]


def _parting(name: str, info: dict[str, np.ndarray], num_rows: int) -> list[str]:
    """The kept network predicts held-out rows far worse than those it has learned from."""
    looks = info["validation_nll"][0]
    best = int(np.nanargmin(np.where(np.isfinite(looks), looks, np.inf)))
    learned = np.nanmean(info["nll"][0][max(0, best - FEWEST_STEPS) : best + 1])
    gap = looks[best] - learned
    # The terms of rows spread by about one nat.
    if not gap > PARTED + 2 / np.sqrt(num_rows):
        return []
    return [
        f"{name}: training and held-out loss have parted: {learned:.3g} and {looks[best]:.3g} nats "
        "a row where the held-out rows are predicted best; use more rows, fewer units or a smaller "
        "prior scale"
    ]


def mode_warnings(name: str, method: Any, target: Any, params: Any, data: Any) -> list[str]:
    """What a Newton step says of a method that should end at a mode."""
    size = ravel_pytree(params)[0].size
    num_rows = len(data.x)
    if num_rows < target.num_data or method.held_out_fraction > 0:
        return []  # a stream, or a run that was stopped before the mode
    count = NEWTON_STEPS
    if num_rows * size > QUICK_WORK:
        work = method.plan(num_rows).num_steps * method.batch_size
        count = min(count, int(NEWTON_SHARE * work / (3 * num_rows)))
    if count < 1:
        return []
    gain = float(newton_gain(target, params, data, count).gain)
    # A draw from the posterior of d parameters lies d/2 nats below its mode, on average.
    if not gain > min(max(1.0, size / 2), ROW_GAIN * num_rows):
        return []
    return [
        f"{name}: not at the mode yet: a Newton step still lowers the loss by "
        f"{gain / num_rows:.2g} nats a row ({gain:.3g} in all, as much as "
        f"{np.sqrt(2 * gain):.2g} posterior standard deviations); "
        f"{_longer(method, method.plan(num_rows).num_steps)}"
    ]


class Gain(NamedTuple):
    """What a Newton step gains, in nats over all rows, and where it leads."""

    gain: Array
    params: Any


@jit
def newton_gain(target: Any, params: Any, data: Any, num_steps: Any = NEWTON_STEPS) -> Gain:
    """The best of a few lengths of a truncated Newton step."""
    flat, unravel = ravel_pytree(params)

    def energy(flat: Array) -> Array:
        return target.training_loss(unravel(flat), data)[0] * target.num_data

    value, gradient = jax.value_and_grad(energy)(flat)
    step = _newton_step(jax.grad(energy), flat, gradient, num_steps)
    ends = flat + (0.25 ** jnp.arange(8.0))[:, None] * step
    values = jax.lax.map(energy, ends)
    best = jnp.nanargmin(jnp.where(jnp.isnan(values), jnp.inf, values))
    gain = value - values[best]
    return Gain(jnp.maximum(gain, 0.0), unravel(jnp.where(gain > 0, ends[best], flat)))


def _newton_step(slope: Any, flat: Array, gradient: Array, num_steps: Any) -> Array:
    """Conjugate gradients for H Δ = −g, up to the first direction of negative curvature."""

    def goes_on(carry: Any) -> Array:
        index, _, residual, _, bends = carry
        small = jnp.vdot(residual, residual) <= 1e-10 * jnp.vdot(gradient, gradient)
        return (index < num_steps) & bends & ~small

    def one(carry: Any) -> Any:
        index, step, residual, direction, _ = carry
        product = jax.jvp(slope, (flat,), (direction,))[1]
        curvature, square = jnp.vdot(direction, product), jnp.vdot(residual, residual)
        bends = curvature > 0
        # The first direction is that of steepest descent: its length is right also uphill.
        length = square / jnp.maximum(jnp.abs(curvature), jnp.finfo(flat.dtype).tiny)
        moves = bends | (index == 0)
        step = jnp.where(moves, step + length * direction, step)
        new = residual - length * product
        turned = new + jnp.vdot(new, new) / square * direction
        return index + 1, step, new, turned, bends

    start = (0, jnp.zeros_like(flat), -gradient, -gradient, jnp.ones((), bool))
    return jax.lax.while_loop(goes_on, one, start)[1]


def _error(losses: np.ndarray) -> float:
    """Standard error of a mean; neighbouring steps see different rows."""
    return float(losses.std() / np.sqrt(max(len(losses), 1)))


def _longer(method: Any, num_steps: int) -> str:
    rate = f" (got {method.learning_rate:g})" if method.learning_rate is not None else ""
    return f"raise num_steps (got {num_steps}) or learning_rate{rate}"
