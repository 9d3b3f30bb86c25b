"""What is said when a run cannot start or cannot go on: the place, and what to change."""

import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.model import check_data
from credo.networks import MLP, Functions

pytestmark = pytest.mark.usefixtures("quick_compilation")

X = np.random.default_rng(0).normal(size=(10, 2)).astype(np.float32)
Y = X[:, 0] * 2 - 1
MODEL = credo.Model(MLP(hidden=()), credo.likelihoods.Normal(0.5))

NAN = Functions(lambda key: jnp.ones((2, 1)), lambda params, x: jnp.log(-((x @ params) ** 2) - 1))
DIVERGING = [
    (MLP(()), credo.MAP(learning_rate=1e30, optimizer="sgd"), r"learning_rate \(got 1e\+30\)"),
    (
        MLP((2,)),
        credo.Dropout(learning_rate=1e30, optimizer="sgd"),
        r"learning_rate \(got 1e\+30\)",
    ),
    (NAN, credo.HMC(step_size=0.5), r"step_size \(got 0.5\)"),
]


@pytest.mark.parametrize(("network", "method", "setting"), DIVERGING)
def test_divergence_names_the_step_and_the_setting(network, method, setting):
    with pytest.raises(credo.DivergedError, match=f"at step [0-9]+ of chain 0; lower {setting}"):
        credo.fit(credo.Model(network, credo.likelihoods.Normal(0.5)), (X, Y), method)


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (X, Y[:-1], "x has 10 rows, y has 9"),
        (X[:0], Y[:0], "no rows"),
        (np.where(X > 1, np.nan, X), Y, "NaN"),
        (X * np.inf, Y, "infinite"),
        (X.astype(float) * 1e39, Y, "infinite"),  # so they would be in single precision
        (X, Y.astype(float) * 1e39, "targets"),
        (X.astype(str), Y, "finite numbers"),
        (X, Y * np.nan, "targets"),
    ],
)
def test_bad_data_are_refused(x, y, words):
    with pytest.raises(credo.CredoError, match=words):
        credo.fit(MODEL, (x, y), credo.MAP(num_steps=1))


def test_one_class_only_is_refused():
    model = credo.Model(MLP(()), credo.likelihoods.Categorical(3))
    with pytest.raises(credo.CredoError, match="all 10 labels are 2"):
        credo.fit(model, (X, np.full(10, 2)), credo.MAP(num_steps=1))


def test_predictions_in_single_precision_refuse_what_it_cannot_hold():
    posterior = credo.fit(MODEL, (X, Y), credo.MAP(num_steps=1))
    with pytest.raises(credo.CredoError, match="infinite"):
        credo.predict(posterior, np.full((1, 2), 1e39))


def test_a_classifier_needs_two_classes():
    with pytest.raises(credo.CredoError, match="2 classes"):
        credo.likelihoods.Categorical(1)


def test_features_may_be_flags():
    assert check_data(MODEL, (X > 0, Y)).x.dtype == np.float32
    on_device = jnp.asarray(X, jnp.float32)
    assert check_data(MODEL, (on_device, Y)).x is on_device  # not copied


def test_large_whole_targets_keep_their_value():
    assert check_data(MODEL, (X, np.full(10, 2**40))).y[0] == 2.0**40
