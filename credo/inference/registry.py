"""Every method by the name it has on the command line. A new method adds one line here."""

import difflib
from typing import Any

from credo.errors import CredoError
from credo.inference.bayes_by_backprop import BayesByBackprop
from credo.inference.concrete_dropout import ConcreteDropout
from credo.inference.constant_sgd import ConstantSGD
from credo.inference.dropout import Dropout
from credo.inference.exact import Exact
from credo.inference.gaussian_dropout import GaussianDropout
from credo.inference.hmc import HMC
from credo.inference.laplace import Laplace
from credo.inference.mala import MALA
from credo.inference.map import MAP
from credo.inference.metropolis import Metropolis
from credo.inference.nuts import NUTS
from credo.inference.sghmc import SGHMC
from credo.inference.sgld import SGLD
from credo.inference.variational_dropout import VariationalDropout

METHODS: dict[str, type] = {
    "map": MAP,
    "dropout": Dropout,
    "gaussian-dropout": GaussianDropout,
    "concrete-dropout": ConcreteDropout,
    "variational-dropout": VariationalDropout,
    "bayes-by-backprop": BayesByBackprop,
    "laplace": Laplace,
    "exact": Exact,
    "metropolis": Metropolis,
    "mala": MALA,
    "sgld": SGLD,
    "hmc": HMC,
    "nuts": NUTS,
    "sghmc": SGHMC,
    "constant-sgd": ConstantSGD,
}


def method_named(name: str) -> type:
    """The class of a registered method."""
    if name not in METHODS:
        close = difflib.get_close_matches(name, METHODS, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise CredoError(f"unknown method {name!r}; known: {', '.join(METHODS)}{hint}")
    return METHODS[name]


def as_method(method: Any) -> Any:
    """A method, from an instance, a class or a registered name."""
    if isinstance(method, str):
        method = method_named(method)
    method = method() if isinstance(method, type) else method
    if not callable(getattr(method, "plan", None)):
        raise CredoError(
            f"method must be one of credo's methods, such as credo.MAP(), or the name of one, "
            f"got {method!r}"
        )
    return method


def name_of(method: Any) -> str:
    """The registry name of a method, or its class name if it is not registered."""
    names = {cls: name for name, cls in METHODS.items()}
    return names.get(type(method), type(method).__name__)
