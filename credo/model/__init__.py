"""Models: likelihoods, priors, and the log joint density."""

from credo.data.source import Batch
from credo.model.checks import check_data, check_pair
from credo.model.defaults import default_model, standardized_noise
from credo.model.likelihoods import Bernoulli, Categorical, Likelihood, Normal
from credo.model.model import Model, Target
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
    "NormalPrior",
    "Prior",
    "Target",
    "check_data",
    "check_pair",
    "default_model",
    "standardized_noise",
]
