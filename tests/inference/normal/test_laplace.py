"""Laplace against exact posteriors; what it takes, keeps and refuses."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import credo
from credo.inference.normal.laplace import Laplace
from credo.model import Target
from credo.networks import MLP, Functions, PriorFunction
from tests.inference.normal.laplace_cases import (
    CLASSES,
    DESIGN,
    LINEAR,
    MODELS,
    NOISE,
    PRIOR,
    RNG,
    STRUCTURES,
    X,
    Y,
    brute_force,
    covariance,
    exact_evidence,
    linear_params,
    moments,
    network,
    recorded,
    ridge,
)

pytestmark = pytest.mark.usefixtures("float64", "quick_compilation")


@pytest.mark.parametrize("structure", ["full", "kron"])
def test_a_linear_model_is_exact(structure):
    """One layer with normal noise is where the Kronecker factors are exact too."""
    precision, mean = ridge()
    posterior = credo.laplace(
        (LINEAR, linear_params(mean)), (X, Y), structure, layers="all", tune_prior=False
    )
    np.testing.assert_allclose(covariance(posterior), np.linalg.inv(precision), rtol=1e-9)
    np.testing.assert_allclose(recorded(posterior), exact_evidence(PRIOR, NOISE), rtol=1e-10)
    # planted: a curvature that forgot to be a sum over all data
    wrong = np.linalg.inv(DESIGN.T @ DESIGN / NOISE**2 / len(X) + np.eye(3) / PRIOR**2)
    assert not np.allclose(covariance(posterior), wrong, rtol=0.1)


def test_the_method_fits_what_is_exact():
    method = credo.Laplace("full", tune_prior=False, learning_rate=0.05, num_steps=3000)
    posterior = credo.fit(LINEAR, (X, Y), dataclasses.replace(method, batch_size=len(X)))
    precision, mean = ridge()
    np.testing.assert_allclose(ravel_pytree(posterior.mean)[0], mean, atol=1e-4)
    np.testing.assert_allclose(covariance(posterior), np.linalg.inv(precision), rtol=1e-9)
    assert posterior.record.method == "laplace" and len(posterior.record.history["loss"][0]) == 3000
    assert np.isclose(recorded(posterior), exact_evidence(PRIOR, NOISE), atol=1e-4)


@pytest.fixture
def float32():
    jax.config.update("jax_enable_x64", False)
    yield
    jax.config.update("jax_enable_x64", True)


@pytest.mark.parametrize("structure", ["full", "subnetwork"])
def test_a_precise_noise_gives_no_nan(structure, float32):
    """In single precision a Cholesky factor of H + I fails beside entries of 1e9."""
    model = credo.Model(MLP((10,)), credo.likelihoods.Normal(1e-3))
    params = model.init(jax.random.key(0), (1,))
    x = X[:, :1]
    posterior = credo.laplace((model, params), (x, Y), structure, layers="all", tune_prior=False)
    assert posterior.factor.dtype == np.float32 and np.isfinite(posterior.factor).all()
    assert np.isfinite(recorded(posterior))
    spread = credo.linearized_predict(posterior, x).epistemic_variance
    assert np.all(spread < (10 * 1e-3) ** 2)  # at the data, about the noise


def test_what_is_not_finite_is_refused():
    _, mean = ridge()
    for structure in STRUCTURES:
        with pytest.raises(credo.CredoError, match="not finite"):
            credo.laplace((LINEAR, linear_params(np.nan * mean)), (X, Y), structure)


def test_a_temperature_scales_the_covariance():
    trained = LINEAR, linear_params(ridge()[1])
    for structure in STRUCTURES:
        warm, cold = (
            credo.laplace(trained, (X, Y), structure, temperature=t, tune_prior=False)
            for t in (1.0, 0.25)
        )
        np.testing.assert_allclose(covariance(cold), covariance(warm) / 4, rtol=1e-10)


def test_the_last_layer_is_a_linear_model_of_its_features():
    model = MODELS["categorical"][0]
    params = network(model)
    layer = params["network"]["dense0"]
    features = np.tanh(X @ layer["w"] + layer["b"])
    head = dataclasses.replace(model, network=MLP(hidden=()))
    head_params = {"network": {"dense0": params["network"]["dense1"]}, "likelihood": {}}
    for structure in ("kron", "full", "diagonal"):
        last = credo.laplace((model, params), (X, CLASSES), structure)
        alone = credo.laplace((head, head_params), (features, CLASSES), structure)
        np.testing.assert_allclose(recorded(last), recorded(alone), rtol=1e-9)
        mean, spread = moments(last, jnp.asarray(X))
        alone_mean, alone_spread = moments(alone, jnp.asarray(features))
        np.testing.assert_allclose(mean, alone_mean, rtol=1e-9)
        np.testing.assert_allclose(spread, alone_spread, rtol=1e-7)


def test_the_subnetwork_is_of_largest_variance_and_dense():
    model, params = MODELS["categorical"][0], network(MODELS["categorical"][0])
    found = credo.laplace(
        (model, params), (X, CLASSES), "subnetwork", layers="all", num_weights=6, tune_prior=False
    )
    precision = brute_force(model, params, X, CLASSES, "ggn") + np.eye(27)
    expected = np.sort(np.argsort(np.diag(precision))[:6])
    np.testing.assert_array_equal(found.chosen, expected)
    np.testing.assert_allclose(
        found.factor @ found.factor.T, np.linalg.inv(precision[np.ix_(expected, expected)])
    )


def test_what_a_trained_network_knew_is_kept():
    model, y = MODELS["categorical"]
    method = credo.MAP(num_steps=5)
    names = np.array(["a", "b", "c"])[y]
    units = credo.data.Units(classes=("a", "b", "c"))
    trained = credo.fit(model, (X, names), method, temperature=0.25, units=units)
    found = credo.laplace(trained, (X, names))
    assert found.record.temperature == 0.25 and found.record.units == units
    assert set(credo.predict(found, X).labels) <= {"a", "b", "c"}
    every = {"structure": "full", "layers": "all", "tune_prior": False}
    hot = credo.laplace(trained, (X, names), temperature=1.0, **every)
    cold = credo.laplace(trained, (X, names), **every)
    np.testing.assert_allclose(covariance(cold), 0.25 * covariance(hot), rtol=1e-8)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_files_hold_every_structure(structure, tmp_path):
    model, y = MODELS["learned"]
    posterior = credo.laplace((model, network(model)), (X, y), structure)
    credo.save(posterior, tmp_path / "model.safetensors")
    again = credo.load(tmp_path / "model.safetensors")
    assert again.linearized and recorded(again) == recorded(posterior)
    for predictive in (credo.predict, credo.linearized_predict):
        np.testing.assert_array_equal(predictive(again, X).means, predictive(posterior, X).means)


def test_any_trained_posterior_and_any_pytree():
    model, y = MODELS["categorical"]
    for method in (
        credo.MAP(num_steps=5),
        credo.Dropout(num_steps=5),
        credo.BayesByBackprop(num_steps=5),
    ):
        posterior = credo.laplace(credo.fit(model, (X, y), method), (X, y))
        assert np.isfinite(credo.probit_predict(posterior, X).probs).all()
    opaque = dataclasses.replace(
        model, network=Functions(None, lambda p, x: jnp.tanh(x @ p[0]) @ p[1])
    )
    trained = opaque, [np.ones((2, 4), np.float32), RNG.normal(size=(4, 3)).astype(np.float32)]
    for structure in ("full", "diagonal", "subnetwork"):
        posterior = credo.laplace(trained, (X, y), structure, layers="all")
        assert np.isfinite(credo.linearized_predict(posterior, X).probs).all()
    for options in (
        {"structure": "kron", "layers": "all"},
        {"structure": "full", "layers": "last"},
    ):
        with pytest.raises(credo.CredoError, match="'full', 'diagonal' or 'subnetwork'"):
            credo.laplace(trained, (X, y), **options)
        with pytest.raises(credo.CredoError, match="Functions does not show"):
            Laplace(**options).check(None, Target(opaque, 3), trained[1], None)


@pytest.mark.filterwarnings("ignore::credo.CredoWarning")
def test_what_cannot_be_done_is_refused():
    model, y = MODELS["normal"]
    chains = credo.fit(model, (X, y), credo.SGLD(num_samples=2, num_warmup=2, num_chains=1, thin=1))
    with pytest.raises(credo.CredoError, match="one set of weights, got 2 draws"):
        credo.laplace(chains, (X, y))
    with pytest.raises(credo.CredoError, match="normal posterior"):
        credo.linearized_predict(chains, X)
    posterior = credo.laplace((model, network(model)), (X, y))
    with pytest.raises(credo.CredoError, match="linearized_predict"):
        credo.probit_predict(posterior, X)
    with pytest.raises(credo.CredoError, match="at least 1 draw"):
        credo.linearized_predict(posterior, X, num_draws=0)


TRAINED = {
    "swapped": ((linear_params([0.4, 1.0, -0.5]), LINEAR), r"in this order, got \(dict, Model\)"),
    "three": ((LINEAR, 1, 2), r"a pair \(model, params\)"),
    "nothing": (3.0, "what credo.fit gave, or a pair .* got float"),
    "other network": ((LINEAR, {"dense0": np.ones(3)}), "cannot be applied with these parameters"),
}


@pytest.mark.parametrize("name", TRAINED)
def test_what_is_not_a_trained_network_is_refused(name):
    trained, message = TRAINED[name]
    with pytest.raises(credo.CredoError, match=message):
        credo.laplace(trained, (X, Y))


def test_a_mixture_has_many_networks():
    model, y = MODELS["categorical"]
    member = credo.Laplace(num_steps=5)
    mixture = credo.fit(model, (X, y), credo.Ensemble(member, 2))
    with pytest.raises(credo.CredoError, match=r"mixture of 2; .* posterior.member\(i\)"):
        credo.laplace(mixture, (X, y))
    for predictive in (credo.probit_predict, credo.linearized_predict):
        with pytest.raises(credo.CredoError, match=r"got Mixture; use posterior.member\(i\)"):
            predictive(mixture, X)
    # What the messages advise can be done.
    one = mixture.member(1)
    assert np.isfinite(credo.probit_predict(one, X).probs).all()
    again = credo.laplace(one, (X, y))
    np.testing.assert_allclose(ravel_pytree(again.mean)[0], ravel_pytree(one.mean)[0])


def test_data_of_another_shape_are_refused():
    trained = credo.fit(LINEAR, (X, Y), credo.MAP(num_steps=3))
    wide = np.column_stack([X, X])
    with pytest.raises(credo.CredoError, match=r"rows of shape \(2,\), got \(4,\)"):
        credo.laplace(trained, (wide, Y))
    with pytest.raises(credo.CredoError, match=r"cannot be applied .* rows of shape \(4,\)"):
        credo.laplace((LINEAR, linear_params([0.4, 1.0, -0.5])), (wide, Y))


def test_the_noise_of_trained_weights_is_not_invented():
    model, y = MODELS["learned"]
    params = network(model)
    with pytest.raises(credo.CredoError, match=r"Normal has parameters \['log_scale'\]"):
        credo.laplace((model, params["network"]), (X, y))
    found = credo.laplace((model, params), (X, y), tune_prior=False)
    given = params["likelihood"]["log_scale"]
    np.testing.assert_array_equal(found.mean["likelihood"]["log_scale"], given)


def test_the_fixed_weights_of_a_prior_function_stay_certain():
    plain, y = MODELS["categorical"]
    model = dataclasses.replace(plain, network=PriorFunction(plain.network))
    params = model.init(jax.random.key(0), (2,))
    for structure in ("full", "kron"):
        with pytest.raises(credo.CredoError, match="fixed weights of a prior function"):
            credo.laplace((model, params), (X, y), structure, layers="all")
    ensemble = credo.Ensemble(credo.Laplace(num_steps=3), 2, prior_function=1.0)
    with pytest.raises(credo.CredoError, match="prior_function needs members that are networks"):
        credo.fit(plain, (X, y), ensemble)
