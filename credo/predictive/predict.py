"""Predictions: posterior draws × inputs → what is said about the targets, in the user's units.

Draws are functions, drawn once and shared by all inputs. Inputs go through in batches and are
reduced batch by batch, so that for classes memory does not grow with the number of draws. A
quantity keeps the parameters of its law (a mean, and where it depends on x a noise scale) per row
and draw.
"""

from collections.abc import Callable
from numbers import Integral
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credo.caching import enable_compilation_cache, jit
from credo.errors import CredoError
from credo.keys import as_key
from credo.model import Model
from credo.model.likelihoods.likelihood import all_finite
from credo.model.summaries import Predictive
from credo.networks import Params
from credo.posterior import Mixture, Posterior, Record

BATCH_ROWS = 1024


def predict(
    posterior: Posterior,
    x: Any,
    num_draws: int = 100,
    key: int | Array = 0,
    keep_draws: bool = False,
) -> Predictive:
    """The posterior predictive at `x`, in the units of the data that the model was fitted to.

    Args:
        x: rows like those of the fit: an array, or for a model of a table a data frame.
        num_draws: at most this many posterior draws (a stored chain may have fewer).
        keep_draws: keep the class probabilities of every draw (rows × draws × classes numbers).

    Example:
        >>> predicted = credo.predict(posterior, data.test.x)  # doctest: +SKIP
        >>> predicted.probs, predicted.mutual_information  # doctest: +SKIP
    """
    enable_compilation_cache()
    check_posterior(posterior)
    x = check_inputs(posterior, x)
    check_num_draws(num_draws)
    count = min(num_draws, posterior.num_draws or num_draws)
    draws, weights = _sample(posterior, as_key(key), count), posterior.draw_weights(count)

    def summary(batch: Array) -> Any:
        return _summary(posterior, draws, weights, batch, keep_draws)

    return as_predictive(posterior, *by_batches(summary, x), weights)


def predict_stored(posterior: Posterior, x: Array) -> Predictive:
    """The predictive of all stored draws at all rows at once; `x` is as the network takes it."""
    count = posterior.num_draws or 1
    draws, weights = _sample(posterior, as_key(0), count), posterior.draw_weights(count)
    averaged, kept = _summary(posterior, draws, weights, x, False)
    on_host = jax.tree.map(np.asarray, (averaged, kept))
    return as_predictive(posterior, on_host[0], on_host[1], weights)


def as_predictive(
    posterior: Posterior, averaged: dict, kept: dict, weights: Array | None = None
) -> Predictive:
    """What the likelihood says of the summaries of all draws, in the user's units."""
    predicted = posterior.model.likelihood.predictive(averaged, kept)
    if weights is not None:
        predicted = predicted.weighted(np.asarray(weights, float))
    return predicted.in_units(posterior.record.units)


def by_batches(summary: Callable[[Array], tuple[dict, dict]], x: Any) -> tuple[dict, dict]:
    """What `summary` gives for batches of rows, joined: averages by rows, the rest by their second
    axis, which follows that of the draws.

    Every part goes to its place on the host at once: memory holds the result and one batch.
    """
    rows = min(BATCH_ROWS, _bucket(len(x)))
    joined: tuple[dict, dict] = ({}, {})
    for start in range(0, len(x), rows):
        parts = summary(_padded(x[start : start + rows], rows))
        for axis, (whole, part) in enumerate(zip(joined, parts, strict=True)):
            for name, value in part.items():
                _put(whole, name, np.asarray(value), axis, start, rows, len(x))
    return joined


def _put(
    whole: dict, name: str, part: np.ndarray, axis: int, start: int, rows: int, total: int
) -> None:
    """A batch's part in its place; an axis of one that all rows share stays as it is."""
    if name not in whole:
        size = total if part.shape[axis] == rows else part.shape[axis]
        shape = (*part.shape[:axis], size, *part.shape[axis + 1 :])
        whole[name] = np.empty(shape, part.dtype)
    place = np.moveaxis(whole[name], axis, 0)[start : start + rows]
    place[:] = np.moveaxis(part, axis, 0)[: len(place)]


def check_posterior(posterior: Any) -> None:
    if not isinstance(posterior, Posterior):
        raise CredoError(
            f"a prediction needs a posterior, as credo.fit gives it, got {type(posterior).__name__}"
        )


def check_num_draws(num_draws: Any) -> None:
    if not isinstance(num_draws, Integral) or isinstance(num_draws, bool) or num_draws < 1:
        raise CredoError(
            f"prediction needs at least 1 draw: num_draws must be a whole number, got {num_draws!r}"
        )


def check_inputs(posterior: Posterior, x: Any) -> np.ndarray | Array:
    """Rows as the network takes them; refused where their shape or their numbers are wrong."""
    return check_rows(posterior.record, x)


def check_rows(record: Record, x: Any) -> np.ndarray | Array:
    """The same, by the record of a fit."""
    x = record.units.inputs_of(x)
    if not isinstance(x, jax.Array):
        x = np.asarray(x)
    expected = tuple(record.input_shape)
    if x.shape[1:] != expected:
        raise CredoError(
            f"the model was fitted on rows of shape {expected}, got {x.shape[1:]}; "
            "give the same features in the same order"
        )
    if len(x) == 0:
        raise CredoError("nothing to predict: x has no rows")
    if not all_finite(x):
        raise CredoError(
            "x must hold finite numbers; encode text, fill or remove NaN and infinite entries"
        )
    return x


def draw_outputs(posterior: Posterior, x: Array, num_draws: int | None = None) -> np.ndarray:
    """Raw outputs (draw, row, ...) of every stored draw, or of `num_draws` fresh ones.

    `x` is as the network takes it.
    """
    wanted = posterior.num_draws or num_draws or 1
    return np.asarray(_outputs(posterior, _sample(posterior, as_key(0), wanted), jnp.asarray(x)))


# One program instead of a dozen small ones, each of which every new process would compile.
@jit(static_argnames="num_draws")
def _sample(posterior: Posterior, key: Array, num_draws: int):
    return posterior.sample(key, num_draws)


@jit
def _outputs(posterior: Posterior, draws: Any, x: Array) -> Array:
    return jax.lax.map(lambda draw: _realized_outputs(posterior, draw, x)[0], draws)


def _realized_outputs(posterior: Posterior, draw: Any, x: Array) -> tuple[Array, dict]:
    """The outputs of a draw, and its parameters of the likelihood."""
    if isinstance(posterior, Mixture):
        index, own = draw
        return _realized_outputs(posterior.member(index), own, x)
    params, noise = posterior.realize(draw)
    params = cast_like(params, x)
    if posterior.is_linearized:
        mean = cast_like(posterior.mean, x)  # type: ignore[attr-defined]
        return _tangent_outputs(posterior.model, mean, params, x), params["likelihood"]
    return posterior.model.outputs(params, x, noise), params["likelihood"]


def _tangent_outputs(model: Model, mean: Params, params: Params, x: Array) -> Array:
    """f(x; mean) + J(x) (θ − mean); the first term, the same for all draws, leaves their loop."""
    change = jax.tree.map(jnp.subtract, params["network"], mean["network"])

    def function(network: Params) -> Array:
        return model.outputs({**mean, "network": network}, x)

    return sum(jax.jvp(function, (mean["network"],), (change,)))


def cast_like(params: Params, x: Array) -> Params:
    """Parameters in the precision of x, as convolutions insist."""
    dtype = jnp.result_type(x, float)

    def cast(leaf: Array) -> Array:
        return leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    return jax.tree.map(cast, params)


@jit(static_argnames="keep_draws")
def _summary(
    posterior: Posterior, draws: Any, weights: Array | None, x: Array, keep_draws: bool
) -> tuple[dict, dict]:
    likelihood = posterior.model.likelihood

    def one(draw: Any) -> tuple[dict, dict]:
        outputs, own = _realized_outputs(posterior, draw, x)
        return likelihood.summarize(own, outputs)

    # A loop over draws, not vmap: each draw's activations stay in cache, and XLA hoists the
    # layers before the first noise site, the same for all draws, out of the loop.
    drawn, kept = jax.lax.map(one, draws)
    return likelihood.average(drawn, weights), kept | drawn if keep_draws else kept


def _bucket(rows: int) -> int:
    """Round up to a sixteenth of a power of two, so that few batch sizes are ever compiled."""
    step = max(1, 2 ** (rows.bit_length() - 5))
    return -(-rows // step) * step


def _padded(x: np.ndarray | Array, rows: int) -> Array:
    x = jnp.asarray(x, float)
    return x if len(x) == rows else jnp.pad(x, [(0, rows - len(x))] + [(0, 0)] * (x.ndim - 1))
