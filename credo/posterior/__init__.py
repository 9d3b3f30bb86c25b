"""Posteriors: what inference gives and prediction takes."""

from credo.posterior.dense import DenseNormal
from credo.posterior.kronecker import KroneckerNormal
from credo.posterior.low_rank import LowRankNormal
from credo.posterior.mixture import Mixture, mix
from credo.posterior.noisy import NoisyNetwork
from credo.posterior.normal import NormalWeights
from credo.posterior.posterior import Posterior, replace_record
from credo.posterior.record import Record
from credo.posterior.samples import Draws, Samples

__all__ = [
    "DenseNormal",
    "Draws",
    "KroneckerNormal",
    "LowRankNormal",
    "Mixture",
    "NoisyNetwork",
    "NormalWeights",
    "Posterior",
    "Record",
    "Samples",
    "mix",
    "replace_record",
]
