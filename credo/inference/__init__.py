"""Inference: one method, one file; one engine runs them all."""

from credo.inference.dropout import Dropout
from credo.inference.engine import CredoWarning, fit
from credo.inference.hmc import HMC
from credo.inference.map import MAP
from credo.inference.method import Method, Plan
from credo.inference.registry import METHODS, method_named, name_of

__all__ = [
    "HMC",
    "MAP",
    "METHODS",
    "CredoWarning",
    "Dropout",
    "Method",
    "Plan",
    "fit",
    "method_named",
    "name_of",
]
