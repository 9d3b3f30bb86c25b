"""What the classifier and the regressor share: parameters, units, fit and predict."""

from collections.abc import Callable
from numbers import Integral
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from credo.data import InputScale, Units
from credo.errors import CredoError
from credo.inference import DEnFi, Method, fit, update
from credo.model import Model, NormalPrior, default_model
from credo.networks import MLP, Equinox, Network
from credo.posterior import Posterior
from credo.predictive import predict
from credo.sklearn.options import method_instance, nested_options, with_options

PRECISIONS = (np.float64, np.float32)
CHUNK_ROWS = 2**16  # rows whose draws are held at once: 52 MB for 100 draws of one target


class Seen(NamedTuple):
    """Rows that a filter has learned from, in the user's units."""

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None

    def followed_by(self, new: "Seen") -> "Seen":
        """These rows and new ones; where either has weights, the others weigh 1."""
        weight = None
        if self.weight is not None or new.weight is not None:
            parts = (np.ones(len(s.x)) if s.weight is None else s.weight for s in (self, new))
            weight = np.concatenate(list(parts))
        x, y = np.concatenate([self.x, new.x]), np.concatenate([self.y, new.y])
        return Seen(x, y, weight)


class BayesianEstimator(BaseEstimator):
    """The base of `BayesianClassifier`, which describes the parameters, and `BayesianRegressor`."""

    posterior_: Posterior
    draw_seed_: int
    seen_: Seen
    num_updates_: int
    n_features_in_: int

    def __init__(
        self,
        method: str | Method = "auto",
        *,
        network: Network | eqx.Module | None = None,
        hidden: tuple[int, ...] = (50,),
        activation: str = "relu",
        prior_scale: float = 1.0,
        temperature: float = 1.0,
        standardize: bool = True,
        num_draws: int = 100,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.network = network
        self.hidden = hidden
        self.activation = activation
        self.prior_scale = prior_scale
        self.temperature = temperature
        self.standardize = standardize
        self.num_draws = num_draws
        self.random_state = random_state
        self.verbose = verbose

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; `deep` adds the fields of the method as `method__…`."""
        params = super().get_params(deep=deep)
        return params | nested_options("method", self.method) if deep else params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `method__rate=0.1` replaces one field of the method."""
        own = {name: value for name, value in params.items() if not name.startswith("method__")}
        options = {n.removeprefix("method__"): v for n, v in params.items() if n not in own}
        if options:
            own["method"] = with_options(own.get("method", self.method), options)
        return super().set_params(**own)

    def _fit(
        self,
        x: np.ndarray,
        y: np.ndarray,
        units: Units,
        num_classes: int | None,
        sample_weight: np.ndarray | None,
        *,
        require_all_classes: bool = True,
        noise: float | None = None,
    ) -> None:
        """Infer the posterior from rows in the user's units."""
        method = method_instance(self.method)
        model = self._model(num_classes, y.shape[1] if y.ndim == 2 else 1, noise)
        if not (isinstance(self.num_draws, Integral) and self.num_draws > 0):
            raise CredoError(f"num_draws must be a whole number above 0, got {self.num_draws!r}")
        random = check_random_state(self.random_state)
        fit_seed, draw_seed = (int(seed) for seed in random.randint(2**31 - 1, size=2))
        self.posterior_ = fit(
            model,
            (x, y),
            method,
            fit_seed,
            units=units,
            temperature=float(self.temperature),
            row_weights=sample_weight,
            progress=bool(self.verbose),
            require_all_classes=require_all_classes,
        )
        vars(self).pop("seen_", None)
        if isinstance(method, DEnFi):
            self.seen_, self.num_updates_ = Seen(x, y, sample_weight), 0
        self.draw_seed_ = draw_seed  # kept, so that predictions do not change from call to call

    def _update(self, x: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None) -> None:
        """Take new rows into the filter; units stay those of the first fit."""
        method = method_instance(self.method)
        if not hasattr(self, "seen_"):
            raise CredoError(
                f"partial_fit goes on from a fit with credo.DEnFi, this one was made by "
                f"{self.posterior_.record.method!r}; clone the estimator and start anew"
            )
        rows = Seen(x, y, sample_weight)
        if method.memory == "all":
            rows = self.seen_.followed_by(rows)
        self.posterior_ = update(
            self.posterior_,
            (rows.x, rows.y),
            method,
            self.draw_seed_,
            row_weights=rows.weight,
            progress=bool(self.verbose),
        )
        # Only now: rows of an update that failed were not seen.
        self.num_updates_ = self.posterior_.record.num_updates
        if method.memory == "all":
            self.seen_ = rows

    def _units(self, x: np.ndarray, sample_weight: np.ndarray | None, **targets: Any) -> Units:
        """Those that standardize, or those of the data as they are."""
        if self.standardize:
            return Units.standardizing(x, row_weights=sample_weight, **targets)
        return Units(classes=targets.get("classes"))

    @property
    def x_mean_(self) -> np.ndarray:
        """What is subtracted from each feature."""
        scale = self.posterior_.record.units.inputs
        return scale.mean if isinstance(scale, InputScale) else np.zeros(self.n_features_in_)

    @property
    def x_scale_(self) -> np.ndarray:
        """What each feature is divided by."""
        scale = self.posterior_.record.units.inputs
        return scale.scale if isinstance(scale, InputScale) else np.ones(self.n_features_in_)

    def _model(self, num_classes: int | None, num_targets: int, noise: float | None) -> Model:
        network = self.network
        if network is None:
            hidden = (self.hidden,) if isinstance(self.hidden, Integral) else self.hidden
            network = MLP(hidden, self.activation)
        elif isinstance(network, eqx.Module):
            network = Equinox(network)
        elif not hasattr(network, "apply"):
            raise CredoError(
                "network must be one of credo.networks, such as credo.networks.MLP(), or an "
                f"Equinox module; got {network!r}"
            )
        prior = NormalPrior(float(self.prior_scale))
        return default_model(num_classes, network, prior, num_targets, noise)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "posterior_")  # n_features_in_ is there even if a fit failed

    def _summarized(self, X: Any, summary: Callable[[Any], tuple]) -> list[np.ndarray]:
        """The arrays that `summary` takes from the predictive at X, computed in X's precision.

        scikit-learn wants the same answer for a row alone and among others, to 7 digits: float32,
        where the order of summation shows in the 7th, cannot promise that.
        """
        check_is_fitted(self)
        x = validate_data(self, X, dtype=PRECISIONS, reset=False)
        parts = []
        double = np.float64 in (x.dtype, jax.dtypes.canonicalize_dtype(float))
        with jax.enable_x64(double):
            # All chunks share the same draws, so their summaries join to that of the whole.
            for start in range(0, len(x), CHUNK_ROWS):
                chunk = x[start : start + CHUNK_ROWS]
                predicted = predict(self.posterior_, chunk, self.num_draws, self.draw_seed_)
                parts.append(summary(predicted))
        return [np.concatenate(column) for column in zip(*parts)]


def can_update(estimator: BayesianEstimator) -> bool:
    """Whether the method follows a stream; scikit-learn then shows `partial_fit`."""
    if isinstance(method_instance(estimator.method), DEnFi):
        return True
    raise AttributeError(
        f'partial_fit needs method="denfi", got {estimator.method!r}; refit with fit instead'
    )


def checked_weights(sample_weight: Any, x: np.ndarray) -> np.ndarray | None:
    """How much each row counts: numbers from 0, not all of them 0; None: all alike."""
    if sample_weight is None:
        return None
    weights = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
    if not weights.any():
        raise CredoError("sample_weight is zero for all rows; no row would count")
    return weights
