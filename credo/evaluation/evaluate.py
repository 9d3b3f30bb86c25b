"""One call for the numbers that judge a predictive distribution."""

from typing import Any

import numpy as np

from credo.errors import CredoError
from credo.evaluation import classification, ood, regression
from credo.evaluation.estimate import Estimate, mean_estimate
from credo.posterior import Posterior
from credo.predictive import CategoricalPredictive, Predictive


def evaluate(
    predicted: Predictive, y: np.ndarray, ood_predicted: Predictive | None = None
) -> dict[str, Estimate]:
    """Every metric that applies, each with its standard error.

    `y` is in the units of the prediction: quantities, or classes by name where the model knows
    names. Classification: accuracy, NLL, Brier score, ECE and adaptive ECE, mean
    predictive entropy and mutual information. Regression: RMSE, NLL,
    coverage and mean width of the 95 % interval. With a second prediction on inputs from
    elsewhere, also how well the predictive entropy tells them apart (AUROC, AUPR, FPR at 95 %
    detection).

    Example:
        >>> scores = credo.evaluate(predicted, data.test.y)  # doctest: +SKIP
        >>> print(scores["nll"])  # doctest: +SKIP
        0.112 ± 0.014
    """
    for given in (predicted, ood_predicted):
        check_predicted(given)
    y = np.asarray(y)
    if isinstance(predicted, CategoricalPredictive):
        y = predicted.class_codes(y)
        scores = {
            "accuracy": classification.accuracy(predicted.probs, y),
            "nll": mean_estimate(-predicted.log_prob(y)),
            "brier": classification.brier(predicted.probs, y),
            "ece": classification.ece(predicted.probs, y),
            "adaptive_ece": classification.adaptive_ece(predicted.probs, y),
            "entropy": mean_estimate(predicted.entropy),
            "mutual_information": mean_estimate(predicted.mutual_information),
        }
    else:
        lower, upper = predicted.interval(0.95)  # type: ignore[attr-defined]
        y = y.reshape(predicted.mean.shape) if y.size == predicted.mean.size else y
        scores = {
            "rmse": regression.rmse(predicted.mean, y),
            "nll": regression.nll(predicted.log_prob(y)),
            "coverage_95": regression.interval_coverage(lower, upper, y),
            "width_95": regression.interval_width(lower, upper),
        }
    if ood_predicted is not None:
        scores |= ood_scores(predicted, ood_predicted)
    return scores


def check_predicted(predicted: Any) -> None:
    """Raise unless this is a prediction; None stands for one that is not there."""
    if predicted is None or hasattr(predicted, "log_prob"):
        return
    got = type(predicted).__name__
    if isinstance(predicted, Posterior):
        raise CredoError(
            f"evaluate judges a prediction, got a posterior ({got}); predict first: "
            "credo.evaluate(credo.predict(posterior, x), y)"
        )
    raise CredoError(
        f"evaluate judges a prediction, as credo.predict gives it, got {got}; call "
        "credo.evaluate(credo.predict(posterior, x), y)"
    )


def ood_scores(predicted: Predictive, ood_predicted: Predictive) -> dict[str, Estimate]:
    """How well predictive entropy and mutual information flag inputs from elsewhere."""
    return {
        "ood_auroc": ood.auroc(predicted.entropy, ood_predicted.entropy),
        "ood_aupr": ood.aupr(predicted.entropy, ood_predicted.entropy),
        "ood_fpr95": ood.fpr95(predicted.entropy, ood_predicted.entropy),
        "ood_auroc_mi": ood.auroc(predicted.mutual_information, ood_predicted.mutual_information),
    }
