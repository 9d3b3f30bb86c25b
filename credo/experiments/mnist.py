"""The MNIST setting of the dropout slides: few images, two hidden layers of 500."""

from pathlib import Path

import numpy as np

from credo.data import load
from credo.data.dataset import Split
from credo.model import Categorical, Model, NormalPrior
from credo.networks import MLP

SLIDE_DECAY = 1e-4


def balanced(split: Split, per_class: int, skip: int = 0) -> Split:
    """The first `per_class` images of every class, after leaving out `skip` of each."""
    chosen = [np.flatnonzero(split.y == label)[skip : skip + per_class] for label in range(10)]
    rows = np.sort(np.concatenate(chosen))
    return Split(split.x[rows], split.y[rows])


def images(per_class: int, data_dir: str | Path | None) -> tuple[Split, Split]:
    """Training images, and all test images."""
    mnist = load("mnist", data_dir=data_dir)
    return balanced(mnist.train, per_class), mnist.test


def flattened(x: np.ndarray) -> np.ndarray:
    """Images as rows of pixels."""
    return x.reshape(len(x), -1)


def slide_model(num_data: int, decay: float = SLIDE_DECAY) -> Model:
    """MLP 500-500 with the prior that weight decay `decay` (tf.nn.l2_loss: λ‖W‖²/2) stands for.

    A mean loss plus λ‖W‖²/2 is the mean negative log joint under N(0, s²) with s² = 1/(λN).
    """
    prior = NormalPrior((decay * num_data) ** -0.5)
    return Model(MLP(hidden=(500, 500)), Categorical(10), prior)
