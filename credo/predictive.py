"""Predictions: posterior draws × inputs → probabilities, entropies, intervals.

Draws are functions, drawn once and shared by all inputs. Inputs go through in batches and are
reduced batch by batch, so that for classes memory does not grow with the number of draws. A
regression keeps one mean (and, where it depends on x, one noise scale) per row and draw.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from credo.caching import enable_compilation_cache
from credo.errors import CredoError
from credo.keys import as_key
from credo.model import Bernoulli, Categorical, Model
from credo.model.likelihoods import all_finite
from credo.networks import Params
from credo.posterior import Mixture, Posterior

BATCH_ROWS = 1024
LOG_2PI_E = float(np.log(2 * np.pi * np.e))


@dataclass(frozen=True)
class CategoricalPredictive:
    """The posterior predictive over classes: probabilities averaged over draws."""

    probs: Float[np.ndarray, "n k"]
    """p̄(y | x) = (1/S) Σ_s p(y | x, θ_s)."""
    expected_entropy: Float[np.ndarray, " n"]
    """(1/S) Σ_s H[p(y | x, θ_s)]: the uncertainty that more data would not remove."""
    draw_probs: Float[np.ndarray, "s n k"] | None = None
    """Probabilities of every draw, when asked for with `keep_draws=True`."""

    @property
    def mean(self) -> np.ndarray:
        return self.probs

    @property
    def labels(self) -> Int[np.ndarray, " n"]:
        """The most probable class of each row."""
        return self.probs.argmax(axis=1)

    @cached_property
    def entropy(self) -> Float[np.ndarray, " n"]:
        """H[p̄], the whole uncertainty, in nats."""
        return -np.sum(self.probs * np.log(np.maximum(self.probs, 1e-38)), axis=1)

    @property
    def mutual_information(self) -> Float[np.ndarray, " n"]:
        """I(y; θ) = H[p̄] − E H[p_s]: what the draws disagree about (BALD)."""
        information = self.entropy - self.expected_entropy
        # Rounding may leave a zero slightly negative; anything larger is an error worth seeing.
        return np.where(information > -1e-5, np.maximum(information, 0.0), information)

    def log_prob(self, y: Int[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """log p̄(y | x) of the given labels."""
        return np.log(np.maximum(self.probs[np.arange(len(y)), y], 1e-38))


@dataclass(frozen=True)
class NormalPredictive:
    """The posterior predictive of a regression: an equal mixture of one normal per draw."""

    means: Float[np.ndarray, "s n d"]
    scales: Float[np.ndarray, "s rows d"]
    """One row where the noise does not depend on x."""

    @property
    def mean(self) -> np.ndarray:
        """E[y | x]."""
        return _squeeze(self.means.mean(axis=0))

    @property
    def aleatoric_variance(self) -> np.ndarray:
        """E_s[σ_s²]: noise in the data."""
        return _squeeze(
            self._by_rows(
                lambda means, scales: np.broadcast_to((scales**2).mean(axis=0), means.shape[1:])
            )
        )

    @property
    def epistemic_variance(self) -> np.ndarray:
        """Var_s[μ_s]: what the draws disagree about."""
        return _squeeze(self._by_rows(lambda means, scales: means.var(axis=0)))

    @property
    def variance(self) -> np.ndarray:
        """Var[y | x] = aleatoric + epistemic."""
        return self.aleatoric_variance + self.epistemic_variance

    @property
    def std(self) -> np.ndarray:
        return np.sqrt(self.variance)

    @property
    def entropy(self) -> np.ndarray:
        """Entropy of the normal with the mixture's moments: an upper bound of the mixture's own."""
        return _row_sum(0.5 * (LOG_2PI_E + np.log(self.variance)))

    @property
    def expected_entropy(self) -> np.ndarray:
        log_scales = self._by_rows(
            lambda means, scales: np.broadcast_to(np.log(scales).mean(axis=0), means.shape[1:])
        )
        return _row_sum(_squeeze(log_scales) + 0.5 * LOG_2PI_E)

    @property
    def mutual_information(self) -> np.ndarray:
        """entropy − expected_entropy: an upper bound of I(y; θ), exact for normal draws of μ."""
        return self.entropy - self.expected_entropy

    def log_prob(self, y: np.ndarray) -> Float[np.ndarray, " n"]:
        """log (1/S) Σ_s N(y | μ_s, σ_s²)."""
        y = np.asarray(y, float).reshape(self.means.shape[1:])

        def of_block(means, scales, y):
            standardized = (y - means) / scales
            terms = -0.5 * standardized**2 - np.log(scales) - 0.5 * np.log(2 * np.pi)
            by_draw = terms.sum(axis=-1)
            top = by_draw.max(axis=0)
            return top + np.log(np.mean(np.exp(by_draw - top), axis=0))

        return self._by_rows(of_block, y)

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """The central interval of the mixture that holds `level` of its mass."""
        if not 0 < level < 1:
            raise CredoError(f"an interval's level lies between 0 and 1, got {level}")
        tail = (1 - level) / 2
        return self.quantile(tail), self.quantile(1 - tail)

    def quantile(self, q: float) -> np.ndarray:
        """Solve (1/S) Σ_s Φ((y − μ_s)/σ_s) = q for every row."""

        def of_block(means, scales):
            # Single precision is enough once a target's large mean is out of the way.
            center, unit = means.mean(axis=0), scales.max(axis=0) + np.ptp(means, axis=0)
            standard = _mixture_quantile((means - center) / unit, scales / unit, q)
            return center + unit * np.asarray(standard)

        return _squeeze(self._by_rows(of_block))

    def rescaled(self, shift: np.ndarray | float, factor: np.ndarray | float) -> "NormalPredictive":
        """The predictive of shift + factor · y: back from standardised targets to their units."""
        precision = np.result_type(shift, factor, self.means)
        means = np.multiply(factor, self.means, dtype=precision)
        means += shift
        return replace(self, means=means, scales=factor * self.scales)

    def _by_rows(self, function: Callable, *values: np.ndarray) -> np.ndarray:
        """A function of (means, scales, *values), by blocks of rows to keep temporaries small."""
        shared = self.scales.shape[1] == 1
        blocks = [slice(i, i + BATCH_ROWS) for i in range(0, self.means.shape[1], BATCH_ROWS)]
        parts = [
            function(
                self.means[:, b],
                self.scales if shared else self.scales[:, b],
                *(v[b] for v in values),
            )
            for b in blocks
        ]
        return np.concatenate(parts)


Predictive = CategoricalPredictive | NormalPredictive


def predict(
    posterior: Posterior,
    x: np.ndarray | Array,
    num_draws: int = 100,
    key: int | Array = 0,
    keep_draws: bool = False,
) -> Predictive:
    """The posterior predictive at `x`.

    Args:
        num_draws: at most this many posterior draws (a stored chain may have fewer).
        keep_draws: keep the class probabilities of every draw (rows × draws × classes numbers).

    Example:
        >>> predicted = credo.predict(posterior, data.test.x)  # doctest: +SKIP
        >>> predicted.probs, predicted.mutual_information  # doctest: +SKIP
    """
    enable_compilation_cache()
    x = check_inputs(x, posterior.record.input_shape)
    if num_draws < 1:
        raise CredoError(f"prediction needs at least 1 draw, got num_draws={num_draws}")
    available = posterior.num_draws
    draws = _sample(posterior, as_key(key), min(num_draws, available or num_draws))
    if isinstance(posterior.model.likelihood, Categorical | Bernoulli):
        classes = lambda batch: _class_summary(posterior, draws, batch, keep_draws)  # noqa: E731
        return CategoricalPredictive(*by_batches(classes, x, row_axes=(0, 0, 1)))
    moments = lambda batch: _normal_summary(posterior, draws, batch)  # noqa: E731
    return NormalPredictive(*by_batches(moments, x, row_axes=(1, 1)))


def summarize(posterior: Posterior, x: Array) -> Predictive:
    """The predictive of all stored draws at all rows at once."""
    draws = _sample(posterior, as_key(0), posterior.num_draws or 1)
    if isinstance(posterior.model.likelihood, Categorical | Bernoulli):
        parts = _class_summary(posterior, draws, x, False)
        return CategoricalPredictive(*map(np.asarray, parts))
    return NormalPredictive(*map(np.asarray, _normal_summary(posterior, draws, x)))


def by_batches(summary: Callable, x: np.ndarray | Array, row_axes: tuple) -> list[np.ndarray]:
    """What `summary` gives for batches of rows, joined along its row axes, without the padding.

    Every part goes to its place on the host at once: memory holds the result and one batch.
    """
    rows = min(BATCH_ROWS, _bucket(len(x)))
    joined: list[np.ndarray] = []
    for start in range(0, len(x), rows):
        parts = [np.asarray(part) for part in summary(_padded(x[start : start + rows], rows))]
        joined = joined or [
            np.empty(_resized(part.shape, axis, rows, len(x)), part.dtype)
            for part, axis in zip(parts, row_axes)
        ]
        for whole, part, axis in zip(joined, parts, row_axes):
            place = np.moveaxis(whole, axis, 0)[start : start + rows]
            place[:] = np.moveaxis(part, axis, 0)[: len(place)]
    return joined


def _resized(shape: tuple[int, ...], axis: int, rows: int, total: int) -> tuple[int, ...]:
    """`total` rows instead of a batch's; an axis of one that all rows share stays as it is."""
    size = total if shape[axis] == rows else shape[axis]
    return (*shape[:axis], size, *shape[axis + 1 :])


def check_inputs(x: np.ndarray | Array, input_shape: tuple[int, ...]) -> np.ndarray | Array:
    """Refuse inputs of the wrong shape, or with NaN or infinite entries."""
    if not isinstance(x, jax.Array):
        x = np.asarray(x)
    if x.shape[1:] != tuple(input_shape):
        raise CredoError(
            f"the model was fitted on rows of shape {tuple(input_shape)}, got {x.shape[1:]}; "
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
    """Raw outputs (draw, row, output) of every stored draw, or of `num_draws` fresh ones."""
    wanted = posterior.num_draws or num_draws or 1
    return np.asarray(_outputs(posterior, _sample(posterior, as_key(0), wanted), jnp.asarray(x)))


# One program instead of a dozen small ones, each of which every new process would compile.
@jax.jit(static_argnames="num_draws")
def _sample(posterior: Posterior, key: Array, num_draws: int):
    return posterior.sample(key, num_draws)


@jax.jit
def _outputs(posterior: Posterior, draws, x: Array) -> Array:
    return jax.lax.map(lambda draw: _one_output(posterior, draw, x), draws)


def _one_output(posterior: Posterior, draw, x: Array) -> Array:
    return _realized_outputs(posterior, draw, x)[0]


def _realized_outputs(posterior: Posterior, draw, x: Array) -> tuple[Array, dict]:
    """The outputs of a draw, and its parameters of the likelihood."""
    if isinstance(posterior, Mixture):
        index, own = draw
        return _realized_outputs(posterior.member(index), own, x)
    params, noise = posterior.realize(draw)
    params = cast_like(params, x)
    if getattr(posterior, "linearized", False):
        mean = cast_like(posterior.mean, x)  # type: ignore[union-attr]
        return _tangent_outputs(posterior.model, mean, params, x), params["likelihood"]
    return posterior.model.outputs(params, x, noise), params["likelihood"]


def _tangent_outputs(model: Model, mean: Params, params: Params, x: Array) -> Array:
    """f(x; mean) + J(x) (θ − mean); the first term, the same for all draws, leaves their loop."""
    change = jax.tree.map(jnp.subtract, params["network"], mean["network"])
    function = lambda network: model.outputs({**mean, "network": network}, x)  # noqa: E731
    return sum(jax.jvp(function, (mean["network"],), (change,)))


def cast_like(params: Params, x: Array) -> Params:
    """Parameters in the precision of x, as convolutions insist."""
    dtype = jnp.result_type(x, float)
    cast = lambda leaf: leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf  # noqa: E731
    return jax.tree.map(cast, params)


@jax.jit(static_argnames="keep_draws")
def _class_summary(posterior: Posterior, draws, x: Array, keep_draws: bool):
    likelihood = posterior.model.likelihood

    def one(draw):
        outputs = _one_output(posterior, draw, x)
        if isinstance(likelihood, Bernoulli):
            outputs = jnp.concatenate([jnp.zeros_like(outputs), outputs], axis=1)
        log_probs = jax.nn.log_softmax(outputs)
        probs = jnp.exp(log_probs)
        entropy = -jnp.sum(probs * log_probs, axis=1)
        return probs, entropy

    # A loop over draws, not vmap: each draw's activations stay in cache, and XLA hoists the
    # layers before the first noise site, the same for all draws, out of the loop.
    probs, entropies = jax.lax.map(one, draws)
    averages = (probs.mean(axis=0), entropies.mean(axis=0))
    return (*averages, probs) if keep_draws else averages


@jax.jit
def _normal_summary(posterior: Posterior, draws, x: Array):
    likelihood = posterior.model.likelihood

    def one(draw):
        outputs, own = _realized_outputs(posterior, draw, x)
        mean, scale = likelihood.moments(own, outputs)  # type: ignore[union-attr]
        rows = scale.shape[0] if scale.ndim == 2 else 1
        return mean, jnp.broadcast_to(scale, (rows, mean.shape[1]))

    return jax.lax.map(one, draws)


@jax.jit
def _mixture_quantile(means: Array, scales: Array, q: float) -> Array:
    """Newton's steps on F(x) = q, or a halving of the bracket where a step would leave it."""

    def improve(carry):
        low, high, x, _, count = carry
        z = (x - means) / scales
        excess = jnp.mean(jax.scipy.stats.norm.cdf(z), axis=0) - q
        density = jnp.mean(jax.scipy.stats.norm.pdf(z) / scales, axis=0)
        low, high = jnp.where(excess < 0, x, low), jnp.where(excess < 0, high, x)
        newton = x - excess / density
        inside = (newton > low) & (newton < high)
        # Where F(x) is q up to rounding, the next step would only follow the rounding.
        new = jnp.where(inside, newton, 0.5 * (low + high))
        settled = jnp.abs(excess) < rounding
        return low, high, jnp.where(settled, x, new), jnp.all(settled), count + 1

    rounding = 20 * jnp.finfo(means.dtype).eps
    spread = jnp.sqrt(jnp.mean(jnp.square(scales), axis=0) + jnp.var(means, axis=0))
    low, high = jnp.min(means - 10 * scales, axis=0), jnp.max(means + 10 * scales, axis=0)
    guess = jnp.mean(means, axis=0) + jax.scipy.stats.norm.ppf(q) * spread
    carry = (low, high, jnp.clip(guess, low, high), jnp.asarray(False), 0)
    return jax.lax.while_loop(lambda c: ~c[3] & (c[4] < 60), improve, carry)[2]


def _bucket(rows: int) -> int:
    """Round up to a sixteenth of a power of two, so that few batch sizes are ever compiled."""
    step = max(1, 2 ** (rows.bit_length() - 5))
    return -(-rows // step) * step


def _padded(x: np.ndarray | Array, rows: int) -> Array:
    x = jnp.asarray(x, float)
    return x if len(x) == rows else jnp.pad(x, [(0, rows - len(x))] + [(0, 0)] * (x.ndim - 1))


def _squeeze(values: np.ndarray) -> np.ndarray:
    return values[:, 0] if values.shape[1] == 1 else values


def _row_sum(values: np.ndarray) -> np.ndarray:
    return values if values.ndim == 1 else values.sum(axis=1)
