"""The loss between solutions: along lines, along curved tunnels, on the plane through three.

Every point looked at is a combination θ = Σ_i c_i A_i of a few anchors A_i, stacked along the first
axis of every leaf; only the coefficients c change, so thousands of points need no more memory than
one network.

References: Fort, Hu & Lakshminarayanan, Deep Ensembles: A Loss Landscape Perspective, 2019;
Garipov et al., Loss Surfaces, Mode Connectivity, and Fast Ensembling of DNNs, NeurIPS 2018.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credo.caching import jit
from credo.data.source import resident
from credo.engine import Descent, Info, run, stack
from credo.errors import CredoError
from credo.model import Batch, Model, check_data
from credo.networks import Params
from credo.struct import Struct

BLOCK_ROWS = 512  # rows at a time: a convolution's patches stay small


class Slice(NamedTuple):
    """The loss on a plane, in units of weight-space distance from the first of three solutions."""

    x: Float[np.ndarray, " a"]
    y: Float[np.ndarray, " b"]
    loss: Float[np.ndarray, "b a"]
    corners: Float[np.ndarray, "3 2"]


def line(times: np.ndarray) -> Float[np.ndarray, "t 2"]:
    """Coefficients of (1 − t) θ₀ + t θ₁.

    Example:
        >>> line(np.array([0.0, 0.25])).tolist()
        [[1.0, 0.0], [0.75, 0.25]]
    """
    times = np.asarray(times, float)
    return np.stack([1 - times, times], axis=1)


def bezier(times: Any) -> Any:
    """Coefficients of (1 − t)² θ₀ + 2 t (1 − t) θ_c + t² θ₁.

    Example:
        >>> bezier(np.array([0.0, 0.5, 1.0])).tolist()
        [[1.0, 0.0, 0.0], [0.25, 0.5, 0.25], [0.0, 0.0, 1.0]]
    """
    times = jnp.asarray(times, float) if isinstance(times, jax.Array) else np.asarray(times, float)
    parts = [(1 - times) ** 2, 2 * times * (1 - times), times**2]
    return jnp.stack(parts, -1) if isinstance(times, jax.Array) else np.stack(parts, -1)


@jit
def combine(anchors: Params, coefficients: Any) -> Params:
    """Σ_i c_i A_i for one row of coefficients, or a stack of them for several."""
    weights = jnp.asarray(coefficients)
    return jax.tree.map(
        lambda leaf: jnp.tensordot(weights.astype(leaf.dtype), leaf, axes=1), anchors
    )


def path_losses(
    model: Model, data: Any, anchors: Params, coefficients: np.ndarray
) -> Float[np.ndarray, " t"]:
    """The mean negative log-likelihood of `data` at every combination of the anchors.

    Example:
        >>> model = credo.Model(credo.networks.MLP(hidden=()), credo.likelihoods.Categorical(3))
        >>> params = model.init(jax.random.key(0), (4,))
        >>> data = (np.ones((5, 4)), np.zeros(5, int))
        >>> ends = credo.engine.stack([params, params])
        >>> path_losses(model, data, ends, line(np.linspace(0, 1, 9))).shape
        (9,)
    """
    batch = check_data(model, data, require_all_classes=False)
    return np.asarray(_losses(model, batch, anchors, jnp.asarray(coefficients)))


@jit
def _losses(model: Model, data: Batch, anchors: Params, coefficients: Array) -> Array:
    num_rows = len(data.x)
    rows = min(BLOCK_ROWS, num_rows)
    index = jnp.arange(-(-num_rows // rows) * rows).reshape(-1, rows)

    def one(coefficient: Array) -> Array:
        params = combine(anchors, coefficient)

        def block(chosen: Array) -> Array:
            part = jax.tree.map(lambda column: column[chosen % num_rows], data)
            return jnp.where(chosen < num_rows, model.log_likelihood(params, part), 0.0).sum()

        return -jax.lax.map(block, index).sum() / num_rows

    return jax.lax.map(one, coefficients)


def barrier(times: np.ndarray, losses: np.ndarray) -> float:
    """max_t L(θ_t) − ((1 − t) L₀ + t L₁) over the inner points of a path from t = 0 to 1.

    Below 0 where the path is convex: a valley without a pass.

    Example:
        >>> barrier(np.array([0.0, 0.5, 1.0]), np.array([1.0, 5.0, 3.0]))
        3.0
    """
    times, losses = np.asarray(times), np.asarray(losses, float)
    if len(times) < 3 or len(times) != len(losses):
        raise CredoError(
            f"a barrier needs at least 3 points, two ends and one between, and a loss at each, got "
            f"{len(times)} times and {len(losses)} losses; use times such as np.linspace(0, 1, 21)"
        )
    chord = (1 - times) * losses[0] + times * losses[-1]
    return float((losses - chord)[1:-1].max())


@dataclass(frozen=True)
class Tunnel(Struct):
    """E_t L(θ(t)) along a Bézier curve with fixed ends, as a function of its control point."""

    model: Model
    first: Params
    second: Params

    def init(self, key: Array, example: Any) -> Params:
        """The middle of the straight line."""
        return combine(stack([self.first, self.second]), jnp.array([0.5, 0.5]))

    def loss(self, key: Array, control: Params, batch: Batch) -> tuple[Array, Info]:
        """The loss of a batch at one random t."""
        anchors = stack([self.first, control, self.second])
        params = combine(anchors, bezier(jax.random.uniform(key)))
        return -batch.mean(self.model.log_likelihood(params, batch)), {}


def train_tunnel(
    key: int | Array,
    model: Model,
    data: Any,
    first: Params,
    second: Params,
    num_steps: int = 1000,
    learning_rate: float = 1e-3,
    batch_size: int = 128,
    progress: bool | None = None,
) -> Params:
    """The control point θ_c of the quadratic Bézier curve of least E_t L(θ(t)), t ~ U(0, 1).

    The ends stay where they are; each step of Adam sees one batch at one random t. It starts from
    the middle of the straight line.
    """
    descent = Descent(num_steps=num_steps, learning_rate=learning_rate, batch_size=batch_size)
    rows = check_data(model, data, require_all_classes=False)
    objective = Tunnel(model, first, second)
    done = run(
        descent, objective, resident(rows, padded=True), key, name="tunnel", progress=progress
    )
    return done.state().learned


def plane_slice(
    model: Model, data: Any, corners: Params, num_points: int = 21, margin: float = 0.25
) -> Slice:
    """The loss on the plane through three stacked solutions, on a grid around them.

    The first solution is the origin and the second lies on the horizontal axis; `margin` is what
    the picture shows beyond them, as a share of their extent.
    """
    places = _plane_coordinates(corners)
    low, high = places.min(axis=0), places.max(axis=0)
    room = margin * (high - low)
    x, y = (np.linspace(low[i] - room[i], high[i] + room[i], num_points) for i in (0, 1))
    points = np.stack([grid.ravel() for grid in np.meshgrid(x, y)], axis=1)
    # Barycentric: a point of the plane is an affine combination of the three corners.
    shares = np.linalg.solve((places[1:] - places[0]).T, (points - places[0]).T).T
    coefficients = np.concatenate([1 - shares.sum(axis=1, keepdims=True), shares], axis=1)
    losses = path_losses(model, data, corners, coefficients)
    return Slice(x, y, losses.reshape(num_points, num_points), places)


def _plane_coordinates(corners: Params) -> Float[np.ndarray, "3 2"]:
    """Where three points lie on their own plane, from their distances (Gram–Schmidt)."""
    leaves = jax.tree.leaves(corners)
    if any(len(leaf) != 3 for leaf in leaves):
        raise CredoError(
            f"a plane goes through 3 networks, got {len(leaves[0])}; stack three: "
            "credo.engine.stack([first, second, third])"
        )
    flat = np.concatenate([np.asarray(a, np.float64).reshape(3, -1) for a in leaves], axis=1)
    second, third = flat[1] - flat[0], flat[2] - flat[0]
    length = np.linalg.norm(second)
    along = second @ third / length if length > 0 else 0.0
    height = np.linalg.norm(third - along * second / length) if length > 0 else 0.0
    if not height > 1e-6 * length:
        raise CredoError("three networks on one line span no plane; choose others")
    return np.array([[0.0, 0.0], [length, 0.0], [along, height]])
