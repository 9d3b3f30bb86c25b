"""The engine: one loop that runs any algorithm on any objective."""

from credo.engine.algorithm import Algorithm, Info, Objective, Plan, pick, stack, unstack
from credo.engine.descent import Descent, DescentState, adamw, climb, descend
from credo.engine.loop import Run, initial, run

__all__ = [
    "Algorithm",
    "Descent",
    "DescentState",
    "Info",
    "Objective",
    "Plan",
    "Run",
    "adamw",
    "climb",
    "descend",
    "initial",
    "pick",
    "run",
    "stack",
    "unstack",
]
