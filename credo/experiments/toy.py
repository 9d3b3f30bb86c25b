"""A one-dimensional regression with a gap in its inputs, for pictures of function draws."""

from typing import Any

import numpy as np

from credo.data.dataset import Split
from credo.predictive import NormalPredictive

GRID = np.linspace(-2.0, 2.0, 201, dtype=np.float32)[:, None]


def toy_data(num_data: int, noise: float, seed: int = 0) -> Split:
    """y = x + sin(5x) / 2 + N(0, noise²) with x uniform on [−1, −0.3] and [0.2, 1]."""
    generator = np.random.default_rng(seed)
    left, right = num_data // 2, num_data - num_data // 2
    x = np.concatenate([generator.uniform(-1.0, -0.3, left), generator.uniform(0.2, 1.0, right)])
    y = truth(x) + noise * generator.standard_normal(num_data)
    return Split(x[:, None].astype(np.float32), y.astype(np.float32))


def truth(x: np.ndarray) -> np.ndarray:
    return x + np.sin(5 * x) / 2


def draw_functions(axis: Any, predicted: NormalPredictive, data: Split, title: str) -> None:
    """Twenty draws as thin black lines, the mean, ± 2 standard deviations, truth and data."""
    x, mean, std = GRID[:, 0], predicted.mean, predicted.std
    axis.fill_between(x, mean - 2 * std, mean + 2 * std, color="tab:blue", alpha=0.2, linewidth=0)
    for line in predicted.means[:20, :, 0]:
        axis.plot(x, line, color="black", linewidth=0.5, alpha=0.5)
    axis.plot(x, mean, color="tab:blue", linewidth=2, label="mean ± 2σ")
    axis.plot(x, truth(x), color="tab:green", linestyle="--", linewidth=1, label="truth")
    axis.plot(data.x[:, 0], data.y, "o", color="tab:red", markersize=3, label="data")
    axis.set(title=title, xlabel="x", xlim=(-2, 2), ylim=(-3.5, 3.5))
