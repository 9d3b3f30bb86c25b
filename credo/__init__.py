"""credo turns a neural network into one that knows what it does not know."""

from credo import data, networks
from credo.errors import CredoError, DivergedError
from credo.evaluation.evaluate import evaluate
from credo.inference import (
    HMC,
    MALA,
    MAP,
    METHODS,
    NUTS,
    SGHMC,
    SGLD,
    BayesByBackprop,
    ConcreteDropout,
    ConstantSGD,
    CredoWarning,
    Dropout,
    Exact,
    GaussianDropout,
    Laplace,
    Metropolis,
    VariationalDropout,
    diagnose,
    fit,
    fit_predict,
    sample,
)
from credo.inference.post_hoc import laplace
from credo.linearized import linearized_predict, probit_predict
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
    "MALA",
    "MAP",
    "METHODS",
    "NUTS",
    "SGHMC",
    "SGLD",
    "BayesByBackprop",
    "Bernoulli",
    "Categorical",
    "ConcreteDropout",
    "ConstantSGD",
    "CredoError",
    "CredoWarning",
    "DivergedError",
    "Dropout",
    "Exact",
    "FanInPrior",
    "GaussianDropout",
    "Laplace",
    "LayerPrior",
    "Metropolis",
    "Model",
    "Normal",
    "NormalInputScale",
    "NormalLearntScale",
    "NormalPrior",
    "Target",
    "VariationalDropout",
    "data",
    "default_model",
    "diagnose",
    "evaluate",
    "fit",
    "fit_predict",
    "laplace",
    "linearized_predict",
    "load",
    "networks",
    "predict",
    "probit_predict",
    "sample",
    "save",
]
