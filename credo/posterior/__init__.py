"""Posteriors: what inference gives and prediction takes."""

from credo.posterior.dense import DenseNormal
from credo.posterior.kronecker import KroneckerNormal
from credo.posterior.low_rank import LowRankNormal
from credo.posterior.mixture import Mixture, mix
from credo.posterior.noisy import NoisyNetwork
from credo.posterior.normal import NormalWeights
from credo.posterior.record import Record
from credo.posterior.samples import Samples
from credo.posterior.storage import Posterior, load, save

__all__ = [
    "DenseNormal",
    "KroneckerNormal",
    "LowRankNormal",
    "Mixture",
    "NoisyNetwork",
    "NormalWeights",
    "Posterior",
    "Record",
    "Samples",
    "load",
    "mix",
    "save",
]
