"""What rows that a member has not seen decide: how much each kind of members counts, and by what
all outputs are corrected."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credo.caching import jit
from credo.inference.auto.folds import Folds
from credo.model import NormalMixture, Target
from credo.networks import Params, TabularNetwork
from credo.posterior import Samples

NUM_SWEEPS = 200
PRIOR_ROWS = 10.0  # how many rows say beforehand that no correction is needed
CORRECTIONS = np.linspace(-0.7, 0.7, 57)  # logarithms of factors
POWER_CLASSES = 0.5  # out-of-fold rows saw one member of a kind; the average of all needs less
PSEUDO_ROWS_CLASSES = 1.0  # of each kind


class Decision(NamedTuple):
    """Of out-of-fold rows."""

    weights: Float[np.ndarray, " kinds"]
    correction: float
    """log of what logits are multiplied by, or the scales of noise."""
    draws: Params
    """The members, corrected."""


def decide(folds: Folds, posterior: Samples, num_kinds: int) -> Decision:
    """Weights of kinds by EM, then the correction under which out-of-fold rows are likeliest."""
    is_classes = folds.target.model.likelihood.num_classes is not None
    pseudo_rows = PSEUDO_ROWS_CLASSES if is_classes else 0.0
    can_correct = _can_correct(folds.target)
    corrections = jnp.asarray(CORRECTIONS if can_correct else np.zeros(1), float)
    weights, losses = _scores(folds, posterior.draws, num_kinds, corrections, pseudo_rows)
    correction = 0.0
    if can_correct:
        paid = np.asarray(losses, np.float64) + PRIOR_ROWS * CORRECTIONS**2
        power = POWER_CLASSES if is_classes else 1.0
        correction = float(CORRECTIONS[int(np.argmin(paid))] * power)
    corrected = _corrected(folds.target, posterior.draws, correction)
    return Decision(np.asarray(weights, np.float64), correction, corrected)


def _can_correct(target: Target) -> bool:
    known = target.model.likelihood.num_classes is not None
    known = known or isinstance(target.model.likelihood, NormalMixture)
    return known and isinstance(target.model.network, TabularNetwork)


@functools.partial(jit, static_argnames="num_kinds")
def _scores(
    folds: Folds, draws: Params, num_kinds: int, corrections: Array, pseudo_rows: float
) -> tuple[Array, Array]:
    """Weights of the kinds, and minus the log-likelihood of out-of-fold rows by correction."""
    model = folds.target.model
    numbers = jnp.tile(jnp.arange(folds.num_folds), num_kinds)

    def outputs_of(member: Any) -> Array:
        params, fold = member
        params = jax.tree.map(lambda leaf: leaf[0], params)
        return model.outputs(params, folds.of_fold(fold).x)

    outputs = jax.lax.map(outputs_of, (draws, numbers))
    own = jax.tree.map(lambda leaf: leaf[:, 0], draws)["likelihood"]

    def log_probs(correction: Array) -> Float[Array, "rows kinds"]:
        def of_member(output: Array, params: Params, fold: Array) -> Array:
            rows = folds.of_fold(fold)
            shifted = _correct_outputs(folds.target, output, correction)
            return model.likelihood.log_prob(params, shifted, rows.y)

        each = jax.vmap(of_member)(outputs, own, numbers)  # (kinds x folds, rows of a fold)
        by_kind = each.reshape(num_kinds, -1)
        return jnp.maximum(jnp.nan_to_num(by_kind, nan=-1e6, neginf=-1e6), -1e6).T

    every = [folds.of_fold(jnp.asarray(fold)) for fold in range(folds.num_folds)]
    counts = jnp.concatenate([_counts(rows) for rows in every])
    weights = _mixture_weights(log_probs(jnp.zeros(())), counts, pseudo_rows)

    def loss(correction: Array) -> Array:
        mixed = jax.nn.logsumexp(log_probs(correction), b=weights, axis=1)
        return -jnp.sum(counts * mixed)

    return weights, jax.lax.map(loss, corrections)


def _counts(rows: Any) -> Array:
    """How much each row counts; 0 for copies that fill up the shape."""
    weight = jnp.ones(len(rows.x)) if rows.weight is None else rows.weight
    return jnp.where(rows.row >= 0, weight, 0.0)


def _mixture_weights(
    log_probs: Float[Array, "rows kinds"], counts: Float[Array, " rows"], pseudo_rows: Any
) -> Float[Array, " kinds"]:
    """argmax_w Σ_j c_j log Σ_k w_k p_jk, by EM; pseudo rows for each kind keep weights from 0."""
    probs = jnp.exp(log_probs - log_probs.max(axis=1, keepdims=True))

    def sweep(_: int, weights: Array) -> Array:
        shares = probs * weights
        shares = counts[:, None] * shares / jnp.maximum(shares.sum(axis=1, keepdims=True), 1e-30)
        total = shares.sum(axis=0) + pseudo_rows
        return total / total.sum()

    start = jnp.full(log_probs.shape[1], 1 / log_probs.shape[1])
    return jax.lax.fori_loop(0, NUM_SWEEPS, sweep, start)


def _correct_outputs(target: Target, outputs: Array, correction: Array) -> Array:
    if target.model.likelihood.num_classes is not None:
        return outputs * jnp.exp(correction)
    if isinstance(target.model.likelihood, NormalMixture):
        parts = target.model.likelihood.num_parts
        return outputs.at[..., 2 * parts :].add(correction)
    return outputs


def _corrected(target: Target, draws: Params, correction: float) -> Params:
    """The same correction in the switches of every member."""
    if correction == 0.0:
        return draws
    switches = dict(draws["network"]["switches"])
    if target.model.likelihood.num_classes is not None:
        switches["gain"] = switches["gain"] * float(np.exp(correction))
        switches["offset"] = switches["offset"] * float(np.exp(correction))
    else:
        parts = target.model.likelihood.num_parts  # type: ignore[attr-defined]
        switches["offset"] = switches["offset"].at[..., 2 * parts :].add(correction)
    return {**draws, "network": {**draws["network"], "switches": switches}}
