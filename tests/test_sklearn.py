"""The estimators pass scikit-learn's own checks, and say the same as credo's own functions."""

import dataclasses
import doctest
import functools
import importlib
import pickle

import equinox as eqx
import jax
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils import estimator_checks

import credo
from credo.engine import loop
from credo.networks.noise import KINDS
from credo.sklearn import BayesianClassifier, BayesianRegressor, base
from credo.sklearn.options import nested_options, with_options

pytestmark = pytest.mark.filterwarnings("ignore::credo.CredoWarning")  # chains far too short

# Linear models, few steps, no minibatches: the checks fit dozens of data sets of 16 shapes, and
# each shape compiles anew.
MAP = credo.MAP(
    learning_rate=0.03, num_steps=200, batch_size=300, optimizer="sgd", schedule="constant"
)
DROPOUT = credo.Dropout(rate=0.1, learning_rate=0.1, num_steps=60)
HMC = credo.HMC(num_samples=10, num_warmup=20, num_chains=1, num_leapfrog=4)

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 2)) * (1.0, 10.0) + (0.0, 5.0)
VALUES = X[:, 0] + 0.1 * X[:, 1] + 0.3 * RANDOM.normal(size=60)
LABELS = np.array(["high", "low", "middle"])[np.digitize(VALUES, [0.0, 1.0])]

# Descent in float32 on rows in another order ends elsewhere in the 5th digit.
ROUNDED = {
    "check_sample_weight_equivalence_on_dense_data": "equal to the rounding of float32, not to 1e-7"
}
both = pytest.mark.parametrize("estimator", [BayesianClassifier, BayesianRegressor])


@functools.cache
def fitted(estimator, random_state=0):
    y = LABELS if estimator is BayesianClassifier else VALUES
    return estimator(DROPOUT, hidden=(8,), num_draws=20, random_state=random_state).fit(X, y)


@both
def test_scikit_learn_accepts_the_estimator(estimator):
    small = estimator(MAP, hidden=(), num_draws=5)
    estimator_checks.check_estimator(small, on_skip=None, expected_failed_checks=ROUNDED)


@both
def test_a_row_of_weight_two_is_two_rows(estimator):
    """The check that float32 cannot pass to 7 digits, to those it has."""
    y = LABELS if estimator is BayesianClassifier else VALUES
    weights = np.arange(len(X)) % 3
    small = estimator(credo.MAP(num_steps=500, learning_rate=0.05), hidden=(), random_state=0)
    weighted = clone(small).fit(X, y, sample_weight=weights)
    repeated = clone(small).fit(X.repeat(weights, axis=0), y.repeat(weights))
    plain = clone(small).fit(X, y)

    def answer(fitted):
        return fitted.predict_proba(X) if estimator is BayesianClassifier else fitted.predict(X)

    np.testing.assert_allclose(answer(weighted), answer(repeated), rtol=1e-3, atol=1e-4)
    assert np.abs(answer(weighted) - answer(plain)).max() > 0.01


FILTER = credo.DEnFi(size=3, num_steps=150, update_steps=100, learning_rate=0.02)


@both
@pytest.mark.parametrize("memory", ["all", "new"])
def test_a_filter_learns_from_a_stream(estimator, memory):
    """After the stream it is about as good as a fit to everything, and far better than before."""
    y = LABELS if estimator is BayesianClassifier else VALUES
    method = dataclasses.replace(FILTER, memory=memory)
    stream = estimator(method, hidden=(8,), random_state=0)
    first = {"classes": np.unique(y)} if estimator is BayesianClassifier else {}
    stream.partial_fit(X[:6], y[:6], **first)
    before = stream.score(X, y)
    for start in range(6, 60, 9):
        stream.partial_fit(X[start : start + 9], y[start : start + 9])
    assert stream.num_updates_ == 6
    whole = estimator(method, hidden=(8,), random_state=0).fit(X, y)
    assert stream.score(X, y) > max(before, whole.score(X, y) - 0.1)
    stream.partial_fit(X[:1], y[:1])  # one row, one class
    assert whole.partial_fit(X[:3], y[:3]).num_updates_ == 1  # after fit, too


@both
def test_rows_of_an_update_that_failed_were_not_seen(estimator):
    y = LABELS if estimator is BayesianClassifier else VALUES
    stream = estimator(FILTER, hidden=(8,), random_state=0).fit(X[:20], y[:20])
    stream.set_params(method=dataclasses.replace(FILTER, size=5))
    with pytest.raises(credo.CredoError, match="ensemble of 5"):
        stream.partial_fit(X[20:30], y[20:30])
    stream.set_params(method=FILTER).partial_fit(X[20:30], y[20:30])
    assert len(stream.seen_[0]) == 30 and stream.num_updates_ == 1


@both
def test_only_a_filter_has_partial_fit(estimator):
    with pytest.raises(AttributeError, match="partial_fit"):
        estimator("dropout").partial_fit(X, LABELS)
    assert hasattr(estimator("denfi"), "partial_fit")


def test_a_stream_may_start_with_one_class():
    stream = BayesianClassifier(FILTER, hidden=(8,), random_state=0)
    with pytest.raises(credo.CredoError, match="name all classes"):
        stream.partial_fit(X[:1], LABELS[:1])
    stream.partial_fit(X[:1], LABELS[:1], classes=np.unique(LABELS))
    assert stream.partial_fit(X, LABELS).score(X, LABELS) > 0.5
    with pytest.raises(credo.CredoError, match="in the first call"):
        stream.partial_fit(X, LABELS, classes=["high", "low"])


def test_a_stream_keeps_its_targets_and_its_method():
    stream = BayesianRegressor(FILTER, hidden=(8,), random_state=0)
    stream.partial_fit(X, np.column_stack([VALUES, -VALUES]))
    with pytest.raises(credo.CredoError, match="2 targets, these have 1"):
        stream.partial_fit(X, VALUES)
    other = BayesianRegressor(MAP, hidden=(), random_state=0).fit(X, VALUES)
    with pytest.raises(credo.CredoError, match="start anew"):
        other.set_params(method=FILTER).partial_fit(X, VALUES)


def test_a_class_that_comes_too_late_is_refused():
    stream = BayesianClassifier(FILTER, hidden=(8,), random_state=0)
    with pytest.raises(credo.CredoError, match="name all classes in the first call"):
        stream.partial_fit(X, LABELS, classes=["high", "low"])
    two = LABELS != "middle"
    stream.partial_fit(X[two], LABELS[two])
    with pytest.raises(credo.CredoError, match="'middle', which is none of"):
        stream.partial_fit(X, LABELS)


@pytest.mark.parametrize(
    ("estimator", "method"), [(BayesianClassifier, DROPOUT), (BayesianRegressor, HMC)]
)
def test_a_row_is_predicted_alike_alone_among_others_and_elsewhere(estimator, method):
    small = estimator(method, hidden=(4,), num_draws=5)
    estimator_checks.check_methods_subset_invariance(estimator.__name__, small)
    estimator_checks.check_methods_sample_order_invariance(estimator.__name__, small)


@pytest.mark.parametrize("name", credo.METHODS)
def test_every_field_of_a_method_is_a_parameter(name):
    params = BayesianClassifier(name).get_params()
    for field in dataclasses.fields(credo.METHODS[name]):
        assert params[f"method__{field.name}"] == getattr(credo.METHODS[name](), field.name)


def test_nested_parameters_replace_the_method():
    estimator = BayesianClassifier("dropout").set_params(method__rate=0.3, hidden=(4,))
    assert estimator.method == credo.Dropout(rate=0.3) and estimator.hidden == (4,)
    estimator.set_params(method=credo.HMC(thin=2), method__num_samples=np.int64(7))
    assert estimator.method == credo.HMC(num_samples=7, thin=2)
    assert type(estimator.method.num_samples) is int  # numpy's integers are no Python integers
    assert clone(estimator).method == estimator.method
    assert estimator.get_params()["method__num_samples"] == 7
    assert "method__num_samples" not in estimator.get_params(deep=False)


def test_parameters_reach_a_method_within_a_method():
    @dataclasses.dataclass(frozen=True)
    class Repeated:
        method: object = credo.MAP()
        times: int = 3

    options = {"method__num_steps": 5, "times": 2, "method__batch_size": 8}
    changed = with_options(Repeated(), options)
    assert changed == Repeated(credo.MAP(num_steps=5, batch_size=8), 2)
    assert nested_options("method", changed)["method__method__num_steps"] == 5


def test_a_wrong_nested_parameter_changes_nothing_and_says_what_there_is():
    estimator = BayesianClassifier("map")
    with pytest.raises(credo.CredoError, match=r"MAP has no hyper-parameter 'rate'; .*num_steps"):
        estimator.set_params(method__rate=0.1, hidden=(3,))
    with pytest.raises(credo.CredoError, match=r"num_steps must be .* at least 1"):
        estimator.set_params(method__num_steps=-1)
    with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
        estimator.set_params(depth=3)
    assert estimator.method == "map" and estimator.hidden == (50,)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"method": "dropuot"}, "unknown method 'dropuot'.*did you mean 'dropout'"),
        ({"method": credo.HMC}, "or an instance such as credo.HMC"),
        ({"method": 3}, "method must be one of auto, map,.*got 3"),
        ({"num_draws": 0}, "num_draws must be a whole number above 0, got 0"),
        ({"network": "mlp"}, "network must be one of credo.networks.*got 'mlp'"),
        ({"activation": "rellu"}, "unknown activation 'rellu'"),
        ({"prior_scale": -1}, "scale must be a number greater than 0, got -1"),
        ({"temperature": 0}, "the temperature must be positive"),
    ],
)
def test_bad_parameters_are_refused_before_any_work(params, message):
    estimator = BayesianRegressor().set_params(**params)
    with pytest.raises(credo.CredoError, match=message):
        estimator.fit(X, VALUES)
    with pytest.raises(NotFittedError):
        estimator.predict(X)


@both
def test_the_default_is_auto(estimator):
    y = LABELS if estimator is BayesianClassifier else VALUES
    default = estimator(random_state=0)
    assert default.method == "auto" and "method__num_folds" in default.get_params()
    found = default.set_params(method__num_steps=100).fit(X, y)
    assert found.posterior_.record.method == "auto"
    assert found.score(X, y) > 0.6


def test_one_class_is_refused():
    with pytest.raises(credo.CredoError, match=r"one class only, .*'low'.*at least two"):
        BayesianClassifier().fit(X, ["low"] * len(X))


def test_class_uncertainty_is_that_of_the_posterior():
    classifier = fitted(BayesianClassifier)
    predicted = credo.predict(classifier.posterior_, X, 20, classifier.draw_seed_)
    found = classifier.predict_uncertainty(X)
    for name, values in found._asdict().items():
        np.testing.assert_allclose(values, getattr(predicted, name), atol=1e-5)
    parts = found.expected_entropy + found.mutual_information
    np.testing.assert_allclose(found.entropy, parts, rtol=1e-12)
    assert found.mutual_information.max() > 0.01  # draws disagree somewhere
    np.testing.assert_allclose(classifier.predict_proba(X), predicted.probs, atol=1e-5)
    assert (classifier.predict(X) == predicted.labels).all()
    assert classifier.score(X, LABELS) > 0.6


def test_value_uncertainty_adds_up():
    regressor = fitted(BayesianRegressor)
    mean, std = regressor.predict(X, return_std=True)
    total, aleatoric, epistemic = regressor.predict_uncertainty(X)
    np.testing.assert_allclose(total, std, rtol=1e-12)
    np.testing.assert_allclose(total**2, aleatoric**2 + epistemic**2, rtol=1e-12)
    assert epistemic.min() > 0 and aleatoric.min() > 0
    assert (mean == regressor.predict(X)).all()
    assert regressor.score(X, VALUES) > 0.7


def test_intervals_hold_their_share_and_nest():
    regressor = fitted(BayesianRegressor)
    low, high = regressor.predict_interval(X, 0.5)
    wide_low, wide_high = regressor.predict_interval(X)
    assert (wide_low < low).all() and (low < high).all() and (high < wide_high).all()
    assert 0.85 < np.mean((wide_low < VALUES) & (wide_high > VALUES)) <= 1
    with pytest.raises(credo.CredoError, match="between 0 and 1, got 95"):
        regressor.predict_interval(X, 95)


def refitted(standardize, x_factor, y_factor, y_shift):
    regressor = BayesianRegressor(MAP, hidden=(), random_state=0, standardize=standardize)
    regressor.set_params(method__learning_rate=0.001)  # small enough for any units
    regressor.fit(x_factor * X[:, :1], y_shift + y_factor * VALUES)
    mean, std = regressor.predict(x_factor * X[:, :1], return_std=True)
    return (mean - y_shift) / y_factor, std / y_factor


def test_units_of_inputs_and_targets_do_not_matter():
    for before, after in zip(refitted(True, 1, 1, 0), refitted(True, 100, 1e3, 1.7e9)):
        np.testing.assert_allclose(after, before, atol=1e-5)


def test_without_standardization_they_do():
    before, after = refitted(False, 1, 1, 0), refitted(False, 3, 2, 1)
    assert np.abs(before[0] - after[0]).max() > 0.1


def test_several_targets_at_once():
    regressor = BayesianRegressor(MAP, hidden=(), random_state=0)
    regressor.set_params(method__num_steps=2000)  # far enough for the same optimum from two starts
    regressor.fit(X, np.stack([VALUES, 100 - 7 * VALUES], axis=1))
    mean, std = regressor.predict(X, return_std=True)
    assert mean.shape == std.shape == regressor.predict_interval(X)[0].shape == (60, 2)
    np.testing.assert_allclose(mean[:, 1], 100 - 7 * mean[:, 0], atol=0.01)
    np.testing.assert_allclose(std[:, 1], 7 * std[:, 0], rtol=0.001)


def test_random_states():
    x = X[:, :1]
    drawn = np.random.RandomState(5)

    def weights(random_state):
        regressor = BayesianRegressor(MAP, hidden=(), random_state=random_state)
        posterior = regressor.set_params(method__num_steps=1).fit(x, VALUES).posterior_
        return float(jax.tree.leaves(posterior)[-1].ravel()[0])

    assert weights(3) == weights(3) != weights(4)
    assert weights(None) != weights(None)
    first = weights(drawn)
    assert first != weights(drawn)  # the generator moved on
    assert first == weights(np.random.RandomState(5)) == weights(5)


@both
def test_pickling_keeps_predictions(estimator):
    model = fitted(estimator)
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict(X) == model.predict(X)).all()
    assert again.posterior_.record.method == "dropout"


def test_the_posterior_can_be_saved(tmp_path):
    regressor = fitted(BayesianRegressor)
    credo.save(regressor.posterior_, tmp_path / "model.safetensors")
    loaded = clone(regressor).fit(X, VALUES)
    loaded.posterior_ = credo.load(tmp_path / "model.safetensors")
    assert (loaded.predict(X) == regressor.predict(X)).all()


@both
def test_chunks_of_rows_join_to_the_whole(estimator, monkeypatch):
    whole = fitted(estimator).predict_uncertainty(X)
    monkeypatch.setattr(base, "CHUNK_ROWS", 20)
    for parts, expected in zip(fitted(estimator).predict_uncertainty(X), whole):
        np.testing.assert_allclose(parts, expected, rtol=1e-9)


def test_precision_follows_the_input():
    classifier = fitted(BayesianClassifier)
    single = classifier.predict_proba(X.astype(np.float32))
    assert single.dtype == np.float32 and classifier.predict_proba(X).dtype == np.float64
    np.testing.assert_allclose(single, classifier.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_draws_do_not_depend_on_the_precision(kind):
    rate = jax.numpy.asarray(0.5)
    single = KINDS[kind](jax.random.key(0), rate, (5,))
    with jax.enable_x64(True):
        double = KINDS[kind](jax.random.key(0), rate, (5,))
    np.testing.assert_allclose(double, single, rtol=1e-6)


def test_a_regression_compiles_its_loop_once():
    regressor = BayesianRegressor(MAP, hidden=()).set_params(method__num_steps=20)
    before = loop._advance._cache_size()
    regressor.fit(X, VALUES)
    assert loop._advance._cache_size() == before + 1


def test_feature_names_are_kept_and_compared():
    table = pd.DataFrame(X, columns=["height", "weight"])
    model = clone(fitted(BayesianRegressor)).fit(table, VALUES)
    assert list(model.feature_names_in_) == ["height", "weight"]
    np.testing.assert_allclose(model.predict(table), fitted(BayesianRegressor).predict(X), 1e-9)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(table[["weight", "height"]])


def test_a_pipeline_in_a_grid_search_over_a_field_of_the_method():
    classifier = BayesianClassifier(MAP, hidden=(), random_state=0)
    pipeline = make_pipeline(PolynomialFeatures(), classifier)
    rates = {"bayesianclassifier__method__learning_rate": [1e-6, 0.03]}
    search = GridSearchCV(pipeline, rates, cv=3, scoring="neg_log_loss").fit(X, LABELS)
    assert search.best_estimator_[-1].method == MAP
    assert search.predict_proba(X).shape == (60, 3)


def test_cross_validation_in_several_processes():
    regressor = BayesianRegressor(MAP, hidden=(), random_state=0)
    alone = cross_val_score(regressor, X, VALUES, cv=2)
    assert alone.min() > 0.7
    np.testing.assert_allclose(cross_val_score(regressor, X, VALUES, cv=2, n_jobs=2), alone)


class Convolution(eqx.Module):
    """Neighbouring features share weights. Convolutions want inputs and weights of one dtype."""

    layer: eqx.nn.Conv1d
    head: eqx.nn.Linear

    def __call__(self, row):
        return self.head(jax.nn.relu(self.layer(row[None])).ravel())


def test_a_network_of_ones_own():
    keys = jax.random.split(jax.random.key(0))
    module = Convolution(eqx.nn.Conv1d(1, 4, 2, key=keys[0]), eqx.nn.Linear(4, 3, key=keys[1]))
    classifier = BayesianClassifier(MAP, network=module).fit(X, LABELS)
    assert classifier.score(X, LABELS) > 0.6
    given = BayesianClassifier(MAP, network=credo.networks.MLP(hidden=()), random_state=0)
    built = BayesianClassifier(MAP, hidden=(), random_state=0)
    np.testing.assert_array_equal(
        given.fit(X, LABELS).predict_proba(X), built.fit(X, LABELS).predict_proba(X)
    )


@pytest.mark.parametrize("standardize", [True, False])
def test_known_noise_is_in_the_units_of_y(standardize):
    """So the linear posterior is that of y itself, up to a prior that hardly matters here."""
    options = {"hidden": (), "prior_scale": 100.0, "noise": 30.0, "standardize": standardize}
    regressor = BayesianRegressor("exact", num_draws=4000, random_state=0, **options)
    found = regressor.fit(X, 100 * VALUES).predict_uncertainty(X[:3])
    np.testing.assert_allclose(found.aleatoric_std, 30.0, rtol=1e-5)
    design = np.column_stack([np.ones(60), X])
    spread = np.einsum("ni,ij,nj->n", design[:3], np.linalg.inv(design.T @ design), design[:3])
    np.testing.assert_allclose(found.epistemic_std, 30.0 * np.sqrt(spread), rtol=4 / 8000**0.5)
    assert "noise" not in BayesianClassifier().get_params()


def test_noise_that_cannot_be_used():
    linear = BayesianRegressor("exact", hidden=())
    with pytest.raises(credo.CredoError, match="noise=… to BayesianRegressor"):
        linear.fit(X, VALUES)
    with pytest.raises(credo.CredoError, match="positive standard deviation, got -1"):
        linear.set_params(noise=-1.0).fit(X, VALUES)
    with pytest.raises(credo.CredoError, match=r"one number for 2 targets.*standardize=False"):
        linear.set_params(noise=1.0).fit(X, np.column_stack([VALUES, 2 * VALUES]))


@pytest.mark.parametrize("name", ["classifier", "regressor", "options"])
def test_examples(name):
    failed, attempted = doctest.testmod(importlib.import_module(f"credo.sklearn.{name}"))
    assert attempted > 0 and failed == 0
