"""Inference: one method, one file; one engine runs them all."""

from credo.errors import CredoWarning
from credo.inference.bayes_by_backprop import BayesByBackprop
from credo.inference.concrete_dropout import ConcreteDropout
from credo.inference.constant_sgd import ConstantSGD
from credo.inference.convergence import diagnose
from credo.inference.denfi import DEnFi
from credo.inference.dropout import Dropout
from credo.inference.engine import fit
from credo.inference.ensemble import Ensemble
from credo.inference.exact import Exact
from credo.inference.extend import extend
from credo.inference.gaussian_dropout import GaussianDropout
from credo.inference.hmc import HMC
from credo.inference.laplace import Laplace
from credo.inference.mala import MALA
from credo.inference.map import MAP
from credo.inference.method import Method, Plan
from credo.inference.metropolis import Metropolis
from credo.inference.nuts import NUTS
from credo.inference.registry import METHODS, method_named, name_of
from credo.inference.sampling import sample
from credo.inference.sghmc import SGHMC
from credo.inference.sgld import SGLD
from credo.inference.streaming import fit_predict
from credo.inference.swag import SWAG
from credo.inference.updating import update
from credo.inference.variational_dropout import VariationalDropout

__all__ = [
    "HMC",
    "MALA",
    "MAP",
    "METHODS",
    "NUTS",
    "SGHMC",
    "SGLD",
    "SWAG",
    "BayesByBackprop",
    "ConcreteDropout",
    "ConstantSGD",
    "CredoWarning",
    "DEnFi",
    "Dropout",
    "Ensemble",
    "Exact",
    "GaussianDropout",
    "Laplace",
    "Method",
    "Metropolis",
    "Plan",
    "VariationalDropout",
    "diagnose",
    "extend",
    "fit",
    "fit_predict",
    "method_named",
    "name_of",
    "sample",
    "update",
]
