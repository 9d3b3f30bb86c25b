"""credo turns a neural network into one that knows what it does not know."""

from credo import data, networks
from credo.errors import CredoError, DivergedError
from credo.evaluation.evaluate import evaluate
from credo.inference import (
    HMC,
    MAP,
    METHODS,
    BayesByBackprop,
    ConcreteDropout,
    CredoWarning,
    Dropout,
    GaussianDropout,
    VariationalDropout,
    fit,
)
from credo.model import (
    Bernoulli,
    Categorical,
    FanInPrior,
    LayerPrior,
    Model,
    Normal,
    NormalInputScale,
    NormalLearntScale,
    NormalPrior,
    Target,
    default_model,
)
from credo.posterior import load, save
from credo.predictive import predict

__version__ = "0.1.0.dev0"

__all__ = [
    "HMC",
    "MAP",
    "METHODS",
    "BayesByBackprop",
    "Bernoulli",
    "Categorical",
    "ConcreteDropout",
    "CredoError",
    "CredoWarning",
    "DivergedError",
    "Dropout",
    "FanInPrior",
    "GaussianDropout",
    "LayerPrior",
    "Model",
    "Normal",
    "NormalInputScale",
    "NormalLearntScale",
    "NormalPrior",
    "Target",
    "VariationalDropout",
    "data",
    "default_model",
    "evaluate",
    "fit",
    "load",
    "networks",
    "predict",
    "save",
]
