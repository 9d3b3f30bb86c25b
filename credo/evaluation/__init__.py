"""How good are the predictions, and how far can each number be trusted?

Plain functions of arrays. Metrics return an `Estimate`: a value and its standard error.
"""

from credo.evaluation import classification, diagnostics, ood, regression
from credo.evaluation.estimate import Estimate, mean_estimate

__all__ = [
    "Estimate",
    "classification",
    "diagnostics",
    "mean_estimate",
    "ood",
    "regression",
]
