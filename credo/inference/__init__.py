"""Inference: one method, one file; one engine runs them all."""

from credo.inference.bayes_by_backprop import BayesByBackprop
from credo.inference.concrete_dropout import ConcreteDropout
from credo.inference.dropout import Dropout
from credo.inference.engine import CredoWarning, fit
from credo.inference.gaussian_dropout import GaussianDropout
from credo.inference.hmc import HMC
from credo.inference.map import MAP
from credo.inference.method import Method, Plan
from credo.inference.registry import METHODS, method_named, name_of
from credo.inference.variational_dropout import VariationalDropout

__all__ = [
    "HMC",
    "MAP",
    "METHODS",
    "BayesByBackprop",
    "ConcreteDropout",
    "CredoWarning",
    "Dropout",
    "GaussianDropout",
    "Method",
    "Plan",
    "VariationalDropout",
    "fit",
    "method_named",
    "name_of",
]
