"""Models: likelihoods, priors, and the log joint density."""

from credo.model.defaults import default_model, standardized_noise
from credo.model.likelihoods import (
    Bernoulli,
    Categorical,
    Likelihood,
    Normal,
    NormalInputScale,
    NormalLearntScale,
)
from credo.model.model import Batch, Model, Target
from credo.model.priors import FanInPrior, LayerPrior, NormalPrior, Prior

__all__ = [
    "Batch",
    "Bernoulli",
    "Categorical",
    "FanInPrior",
    "LayerPrior",
    "Likelihood",
    "Model",
    "Normal",
    "NormalInputScale",
    "NormalLearntScale",
    "NormalPrior",
    "Prior",
    "Target",
    "default_model",
    "standardized_noise",
]
