"""Predictions: posterior draws × inputs → what is said about the targets."""

from credo.model.likelihoods import NormalPredictive
from credo.model.mixtures import MixturePredictive
from credo.model.summaries import CategoricalPredictive, Predictive
from credo.predictive.linearized import linearized_predict, probit_predict
from credo.predictive.predict import (
    check_inputs,
    check_rows,
    draw_outputs,
    predict,
    predict_stored,
)

__all__ = [
    "CategoricalPredictive",
    "MixturePredictive",
    "NormalPredictive",
    "Predictive",
    "check_inputs",
    "check_rows",
    "draw_outputs",
    "linearized_predict",
    "predict",
    "predict_stored",
    "probit_predict",
]
