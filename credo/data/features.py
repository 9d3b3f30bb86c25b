"""Inputs for networks on tables: every number in several shapes, so that members may choose.

From the columns of a table (or an array) come blocks of features:

    plain    (x − median) / (interquartile range / 1.349), large values drawn in: z / √(1 + (z/3)²)
    scores   the normal quantile of a value's rank in the training rows
    steps    a piecewise-linear code: how far a value has come through each interval between
             quantiles of the training rows (Gorishniy, Rubachev & Babenko, NeurIPS 2022)
    flags    columns of at most two values, as 0 and 1: categories, and marks of gaps
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from credo.errors import CredoError
from credo.saving import Saveable

BLOCKS = ("plain", "scores", "steps", "flags")
NUM_STEPS = 8  # intervals of a column
MOST_STEP_FEATURES = 512  # of all columns together
MOST_KNOTS = 1000  # of a column's ranks


@dataclass(frozen=True)
class TableFeatures(Saveable):
    """Columns, numbers already, as blocks of features side by side.

    Example:
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(100, 2))
        >>> features = TableFeatures.learn(x)
        >>> features(x).shape, features.sizes
        ((100, 20), {'plain': 2, 'scores': 2, 'steps': 16, 'flags': 0})
    """

    is_flag: Int[np.ndarray, " d"]
    """1 for columns of at most two values."""
    center: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]
    knots: Float[np.ndarray, "d k"]
    """Sorted training values, or quantiles of them."""
    edges: Float[np.ndarray, "d e"]
    """Ends of the intervals; the last is repeated where a column has fewer."""

    def __post_init__(self) -> None:
        columns = len(np.atleast_1d(self.center))
        shapes = [np.shape(part)[:1] for part in (self.is_flag, self.scale, self.knots, self.edges)]
        if any(shape != (columns,) for shape in shapes) or not np.all(np.asarray(self.scale) > 0):
            raise CredoError("TableFeatures needs a center and a positive scale for every column")
        if np.shape(self.knots)[1] < 1 or np.shape(self.edges)[1] < 2:
            raise CredoError("TableFeatures needs knots and edges for every column")
        if np.any(np.diff(self.knots) < 0) or np.any(np.diff(self.edges) < 0):
            raise CredoError("TableFeatures needs knots and edges in order")

    @staticmethod
    def learn(x: Any) -> "TableFeatures":
        """From training rows, (rows, columns)."""
        x = np.asarray(x, np.float64)
        is_flag = np.array([len(np.unique(column[:10_000])) <= 2 for column in x.T], np.int64)
        is_flag *= np.array([len(np.unique(column)) <= 2 for column in x.T], np.int64)
        low, center, high = np.quantile(x, [0.25, 0.5, 0.75], axis=0)
        scale = (high - low) / 1.349
        scale = np.where(scale > 0, scale, x.std(axis=0))
        scale = np.where(scale > 1e-12 * np.maximum(1, np.abs(center)), scale, 1.0)
        flags = is_flag == 1
        center = np.where(flags, x.min(axis=0), center)
        scale = np.where(flags, np.where(np.ptp(x, axis=0) > 0, np.ptp(x, axis=0), 1.0), scale)
        num_knots = min(len(x), MOST_KNOTS)
        knots = np.quantile(x, np.linspace(0, 1, num_knots), axis=0).T
        intervals = int(np.clip(MOST_STEP_FEATURES // max(1, (~flags).sum()), 2, NUM_STEPS))
        edges = np.stack([_edges(column, intervals) for column in x.T])
        return TableFeatures(is_flag, center, scale, knots, edges)

    @property
    def sizes(self) -> dict[str, int]:
        """How many features each block has."""
        numbers = int((self.is_flag == 0).sum())
        steps = int((np.diff(self.edges[self.is_flag == 0]) > 0).sum())
        return {"plain": numbers, "scores": numbers, "steps": steps,
                "flags": len(self.is_flag) - numbers}  # fmt: skip

    def mask(self, blocks: tuple[str, ...]) -> Float[np.ndarray, " f"]:
        """1 for the features of these blocks, 0 for the others."""
        return np.concatenate([np.full(n, float(b in blocks)) for b, n in self.sizes.items()])

    def __call__(self, x: Any) -> Float[np.ndarray, "n f"]:
        from scipy.special import ndtri

        x = np.asarray(x, np.float64)
        if x.ndim != 2 or x.shape[1] != len(self.center):
            raise CredoError(
                f"the model was fitted on rows of {len(self.center)} columns, got an array of "
                f"shape {x.shape}; give the same features in the same order"
            )
        flags = self.is_flag == 1
        z = (x - self.center) / self.scale
        numbers, values = z[:, ~flags], x[:, ~flags]
        plain = numbers / np.sqrt(1 + (numbers / 3) ** 2)
        scores, steps = np.empty_like(values), []
        count = self.knots.shape[1] + 1
        for index, (knots, edges) in enumerate(zip(self.knots[~flags], self.edges[~flags])):
            column = values[:, index]
            ranks = np.searchsorted(knots, column, "left") + np.searchsorted(knots, column, "right")
            share = (ranks + 1) / 2 / count
            scores[:, index] = ndtri(np.clip(share, 0.5 / count, 1 - 0.5 / count))
            widths = np.diff(edges)
            own = widths > 0
            steps.append(np.clip((column[:, None] - edges[:-1][own]) / widths[own], 0, 1))
        blocks = [plain, scores, *steps, np.clip(z[:, flags], -1, 2)]
        return np.concatenate(blocks, axis=1).astype(np.float32)


def _edges(column: np.ndarray, intervals: int) -> np.ndarray:
    """Ends of the intervals between quantiles; all distinct values where these are few."""
    values = np.unique(column)
    if len(values) > intervals + 1:
        values = np.unique(np.quantile(column, np.linspace(0, 1, intervals + 1)))
    return np.pad(values, (0, intervals + 1 - len(values)), mode="edge")
