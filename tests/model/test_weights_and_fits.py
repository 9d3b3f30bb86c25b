"""Fits that recover what made the data, weights of rows and classes, targets of any shape."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.data import Batch, Units
from credo.likelihoods import (
    Categorical,
    MultivariateNormal,
    NegativeBinomial,
    Normal,
    Ordinal,
    Poisson,
    StudentT,
)
from credo.model import Target
from credo.networks import MLP

pytestmark = pytest.mark.usefixtures("float64", "quick_compilation")

RNG = np.random.default_rng(0)
N = 1000
X = RNG.uniform(-1, 1, size=(N, 1))
LINE = 0.5 + 1.5 * X[:, 0]
METHOD = credo.MAP(num_steps=800, learning_rate=0.03, batch_size=N)
NOISE = RNG.multivariate_normal([0, 0], [[0.5, 0.3], [0.3, 0.4]], N)
COUNTS = RNG.poisson(np.exp(LINE) * RNG.gamma(2.0, 0.5, N))
GRADES = (3 * LINE[:, None] + RNG.logistic(size=(N, 1)) > [-1.0, 0.5, 3.0]).sum(axis=1)


def fitted(likelihood, y):
    model = credo.Model(MLP(hidden=()), likelihood, credo.priors.NormalPrior(10.0))
    params = jax.tree.map(lambda leaf: leaf[0, 0], credo.fit(model, (X, y), METHOD).draws)
    layer = params["network"]["dense0"]
    return np.ravel(layer["b"]), np.ravel(layer["w"]), params["likelihood"]


@pytest.mark.parametrize(
    ("likelihood", "y", "parameter", "truth", "error"),
    [
        # Errors: 4 × the standard error 1/√(N I) of each parameter, a little more with the prior.
        (Normal(), LINE + 0.4 * RNG.normal(size=N), "log_scale", np.log(0.4), 0.1),
        (StudentT(), LINE + 0.4 * RNG.standard_t(4, N), "log_scale", np.log(0.4), 0.12),
        (NegativeBinomial(), COUNTS, "log_dispersion", np.log(2.0), 0.5),
        (Poisson(), RNG.poisson(np.exp(LINE)), None, None, 0.15),
    ],
    ids=["normal", "student", "negative_binomial", "poisson"],
)
def test_a_fit_recovers_what_made_the_data(likelihood, y, parameter, truth, error):
    bias, slope, own = fitted(likelihood, y)
    allowed = 0.25
    assert abs(bias[0] - 0.5) < allowed and abs(slope[0] - 1.5) < allowed
    if parameter:
        assert abs(float(own[parameter][0]) - truth) < error
    assert not abs(slope[0] + 1.5) < allowed  # planted: the sign of a slope


def test_a_fit_recovers_a_covariance():
    _, _, own = fitted(MultivariateNormal(2), LINE[:, None] + NOISE)
    factor = np.asarray(MultivariateNormal(2).factor(own))
    found, truth = factor @ factor.T, np.array([[0.5, 0.3], [0.3, 0.4]])
    diagonal = np.diag(truth)
    error = 4 * np.sqrt((np.outer(diagonal, diagonal) + truth**2) / N)
    assert (np.abs(found - truth) < error).all()
    assert not (np.abs(np.diag(np.diag(found)) - truth) < error).all()  # planted: no covariance


def test_a_fit_recovers_cutpoints():
    bias, slope, own = fitted(Ordinal(4), GRADES)
    cuts = np.asarray(Ordinal(4).cutpoints(own)) - bias
    np.testing.assert_allclose(cuts + 1.5, [-1.0, 0.5, 3.0], atol=0.6)
    assert abs(slope[0] - 4.5) < 0.9


def test_normal_noise_is_bent_by_outliers_and_students_is_not():
    y = LINE + 0.1 * RNG.normal(size=N)
    y[X[:, 0] > 0.8] -= 10.0
    assert abs(fitted(StudentT("learned", 3.0), y)[1][0] - 1.5) < 0.1
    assert abs(fitted(Normal(), y)[1][0] - 1.5) > 0.5


ROWS, WEIGHTS = X[:12], np.array([2.0, 1.0, 0.0, 1.0, 3.0, 1.0] * 2)
TWICE = np.repeat(np.arange(12), WEIGHTS.astype(int))
LABELS = np.arange(12) % 3
TARGETS = {
    Normal(): LINE[:12],
    StudentT(): LINE[:12],
    Poisson(): COUNTS[:12],
    Categorical(3): LABELS,
    Ordinal(3): LABELS,
}


@pytest.mark.parametrize("likelihood", TARGETS, ids=repr)
def test_a_row_of_weight_two_is_two_rows(likelihood):
    y = likelihood.check(np.asarray(TARGETS[likelihood]))
    model = credo.Model(MLP(hidden=(3,)), likelihood)
    params = model.init(jax.random.key(0), (1,))
    weighted = Batch(jnp.asarray(ROWS), jnp.asarray(y), weight=jnp.asarray(WEIGHTS))
    repeated = Batch(jnp.asarray(ROWS[TWICE]), jnp.asarray(y[TWICE]))
    pair = [
        Target(model, len(batch.x), (1,)).log_joint(params, batch) for batch in (weighted, repeated)
    ]
    np.testing.assert_allclose(*pair, rtol=1e-12)
    planted = Target(model, 12, (1,)).log_joint(params, weighted._replace(weight=None))
    assert not np.isclose(planted, pair[1])


@pytest.mark.parametrize("name", ["exact", "laplace"])
def test_posteriors_of_weighted_rows(name):
    """Mean and covariance of the exact posterior, and of Laplace's around the same mode."""
    method = credo.Exact() if name == "exact" else credo.Laplace("full", num_steps=500)
    model = credo.Model(MLP(hidden=()), Normal(0.5))
    weighted = credo.fit(model, (ROWS, LINE[:12]), method, row_weights=WEIGHTS)
    repeated = credo.fit(model, (ROWS[TWICE], LINE[:12][TWICE]), method)
    plain = credo.fit(model, (ROWS, LINE[:12]), method)
    stds = [credo.predict(each, ROWS, 50).std for each in (weighted, repeated, plain)]
    np.testing.assert_allclose(stds[0], stds[1], rtol=1e-4)
    assert not np.allclose(stds[0], stds[2], rtol=1e-3)  # planted: weights that are ignored


def test_class_weights_are_row_weights_and_go_by_name():
    model = credo.Model(MLP(hidden=(3,)), Categorical(3))
    method, names = credo.MAP(num_steps=30), np.array(["a", "b", "c"])[LABELS]

    def weights(y, units=None, **options):
        fitted = credo.fit(model, (ROWS, y), method, units=units, **options)
        return np.asarray(fitted.draws["network"]["dense0"]["w"])

    by_row = weights(LABELS, row_weights=np.where(LABELS == 1, 5.0, 1.0))
    np.testing.assert_array_equal(weights(LABELS, class_weights={1: 5.0}), by_row)
    units = Units(classes=("a", "b", "c"))
    np.testing.assert_array_equal(weights(names, units, class_weights={"b": 5.0}), by_row)
    assert not np.array_equal(weights(LABELS), by_row)
    both = weights(LABELS, row_weights=np.full(12, 2.0), class_weights={1: 5.0})
    np.testing.assert_array_equal(
        both, weights(LABELS, row_weights=np.where(LABELS == 1, 10.0, 2.0))
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"row_weights": np.ones(3)}, "12 finite numbers"),
        ({"row_weights": -np.ones(12)}, "none negative"),
        ({"row_weights": np.full(12, np.nan)}, "finite"),
        ({"row_weights": np.zeros(12)}, "all 0"),
        ({"class_weights": {3: 1.0}}, r"classes 0 … 2"),
        ({"class_weights": {0: -1.0}}, "numbers from 0 on"),
        ({"class_weights": {0: np.inf}}, "numbers from 0 on"),
        ({"class_weights": [1.0, 2.0, 3.0]}, "map class numbers"),
    ],
)
def test_weights_that_do_not_fit(options, words):
    model = credo.Model(MLP(hidden=(3,)), Categorical(3))
    with pytest.raises(credo.CredoError, match=words) as caught:
        credo.fit(model, (ROWS, LABELS), "map", **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scale", [0.3, "learned", "by_input"])
@pytest.mark.parametrize("kind", [Normal, StudentT])
def test_images_as_targets_from_fit_to_scores(kind, scale, tmp_path):
    """(4, 4) targets in units far from 0 and 1: fitted, saved, loaded, predicted, scored."""
    x = RNG.normal(size=(60, 2))
    images = 500 + 20 * (x[:, :1, None] * np.eye(4) + 0.1 * RNG.normal(size=(60, 4, 4)))
    model = credo.Model(MLP(hidden=()), kind(scale, num_targets=(4, 4)))
    units = Units.standardizing(x, images)
    assert units.shift == pytest.approx(images.mean()) and np.ndim(units.shift) == 0
    method = credo.MAP(num_steps=400, learning_rate=0.03)
    credo.save(credo.fit(model, (x, images), method, units=units), tmp_path / "images")
    predicted = credo.predict(credo.load(tmp_path / "images"), x)
    assert predicted.mean.shape == predicted.interval()[0].shape == (60, 4, 4)
    assert predicted.log_prob(images).shape == predicted.entropy.shape == (60,)
    assert predicted.sample(0, 3).shape == (3, 60, 4, 4)
    scores = credo.evaluate(predicted, images)
    assert scores["rmse"].value < 6.0  # of values around 500 that vary by 20 on the diagonal
    flat = credo.fit(model, (x, images.reshape(60, 16)), method, units=units)
    np.testing.assert_allclose(credo.predict(flat, x).mean, predicted.mean, rtol=1e-9)


def test_units_of_an_array_that_comes_as_a_row_of_numbers():
    y = RNG.normal(size=(60, 16)) * np.arange(1, 17) + 100 * np.arange(16)
    model = credo.Model(MLP(hidden=()), Normal(num_targets=(4, 4)))
    x = RNG.normal(size=(60, 2))
    posterior = credo.fit(model, (x, y), credo.MAP(num_steps=50), units=Units.standardizing(x, y))
    mean = credo.predict(posterior, x).mean
    np.testing.assert_allclose(mean.mean(axis=0).ravel(), y.mean(axis=0), atol=60)
    assert mean.shape == (60, 4, 4)
