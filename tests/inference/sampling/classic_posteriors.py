"""Ten posteriors that samplers are commonly tried on, with moments known without any sampler.

Each moment is exact (normal and Student laws), by quadrature over one scale with the rest normal
given it, or by importance sampling from a Student law around the mode, with its standard error.
Data are simulated from fixed seeds, but for the eight schools.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import digamma, polygamma


class Moments(NamedTuple):
    """Means and variances of all coordinates, and the standard errors with which they are known."""

    mean: np.ndarray
    variance: np.ndarray
    mean_error: np.ndarray
    variance_error: np.ndarray

    @staticmethod
    def exact(mean, variance) -> "Moments":
        mean, variance = np.asarray(mean, float), np.asarray(variance, float)
        return Moments(mean, variance, np.zeros_like(mean), np.zeros_like(mean))


class Posterior(NamedTuple):
    """A log density of a vector, and what is known of it."""

    log_density: Callable
    num_dimensions: int
    moments: Callable[[], Moments]
    around: float | np.ndarray = 0.0
    """Where chains start: within 2 of here in every coordinate, within a half of a given point."""

    def start(self, key):
        width = 2.0 if np.ndim(self.around) == 0 else 0.5
        offsets = jax.random.uniform(key, (self.num_dimensions,), minval=-width, maxval=width)
        return jnp.asarray(self.around) + offsets


def normal(x, mean=0.0, scale=1.0):
    """Up to a constant that depends on nothing but numbers known beforehand."""
    return -0.5 * jnp.sum(((x - mean) / scale) ** 2)


def _regression(x, y) -> Posterior:
    """Flat priors of the weights and of log σ: Student weights, log σ² = log S − log χ²."""

    def log_density(position):
        residual = y - x @ position[:-1]
        return normal(residual, 0.0, jnp.exp(position[-1])) - len(y) * position[-1]

    def moments():
        gram = np.linalg.inv(x.T @ x)
        weights = gram @ x.T @ y
        freedom, squares = len(y) - x.shape[1], np.sum((y - x @ weights) ** 2)
        variance = squares / (freedom - 2) * np.diag(gram)
        log_scale = 0.5 * (np.log(squares / 2) - digamma(freedom / 2))
        spread = 0.25 * polygamma(1, freedom / 2)
        return Moments.exact(np.append(weights, log_scale), np.append(variance, spread))

    return Posterior(log_density, x.shape[1] + 1, moments)


def child_scores() -> Posterior:
    """Scores of children by the mother's schooling, her IQ around 100, and their product."""
    rng = np.random.default_rng(1)
    iq, schooled = rng.normal(100, 15, 434), rng.random(434) < 0.8
    x = np.stack([np.ones(434), schooled, iq / 10, schooled * iq / 10], axis=1)
    return _regression(x, x @ [-11.0, 51.0, 11.0, -4.8] + rng.normal(0, 18, 434))


def autoregression() -> Posterior:
    """AR(5) of 200 values, given the first five."""
    rng = np.random.default_rng(2)
    series = list(rng.normal(size=5))
    for _ in range(200):
        series.append(0.5 + 0.7 * series[-1] - 0.2 * series[-3] + 0.3 * rng.normal())
    series = np.array(series)
    lags = [series[5 - lag : -lag] for lag in range(1, 6)]
    return _regression(np.stack([np.ones(200), *lags], axis=1), series[5:])


def polynomial() -> Posterior:
    """Powers of inputs between 0 and 1, known noise: weights with correlations up to .99."""
    rng = np.random.default_rng(3)
    inputs = rng.random(60)
    x = np.stack([inputs**power for power in range(5)], axis=1)
    y = np.sin(3 * inputs) + 0.2 * rng.normal(size=60)
    precision = x.T @ x / 0.2**2 + np.eye(5) / 5.0**2
    covariance = np.linalg.inv(precision)
    return Posterior(
        lambda w: normal(y - x @ w, 0.0, 0.2) + normal(w, 0.0, 5.0),
        5,
        lambda: Moments.exact(covariance @ x.T @ y / 0.2**2, np.diag(covariance)),
    )


def moving_average() -> Posterior:
    """ARMA(1, 1): y_t = μ + φ y_{t−1} + θ e_{t−1} + e_t, with tanh of φ's and θ's coordinates."""
    rng = np.random.default_rng(4)
    noise, values = 0.5 * rng.normal(size=201), [0.0]
    for before, now in itertools.pairwise(noise):
        values.append(0.3 + 0.6 * values[-1] + 0.3 * before + now)
    y = jnp.array(values[1:])

    def log_density(position):
        level, log_scale = position[0], position[3]
        phi, theta = jnp.tanh(position[1]), jnp.tanh(position[2])

        def error(carry, value):
            before, last = carry
            now = value - level - phi * before - theta * last
            return (value, now), now

        _, errors = jax.lax.scan(error, (0.0, 0.0), y)
        prior = normal(position, 0.0, jnp.array([5.0, 1.0, 1.0, 2.0]))
        return normal(errors, 0.0, jnp.exp(log_scale)) - len(y) * log_scale + prior

    return Posterior(log_density, 4, lambda: by_importance(log_density, jnp.zeros(4)))


def mixture() -> Posterior:
    """Two normals, the second above the first: mean, log difference, log scales, logit weight."""
    rng = np.random.default_rng(5)
    second = rng.random(400) < 0.4
    y = jnp.array(np.where(second, rng.normal(2.5, 0.8, 400), rng.normal(-1.0, 1.0, 400)))

    def log_density(position):
        low, log_difference, log_first, log_second, logit = position
        first = jax.nn.log_sigmoid(-logit) - log_first
        first = first - 0.5 * jnp.square((y - low) / jnp.exp(log_first))
        other = jax.nn.log_sigmoid(logit) - log_second
        high = low + jnp.exp(log_difference)
        other = other - 0.5 * jnp.square((y - high) / jnp.exp(log_second))
        prior = normal(position, 0.0, jnp.array([3.0, 1.5, 1.0, 1.0, 1.5]))
        return jnp.sum(jnp.logaddexp(first, other)) + prior

    # Below and above the mean: elsewhere a component may take all rows, a mode of its own.
    guess = np.array([-1.0, 1.2, 0.0, 0.0, 0.0])
    moments = lambda: by_importance(log_density, jnp.asarray(guess))  # noqa: E731
    return Posterior(log_density, 5, moments, guess)


def logistic() -> Posterior:
    """Eight correlated inputs and a constant."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(150, 8)) + 1.5 * rng.normal(size=(150, 1))
    x = np.concatenate([np.ones((150, 1)), x], axis=1)
    y = rng.random(150) < 1 / (1 + np.exp(-x @ rng.normal(0, 0.7, 9)))
    signs = jnp.where(jnp.array(y), 1.0, -1.0)

    def log_density(w):
        return jnp.sum(jax.nn.log_sigmoid(signs * (x @ w))) + normal(w, 0.0, 2.0)

    return Posterior(log_density, 9, lambda: by_importance(log_density, jnp.zeros(9)))


def counts() -> Posterior:
    """Poisson regression on a year that is not centred, its square, and a season."""
    rng = np.random.default_rng(7)
    year = np.linspace(0.5, 4.5, 40)
    x = np.stack([np.ones(40), year, year**2, np.sin(2 * np.pi * year)], axis=1)
    y = jnp.array(rng.poisson(np.exp(x @ [1.0, 1.2, -0.2, 0.4])))

    def log_density(w):
        rate = x @ w
        return jnp.sum(y * rate - jnp.exp(rate)) + normal(w, 0.0, 5.0)

    return Posterior(log_density, 4, lambda: by_importance(log_density, jnp.zeros(4)))


EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def schools_apart() -> Posterior:
    """Rubin's eight schools: μ, log τ, and how many τ each school is away from μ."""

    def log_density(position):
        level, log_spread, away = position[0], position[1], position[2:]
        data = normal(EFFECTS, level + jnp.exp(log_spread) * away, ERRORS)
        return data + normal(away) + _school_priors(level, log_spread)

    return Posterior(log_density, 10, lambda: _school_moments(apart=True))


def schools_together() -> Posterior:
    """The same with the schools' effects themselves, whose prior narrows to a funnel as τ falls."""

    def log_density(position):
        level, log_spread, effects = position[0], position[1], position[2:]
        between = normal(effects, level, jnp.exp(log_spread)) - 8 * log_spread
        return normal(EFFECTS, effects, ERRORS) + between + _school_priors(level, log_spread)

    return Posterior(log_density, 10, lambda: _school_moments(apart=False))


def _school_priors(level, log_spread):
    """μ ~ N(0, 5²), τ half-Cauchy of scale 5; log_spread is the logarithm's volume."""
    return normal(level, 0.0, 5.0) - jnp.log1p(jnp.exp(2 * log_spread) / 25) + log_spread


def _school_moments(apart: bool) -> Moments:
    """Quadrature over log τ: given τ, all is normal."""
    grid = np.linspace(-12, 6, 4001)
    first, second, log_weight = [], [], []
    for log_spread in grid:
        spread = np.exp(log_spread)
        total = spread**2 + ERRORS**2
        precision = np.sum(1 / total) + 1 / 25
        level, level_variance = np.sum(EFFECTS / total) / precision, 1 / precision
        # The marginal density of the data: that of μ's prior and their mean, integrated.
        log_data = -0.5 * np.sum(np.log(total)) - 0.5 * np.log(precision)
        log_data += -0.5 * np.sum(EFFECTS**2 / total) + 0.5 * level**2 * precision
        log_weight.append(log_data - np.log1p(spread**2 / 25) + log_spread)
        # θ_j | μ is normal around μ + shrink (y_j − μ), with variance shrink · s_j².
        shrink = spread**2 / total
        mean = level + shrink * (EFFECTS - level)
        variance = shrink * ERRORS**2 + (1 - shrink) ** 2 * level_variance
        if apart:
            # η_j = (θ_j − μ) / τ
            mean = spread / total * (EFFECTS - level)
            variance = ERRORS**2 / total + (spread / total) ** 2 * level_variance
        first.append(np.concatenate([[level, log_spread], mean]))
        second.append(np.concatenate([[level_variance, 0.0], variance]) + first[-1] ** 2)
    weight = np.exp(np.array(log_weight) - max(log_weight))
    weight /= weight.sum()
    mean = weight @ np.array(first)
    return Moments.exact(mean, weight @ np.array(second) - mean**2)


def funnel() -> Posterior:
    """Neal's funnel in 10 dimensions: v ~ N(0, 3²), x | v ~ N(0, eᵛ)."""

    def log_density(position):
        v, x = position[0], position[1:]
        return normal(v, 0.0, 3.0) + normal(x, 0.0, jnp.exp(v / 2)) - 4.5 * v

    moments = Moments.exact(np.zeros(10), [9.0, *[np.exp(4.5)] * 9])
    return Posterior(log_density, 10, lambda: moments)


def by_importance(log_density, start, num_draws=30_000, freedom=8) -> Moments:
    """Moments by draws of a Student law around the mode, weighted by density over proposal."""
    gradient, hessian = jax.grad(log_density), jax.hessian(log_density)
    mode = start

    def newton(mode, _):
        curvature = -hessian(mode)
        eigenvalues, vectors = jnp.linalg.eigh(curvature)
        step = vectors @ ((vectors.T @ gradient(mode)) / jnp.maximum(jnp.abs(eigenvalues), 1e-3))
        factors = 0.5 ** jnp.arange(12)
        values = jax.vmap(lambda f: log_density(mode + f * step))(factors)
        return mode + factors[jnp.nanargmax(values)] * step, None

    mode = jax.lax.scan(newton, mode, length=30)[0]
    root = np.linalg.cholesky(np.linalg.inv(-np.asarray(hessian(mode))))
    rng = np.random.default_rng(0)
    z = rng.normal(size=(num_draws, len(mode)))
    z /= np.sqrt(rng.chisquare(freedom, size=(num_draws, 1)) / freedom)
    draws = np.asarray(mode) + z @ root.T
    log_proposal = -0.5 * (freedom + len(mode)) * np.log1p(np.sum(z**2, axis=1) / freedom)
    log_target = jax.lax.map(log_density, jnp.asarray(draws), batch_size=5000)
    log_weight = np.asarray(log_target) - log_proposal
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = weight @ draws
    squares = (draws - mean) ** 2
    variance = weight @ squares
    # Standard errors of ratios of means.
    mean_error = np.sqrt(weight**2 @ squares)
    return Moments(mean, variance, mean_error, np.sqrt(weight**2 @ (squares - variance) ** 2))


MAKERS = (
    child_scores, polynomial, autoregression, moving_average, mixture, logistic, counts,
    schools_apart, schools_together, funnel,
)  # fmt: skip
POSTERIORS = {make.__name__: make for make in MAKERS}
