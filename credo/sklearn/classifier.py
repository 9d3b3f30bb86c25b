"""A classifier with scikit-learn's interface."""

from operator import attrgetter
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from credo.data.columns import label
from credo.errors import CredoError
from credo.sklearn.base import PRECISIONS, BayesianEstimator, can_update, checked_weights


class ClassUncertainty(NamedTuple):
    """How uncertain a classifier is about each row, in nats: entropy = the sum of the other two."""

    entropy: np.ndarray
    """The whole uncertainty about the label."""
    expected_entropy: np.ndarray
    """Aleatoric: what stays uncertain however much is learned."""
    mutual_information: np.ndarray
    """Epistemic: what more data would resolve."""


class BayesianClassifier(ClassifierMixin, BayesianEstimator):
    """A classifier that averages the predictions of a posterior over networks.

    Args:
        method: a name that `credo methods` lists, or an instance such as `credo.HMC()`; by default
            `auto`, which needs no tuning. Its fields are parameters too:
            `set_params(method__num_steps=500)`.
        network: a network of your own, from `credo.networks` or an Equinox module with one output
            per class (one in all for two classes); by default an MLP.
        hidden: units of each hidden layer of the MLP; `auto` with the default chooses its own.
        activation: relu, tanh, sigmoid, gelu, silu or softplus.
        prior_scale: standard deviation of the normal prior over every weight.
        temperature: 1 for the Bayesian posterior, below 1 for a cold one.
        standardize: bring each feature to mean 0 and variance 1, by the training data.
        num_draws: posterior draws that a prediction averages, at most.
        random_state: an integer for the same result every time, a RandomState to draw seeds from,
            or None for numpy's global one.
        verbose: show a progress bar.

    Attributes: `classes_`, `posterior_` (for `credo.predict` and `credo.save`; it takes the same X
    and names the classes as text), `x_mean_`, `x_scale_`, `n_features_in_`, `feature_names_in_`.

    Predictions are computed in the precision of X: float32 takes half the time of float64.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from credo.sklearn import BayesianClassifier
        >>> x, y = load_iris(return_X_y=True)
        >>> classifier = BayesianClassifier("dropout", hidden=(16,), random_state=0)
        >>> classifier = classifier.set_params(method__num_steps=300, method__learning_rate=0.01)
        >>> classifier = classifier.fit(x, y)
        >>> classifier.predict_proba(x).shape
        (150, 3)
        >>> bool(classifier.score(x, y) > 0.9)
        True
        >>> classifier.predict_uncertainty(x).mutual_information.shape
        (150,)
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Infer the posterior from rows X and labels y of any type.

        `sample_weight` is how much each row counts: one of weight 2 counts as two rows.
        """
        x, y = validate_data(self, X, y, dtype=PRECISIONS)
        check_classification_targets(y)
        weights = checked_weights(sample_weight, x)
        classes = np.unique(y)
        counted = classes if weights is None else np.unique(y[weights > 0])
        if len(counted) < 2:
            raise CredoError(
                f"y holds one class only, {counted[0].item()!r}; a classifier needs at least two"
            )
        self._fit_classes(x, y, classes, weights)
        return self

    @available_if(can_update)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Take new rows into a deep ensemble filter (`method="denfi"`).

        The first call fits, and fixes the units of the features, so its rows should be like those
        to come; it needs all `classes` unless its rows hold every one. Later calls update.
        """
        first = not hasattr(self, "posterior_")
        x, y = validate_data(self, X, y, dtype=PRECISIONS, reset=first)
        check_classification_targets(y)
        known = self.classes_ if not first else np.unique(y if classes is None else classes)
        if classes is not None and not np.array_equal(np.unique(classes), known):
            raise CredoError(
                f"the classes were {known.tolist()} in the first call, got {list(classes)}; leave "
                "them out, or start anew"
            )
        if len(known) < 2:
            raise CredoError(
                f"y holds one class only, {known[0].item()!r}; name all classes in the first call: "
                "partial_fit(X, y, classes=...)"
            )
        if not np.isin(y, known).all():
            unknown = np.setdiff1d(y, known)[0]
            raise CredoError(
                f"y holds the class {unknown.item()!r}, which is none of {known.tolist()}; name "
                "all classes in the first call: partial_fit(X, y, classes=...)"
            )
        weights = checked_weights(sample_weight, x)
        if first:
            self._fit_classes(x, y, known, weights, require_all_classes=False)
        else:
            self._update(x, named(known, y), weights)
        return self

    def _fit_classes(
        self,
        x: np.ndarray,
        y: np.ndarray,
        classes: np.ndarray,
        weights: np.ndarray | None,
        **options: Any,
    ) -> None:
        units = self._units(x, weights, classes=tuple(named(classes, classes).tolist()))
        self._fit(x, named(classes, y), units, len(classes), weights, **options)
        self.classes_ = classes

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, in the order of `classes_`, averaged over draws."""
        (probabilities,) = self._summarized(X, lambda predicted: (predicted.probs,))
        return probabilities

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        (codes,) = self._summarized(X, lambda predicted: (predicted.codes,))
        return self.classes_[codes]

    def predict_uncertainty(self, X: Any) -> ClassUncertainty:
        """Entropy of each row's prediction, split in aleatoric and epistemic."""
        return ClassUncertainty(*self._summarized(X, attrgetter(*ClassUncertainty._fields)))


def named(classes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The labels as texts, in which a posterior knows its classes: label 1.0 is '1'."""
    names = [label(value) for value in classes.tolist()]
    if len(set(names)) < len(names):  # such as 1 and "1"
        names = [repr(value) for value in classes.tolist()]
    return np.asarray(names)[np.searchsorted(classes, y)]
