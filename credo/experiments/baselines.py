"""What a user would try first, from scikit-learn: judged on the same rows as the methods.

Classes: their probabilities. Quantities: a normal around the prediction, whose scale comes from
rows that the prediction had not seen (out of bag, or cross-validated).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from credo.data import Dataset
from credo.model.summaries import entropy_of
from credo.predictive import CategoricalPredictive, NormalPredictive, Predictive

NUM_TREES = 500
NUM_FOLDS = 5


class Baseline(NamedTuple):
    """A baseline and what it is."""

    fit: Callable[[np.ndarray, np.ndarray, int], Any]
    """From inputs, targets and a seed to a fitted estimator."""
    description: str
    is_random: bool = True
    """Whether another seed gives another answer."""


def logistic(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)).fit(x, y)


def forest(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(NUM_TREES, random_state=seed).fit(x, y)


def boosting(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=seed).fit(x, y)


def calibrated_boosting(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import StratifiedKFold

    folds = min(NUM_FOLDS, int(np.bincount(y).min()))
    if folds < 2:  # a class of one row cannot be both learned and calibrated with
        return boosting(x, y, seed)
    splits = StratifiedKFold(folds, shuffle=True, random_state=seed)
    return CalibratedClassifierCV(HistGradientBoostingClassifier(random_state=seed), cv=splits).fit(
        x, y
    )


class WithScale(NamedTuple):
    """A regression and the standard deviation of its errors on rows that it had not seen."""

    estimator: Any
    scale: float

    def predict(self, x: np.ndarray, return_std: bool = True) -> tuple[np.ndarray, np.ndarray]:
        return self.estimator.predict(x), np.full(len(x), self.scale)


def ridge(x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    from sklearn.linear_model import BayesianRidge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), BayesianRidge()).fit(x, y)


def forest_of_quantities(x: np.ndarray, y: np.ndarray, seed: int) -> WithScale:
    from sklearn.ensemble import RandomForestRegressor

    fitted = RandomForestRegressor(NUM_TREES, oob_score=True, random_state=seed).fit(x, y)
    return WithScale(fitted, root_mean_square(fitted.oob_prediction_ - y))


def boosting_of_quantities(x: np.ndarray, y: np.ndarray, seed: int) -> WithScale:
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.model_selection import KFold, cross_val_predict

    estimator = HistGradientBoostingRegressor(random_state=seed)
    splits = KFold(min(NUM_FOLDS, len(y)), shuffle=True, random_state=seed)
    unseen = cross_val_predict(estimator, x, y, cv=splits)
    return WithScale(estimator.fit(x, y), root_mean_square(unseen - y))


def root_mean_square(errors: np.ndarray) -> float:
    return max(float(np.sqrt(np.mean(errors**2))), 1e-9)


CLASSES = {
    "logistic": Baseline(logistic, "logistic regression on standardized inputs", is_random=False),
    "forest": Baseline(forest, f"random forest of {NUM_TREES} trees"),
    "boosting": Baseline(boosting, "HistGradientBoosting"),
    "boosting-cal": Baseline(
        calibrated_boosting, f"HistGradientBoosting, calibrated by a sigmoid in {NUM_FOLDS} folds"
    ),
}
QUANTITIES = {
    "ridge": Baseline(ridge, "Bayesian ridge regression on standardized inputs", is_random=False),
    "forest": Baseline(
        forest_of_quantities, f"random forest of {NUM_TREES} trees, scale from rows out of bag"
    ),
    "boosting": Baseline(
        boosting_of_quantities,
        f"HistGradientBoosting, scale from {NUM_FOLDS}-fold cross-validation",
    ),
}


def baselines_for(data: Dataset) -> dict[str, Baseline]:
    """Those that apply to the target."""
    return QUANTITIES if data.task == "regression" else CLASSES


def predictive(fitted: Any, data: Dataset, x: np.ndarray) -> Predictive:
    """What a fitted estimator says of rows, as the methods say it."""
    if data.task == "regression":
        mean, std = fitted.predict(flat(x), return_std=True)
        return NormalPredictive(mean[None, :, None], std[None, :, None])
    probs = np.zeros((len(x), len(data.classes or ())))
    probs[:, fitted.classes_] = fitted.predict_proba(flat(x))
    if isinstance(fitted, _forests()):
        # No tree of a forest may have seen a class here: as if one more tree knew nothing.
        probs = (NUM_TREES * probs + 1 / probs.shape[1]) / (NUM_TREES + 1)
    return CategoricalPredictive(probs, entropy_of(probs), np.zeros(len(probs)))


def _forests() -> type:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier


def flat(x: np.ndarray) -> np.ndarray:
    return np.asarray(x).reshape(len(x), -1)
