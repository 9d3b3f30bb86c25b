"""A regressor with scikit-learn's interface."""

from operator import attrgetter
from typing import Any, NamedTuple, Self

import equinox as eqx
import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from credo.errors import CredoError
from credo.inference import Method
from credo.model import standardized_noise
from credo.networks import Network
from credo.sklearn.base import PRECISIONS, BayesianEstimator, can_update, checked_weights


class ValueUncertainty(NamedTuple):
    """How uncertain a regressor is about each row: std² = aleatoric_std² + epistemic_std²."""

    std: np.ndarray
    """Standard deviation of the target."""
    aleatoric_std: np.ndarray
    """The noise in the data."""
    epistemic_std: np.ndarray
    """The disagreement of the posterior draws about the mean."""


class BayesianRegressor(RegressorMixin, BayesianEstimator):
    """A regressor with error bars: normal noise around an uncertain function.

    Takes the parameters of `BayesianClassifier`; `standardize` also brings the targets to mean 0
    and variance 1. A network of your own has one output per target. y may have several columns.

    Args:
        noise: the standard deviation of y around the function where it is known, in the units of y,
            which `method="exact"` needs; None lets it be learned.

    Attributes: `posterior_` (for `credo.predict` and `credo.save`; it takes and gives the units of
    X and y), `x_mean_`, `x_scale_`, `y_mean_`, `y_scale_`, `n_features_in_`, `feature_names_in_`.

    Example:
        >>> import numpy as np
        >>> from credo.sklearn import BayesianRegressor
        >>> x = np.linspace(-1, 1, 50)[:, None]
        >>> y = 3 * x[:, 0] + 0.1 * np.cos(40 * x[:, 0])
        >>> regressor = BayesianRegressor("dropout", hidden=(16,), random_state=0)
        >>> regressor = regressor.set_params(method__num_steps=300, method__learning_rate=0.01)
        >>> mean, std = regressor.fit(x, y).predict(x, return_std=True)
        >>> low, high = regressor.predict_interval(x, level=0.9)
        >>> bool(np.mean((low < y) & (y < high)) > 0.8)
        True
    """

    def __init__(
        self,
        method: str | Method = "auto",
        *,
        network: Network | eqx.Module | None = None,
        hidden: tuple[int, ...] = (50,),
        activation: str = "relu",
        prior_scale: float = 1.0,
        noise: float | None = None,
        temperature: float = 1.0,
        standardize: bool = True,
        num_draws: int = 100,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        # scikit-learn reads the parameters off this signature, so each is written out.
        super().__init__(
            method,
            network=network,
            hidden=hidden,
            activation=activation,
            prior_scale=prior_scale,
            temperature=temperature,
            standardize=standardize,
            num_draws=num_draws,
            random_state=random_state,
            verbose=verbose,
        )
        self.noise = noise

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Infer the posterior from rows X and targets y, (rows,) or (rows, targets).

        `sample_weight` is how much each row counts: one of weight 2 counts as two rows.
        """
        x, y = self._checked(X, y, reset=True)
        weights = checked_weights(sample_weight, x)
        units = self._units(x, weights, y=y)
        noise = self._scaled_noise(np.atleast_1d(units.factor))
        self._fit(x, y, units, None, weights, noise=noise)
        self.n_targets_ = y.shape[1]
        return self

    @available_if(can_update)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Take new rows into a deep ensemble filter (`method="denfi"`).

        The first call fits, and fixes the units of features and targets, so its rows should be like
        those to come. Later calls update.
        """
        if not hasattr(self, "posterior_"):
            return self.fit(X, y, sample_weight)
        x, y = self._checked(X, y, reset=False)
        if y.shape[1] != self.n_targets_:
            raise CredoError(
                f"the first rows had {self.n_targets_} targets, these have {y.shape[1]}; give the "
                "same ones"
            )
        self._update(x, y, checked_weights(sample_weight, x))
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean of the target for each row; with `return_std`, also its standard deviation."""
        if return_std:
            return tuple(self._summarized(X, attrgetter("mean", "std")))
        return self._summarized(X, lambda predicted: (predicted.mean,))[0]

    def predict_uncertainty(self, X: Any) -> ValueUncertainty:
        """Standard deviation of each row's target, split in aleatoric and epistemic."""
        variances = attrgetter("variance", "aleatoric_variance", "epistemic_variance")
        return ValueUncertainty(*(np.sqrt(part) for part in self._summarized(X, variances)))

    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds between which the target lies with probability `level`."""
        low, high = self._summarized(X, lambda predicted: predicted.interval(level))
        return low, high

    @property
    def y_mean_(self) -> np.ndarray:
        """What is subtracted from each target."""
        return np.full(self.n_targets_, self.posterior_.record.units.shift)

    @property
    def y_scale_(self) -> np.ndarray:
        """What each target is divided by."""
        return np.full(self.n_targets_, self.posterior_.record.units.factor)

    def _checked(self, X: Any, y: Any, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        x, y = validate_data(
            self, X, y, dtype=PRECISIONS, multi_output=True, y_numeric=True, reset=reset
        )
        return x, y.reshape(len(y), -1).astype(np.float64)

    def _scaled_noise(self, scale: np.ndarray) -> float | None:
        """The known noise in units of the targets as they are fitted."""
        if self.noise is not None and np.ptp(scale) > 0:
            raise CredoError(
                f"noise={self.noise!r} is one number for {len(scale)} targets, which are fitted in "
                "units of their own; fit them one by one, or set standardize=False"
            )
        return standardized_noise(self.noise, float(scale[0]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
