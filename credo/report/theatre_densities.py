"""The densities of the sampler theatre: five shapes in the plane, each hard in its own way."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

GRID = 97  # points per axis of the picture
BINS = 40  # bars of a histogram
FINE = 12  # points per bar when integrating
WIDE = 3  # widths of the picture that are integrated over: what lies outside has its share too


@dataclass(frozen=True)
class PlaneDensity:
    """A log density of two coordinates, and the part of the plane that the picture shows."""

    name: str
    text: str
    log_density: Callable[[Array], Array]
    start: tuple[float, float]
    center: tuple[float, float]
    reach: float
    """Half the width of the picture, which is a square."""

    def axis(self, coordinate: int, count: int, widths: int) -> np.ndarray:
        """Midpoints of `count` equal parts of a line `widths` times as long as the picture."""
        parts = (np.arange(count) + 0.5) / count - 0.5
        return self.center[coordinate] + 2 * widths * self.reach * parts


def _normal(position: Float[Array, "2"]) -> Array:
    x, y = position
    correlation = 0.9
    return -0.5 * (x**2 - 2 * correlation * x * y + y**2) / (1 - correlation**2)


def _banana(position: Float[Array, "2"]) -> Array:
    x, y = position
    return -0.5 * (x / 1.6) ** 2 - 0.5 * ((y - 0.5 * x**2) / 0.5) ** 2


def _funnel(position: Float[Array, "2"]) -> Array:
    x, y = position
    return -0.5 * (y / 1.5) ** 2 - 0.5 * (y + x**2 * jnp.exp(-y))


def _ring(position: Float[Array, "2"]) -> Array:
    return -0.5 * ((jnp.sqrt(jnp.sum(position**2)) - 3.0) / 0.3) ** 2


def _mixture(position: Float[Array, "2"]) -> Array:
    centers = jnp.array([[-2.0, -1.3], [2.0, -1.3], [0.0, 2.2]])
    squares = jnp.sum((position - centers) ** 2, axis=1)
    return jax.nn.logsumexp(-0.5 * squares / 0.6**2)


DENSITIES = (
    PlaneDensity(
        "normal",
        "A narrow correlated normal: steps must fit its narrow side, yet the way to go is along "
        "the long one.",
        _normal, (-2.0, -2.0), (0.0, 0.0), 4.0,
    ),
    PlaneDensity(
        "banana",
        "A bent ridge: no single direction is right for long, and the tips of the horns are "
        "visited late.",
        _banana, (-2.0, 2.0), (0.0, 3.2), 5.2,
    ),
    PlaneDensity(
        "funnel",
        "Neal’s funnel: wide above, ever narrower below, so that no one step size fits both; watch "
        "whether the lower half of the vertical histogram fills.",
        _funnel, (1.0, 1.5), (0.0, 0.0), 6.0,
    ),
    PlaneDensity(
        "ring",
        "A thin ring: easy to stay on, slow to go round; watch how long it takes until both "
        "histograms have their two horns.",
        _ring, (3.0, 0.0), (0.0, 0.0), 4.5,
    ),
    PlaneDensity(
        "mixture",
        "Three islands: a sampler that never crosses the water looks perfectly content, and its "
        "effective draws know nothing of the islands it missed.",
        _mixture, (-2.0, -1.3), (0.0, 0.2), 4.5,
    ),
)  # fmt: skip


def mass_above(density: PlaneDensity) -> np.ndarray:
    """For every point of the picture, the share of the mass that lies where the density is higher.

    The contour at 0.5 thus encloses half of all draws, whatever the shape. Rows go up the picture.
    """
    values = np.exp(_log_density_on(density, WIDE * GRID, WIDE))
    order = np.argsort(-values, axis=None)
    shares = np.empty(values.size)
    shares[order] = np.cumsum(values.ravel()[order]) / values.sum()
    picture = slice(GRID, 2 * GRID)
    return shares.reshape(values.shape)[picture, picture]


def bar_masses(density: PlaneDensity, coordinate: int) -> np.ndarray:
    """The probability of each bar of a histogram, by the midpoint rule."""
    values = np.exp(_log_density_on(density, WIDE * BINS * FINE, WIDE))
    marginal = values.sum(axis=coordinate)  # rows are the second coordinate
    bars = marginal.reshape(WIDE * BINS, FINE).sum(axis=1) / values.sum()
    return bars[BINS : 2 * BINS]


def _log_density_on(density: PlaneDensity, count: int, widths: int) -> np.ndarray:
    """The log density on a grid, highest value 0: rows are the second coordinate."""
    x, y = (density.axis(coordinate, count, widths) for coordinate in (0, 1))
    points = jnp.stack(jnp.meshgrid(x, y), axis=-1).reshape(-1, 2)
    values = np.asarray(jax.jit(jax.vmap(density.log_density))(points), float)
    return (values - values.max()).reshape(count, count)
