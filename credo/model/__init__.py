"""Models: likelihoods, priors, and the log joint density."""

from credo.data.source import Batch
from credo.model.checks import check_data, check_pair
from credo.model.defaults import DEFAULT_NETWORK, default_model, standardized_noise
from credo.model.likelihoods import Bernoulli, Categorical, Likelihood, Normal, NormalMixture
from credo.model.model import Model, Target
from credo.model.priors import FanInPrior, LayerPrior, NormalPrior, Prior

__all__ = [
    "DEFAULT_NETWORK",
    "Batch",
    "Bernoulli",
    "Categorical",
    "FanInPrior",
    "LayerPrior",
    "Likelihood",
    "Model",
    "Normal",
    "NormalMixture",
    "NormalPrior",
    "Prior",
    "Target",
    "check_data",
    "check_pair",
    "default_model",
    "standardized_noise",
]
