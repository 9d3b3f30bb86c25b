"""Every method by the name it has on the command line. A new method adds one line here."""

import dataclasses
import difflib
from typing import Any

from credo.errors import CredoError
from credo.inference.auto.auto import Auto
from credo.inference.dropout.concrete_dropout import ConcreteDropout
from credo.inference.dropout.dropout import Dropout
from credo.inference.dropout.gaussian_dropout import GaussianDropout
from credo.inference.ensembles.denfi import DEnFi
from credo.inference.ensembles.ensemble import Ensemble
from credo.inference.method import Method
from credo.inference.normal.exact import Exact
from credo.inference.normal.laplace import Laplace
from credo.inference.normal.swag import SWAG
from credo.inference.point.map import MAP
from credo.inference.sampling.constant_sgd import ConstantSGD
from credo.inference.sampling.hmc import HMC
from credo.inference.sampling.mala import MALA
from credo.inference.sampling.metropolis import Metropolis
from credo.inference.sampling.nuts import NUTS
from credo.inference.sampling.sghmc import SGHMC
from credo.inference.sampling.sgld import SGLD
from credo.inference.variational.bayes_by_backprop import BayesByBackprop
from credo.inference.variational.variational_dropout import VariationalDropout

METHODS: dict[str, type] = {
    "auto": Auto,
    "map": MAP,
    "dropout": Dropout,
    "gaussian-dropout": GaussianDropout,
    "concrete-dropout": ConcreteDropout,
    "variational-dropout": VariationalDropout,
    "bayes-by-backprop": BayesByBackprop,
    "swag": SWAG,
    "laplace": Laplace,
    "exact": Exact,
    "metropolis": Metropolis,
    "mala": MALA,
    "sgld": SGLD,
    "hmc": HMC,
    "nuts": NUTS,
    "sghmc": SGHMC,
    "constant-sgd": ConstantSGD,
    "ensemble": Ensemble,
    "denfi": DEnFi,
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
    if not isinstance(method, Method):
        raise CredoError(
            f"method must be one of credo's methods, such as credo.MAP(), or the name of one, "
            f"got {method!r}"
        )
    return method


def name_of(method: Any) -> str:
    """The registry name of a method, or its class name if it is not registered."""
    names = {cls: name for name, cls in METHODS.items()}
    return names.get(type(method), type(method).__name__)


def options_of(method: Any) -> dict[str, Any]:
    """The fields of a method as JSON can hold them; a method within has its name beside them."""
    fields = {f.name: getattr(method, f.name) for f in dataclasses.fields(method)}
    return {n: _option(value) for n, value in fields.items()}


def _option(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {"method": name_of(value), **options_of(value)}
    is_plain = value is None or isinstance(value, bool | int | float | str)
    return value if is_plain else repr(value)  # an optimizer of the user's own


def method_from(name: str, options: dict[str, Any]) -> Any:
    """The method that `name_of` and `options_of` described."""
    fields = {n: dict(v) if isinstance(v, dict) else v for n, v in options.items()}
    made = {
        n: method_from(v.pop("method"), v) if isinstance(v, dict) else v for n, v in fields.items()
    }
    return method_named(name)(**made)
