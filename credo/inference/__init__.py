"""Inference: one method, one file; one engine runs them all."""

from credo.errors import CredoWarning
from credo.inference.auto.auto import Auto
from credo.inference.dropout.concrete_dropout import ConcreteDropout
from credo.inference.dropout.dropout import Dropout
from credo.inference.dropout.gaussian_dropout import GaussianDropout
from credo.inference.ensembles.denfi import DEnFi
from credo.inference.ensembles.ensemble import Ensemble
from credo.inference.method import DescentMethod, Method
from credo.inference.normal.exact import Exact
from credo.inference.normal.laplace import Laplace
from credo.inference.normal.swag import SWAG
from credo.inference.point.map import MAP
from credo.inference.registry import METHODS, as_method, method_named, name_of
from credo.inference.sampling.constant_sgd import ConstantSGD
from credo.inference.sampling.convergence import diagnose
from credo.inference.sampling.hmc import HMC
from credo.inference.sampling.mala import MALA
from credo.inference.sampling.metropolis import Metropolis
from credo.inference.sampling.nuts import NUTS
from credo.inference.sampling.sghmc import SGHMC
from credo.inference.sampling.sgld import SGLD
from credo.inference.variational.bayes_by_backprop import BayesByBackprop
from credo.inference.variational.variational_dropout import VariationalDropout
from credo.inference.verbs.extend import extend
from credo.inference.verbs.fit import fit
from credo.inference.verbs.fit_predict import fit_predict
from credo.inference.verbs.laplace import laplace
from credo.inference.verbs.sample import sample
from credo.inference.verbs.update import update

__all__ = [
    "HMC",
    "MALA",
    "MAP",
    "METHODS",
    "NUTS",
    "SGHMC",
    "SGLD",
    "SWAG",
    "Auto",
    "BayesByBackprop",
    "ConcreteDropout",
    "ConstantSGD",
    "CredoWarning",
    "DEnFi",
    "DescentMethod",
    "Dropout",
    "Ensemble",
    "Exact",
    "GaussianDropout",
    "Laplace",
    "Method",
    "Metropolis",
    "VariationalDropout",
    "as_method",
    "diagnose",
    "extend",
    "fit",
    "fit_predict",
    "laplace",
    "method_named",
    "name_of",
    "sample",
    "update",
]
