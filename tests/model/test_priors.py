"""Priors: which mean and standard deviation each weight gets, and the law of their draws."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import credo
from credo.data import Batch
from credo.likelihoods import Bernoulli, Normal
from credo.model import Target
from credo.networks import MLP, Equinox, LeNet
from credo.posterior import NormalWeights, Record, Samples
from credo.priors import FanInPrior, LayerPrior, NormalPrior, WeightPrior

pytestmark = pytest.mark.usefixtures("float64", "quick_compilation")

NETWORK = MLP(hidden=(8,))
PARAMS = jax.eval_shape(lambda: NETWORK.init(jax.random.key(0), (2, 2), 3))


def test_one_scale():
    scales = NormalPrior(0.3).scales(NETWORK, PARAMS)
    assert scales == {"dense0": {"w": 0.3, "b": 0.3}, "dense1": {"w": 0.3, "b": 0.3}}


def test_a_scale_per_layer():
    scales = LayerPrior({"dense0": 0.5, "dense1": 2}).scales(NETWORK, PARAMS)
    assert scales == {"dense0": {"w": 0.5, "b": 0.5}, "dense1": {"w": 2.0, "b": 2.0}}


def test_layers_must_all_be_named():
    with pytest.raises(credo.CredoError, match=r"\['dense0'\].*\['dense0', 'dense1'\]"):
        LayerPrior({"dense0": 1.0}).scales(NETWORK, PARAMS)


def test_fan_in():
    scales = FanInPrior(2.0).scales(NETWORK, PARAMS)
    assert scales == {"dense0": {"w": 1.0, "b": 2.0}, "dense1": {"w": 2 / 8**0.5, "b": 2.0}}


def test_fan_in_of_a_convolution_and_of_an_equinox_module():
    network = LeNet(channels=(3, 4), hidden=(5,), kernel=3)
    params = jax.eval_shape(lambda: network.init(jax.random.key(0), (14, 14, 2), 3))
    scales = FanInPrior().scales(network, params)
    expected = {"conv0": 18, "conv1": 27, "dense0": 16, "dense1": 5}
    assert {name: round(layer["w"] ** -2) for name, layer in scales.items()} == expected

    network = Equinox(lambda key: eqx.nn.Linear(9, 4, key=key))
    params = network.init(jax.random.key(0), (9,), 4)
    scales = FanInPrior().scales(network, params)
    assert (round(scales.weight**-2), scales.bias) == (9, 1.0)


def within_four_errors(draws, scale):
    return abs(np.var(draws) - scale**2) < 4 * scale**2 * np.sqrt(2 / draws.size)


def test_draws_have_the_prior_scale():
    model = credo.Model(MLP(hidden=(200,)), Normal(num_targets=2), FanInPrior(1.5))
    params = model.init(jax.random.key(0), (100,))
    drawn = model.sample_prior(jax.random.key(1), params)
    assert jax.tree.map(np.shape, drawn) == jax.tree.map(np.shape, params)
    weights = np.asarray(drawn["network"]["dense0"]["w"])
    assert within_four_errors(weights, 0.15)
    assert not within_four_errors(weights, 1.5)


@pytest.mark.parametrize("prior", [NormalPrior, FanInPrior])
@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan])
def test_a_scale_is_positive(prior, scale):
    with pytest.raises(credo.CredoError, match="greater than 0"):
        prior(scale)
    with pytest.raises(credo.CredoError, match="positive"):
        LayerPrior({"dense0": scale})


MODEL = credo.Model(MLP(hidden=(3,)), Normal(0.5))
RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
Y = X[:, 0] - 2 * X[:, 1] + 0.5 * RNG.normal(size=30)


def random_like(params, scale=1.0):
    return jax.tree.map(lambda leaf: scale * RNG.normal(size=leaf.shape), params)


def with_prior(prior, network=MODEL.network, likelihood=MODEL.likelihood):
    return credo.Model(network, likelihood, prior)


PARAMS_2 = MODEL.init(jax.random.key(0), (2,))
MEAN = random_like(PARAMS_2["network"])
LAYERS = {"dense0": 0.5, "dense1": 2.0}
SCALE = jax.tree.map(lambda leaf: np.exp(0.3 * leaf), random_like(PARAMS_2["network"]))


@pytest.mark.parametrize(
    ("prior", "scale"),
    [
        (NormalPrior(0.3, MEAN), lambda name, leaf: 0.3),
        (LayerPrior(LAYERS, MEAN), lambda name, leaf: LAYERS[name]),
        (FanInPrior(2.0, MEAN), lambda name, leaf: 2 / (len(leaf) ** 0.5 if leaf.ndim == 2 else 1)),
    ],
    ids=["normal", "layer", "fan_in"],
)
def test_the_density_around_a_mean(prior, scale):
    weights = random_like(PARAMS_2)
    expected = sum(
        stats.norm.logpdf(leaf, MEAN[name][part], scale(name, leaf)).sum()
        for name, layer in weights["network"].items()
        for part, leaf in layer.items()
    )
    target = Target(with_prior(prior), 30, (2,))
    np.testing.assert_allclose(target.log_prior(weights), expected, rtol=1e-10)
    centered = Target(with_prior(NormalPrior(0.3)), 30, (2,)).log_prior(weights)
    assert not np.isclose(centered, expected)  # planted: a mean that is ignored


def test_the_density_with_a_scale_for_every_weight():
    weights = random_like(PARAMS_2)
    law = stats.norm.logpdf
    terms = jax.tree.map(lambda w, m, s: law(w, m, s).sum(), weights["network"], MEAN, SCALE)
    found = Target(with_prior(WeightPrior(SCALE, MEAN)), 30, (2,)).log_prior(weights)
    np.testing.assert_allclose(found, sum(jax.tree.leaves(terms)), rtol=1e-10)


def test_draws_have_mean_and_scale():
    model = with_prior(WeightPrior(SCALE, MEAN))
    keys = jax.random.split(jax.random.key(1), 4000)
    drawn = jax.vmap(lambda key: model.sample_prior(key, PARAMS_2)["network"])(keys)

    def agrees(means):
        near = jax.tree.map(
            lambda d, m, s: (np.abs(d.mean(axis=0) - m) < 4 * s / 4000**0.5).all()
            and (np.abs(d.var(axis=0) - s**2) < 4 * s**2 * (2 / 4000) ** 0.5).all(),
            drawn, means, SCALE,
        )  # fmt: skip
        return all(jax.tree.leaves(near))

    assert agrees(MEAN)
    assert not agrees(jax.tree.map(lambda mean: mean + 0.3, MEAN))  # planted


def ridge(mean, prior_scale, noise=0.5):
    """The mode of a linear model around a mean (weights, bias)."""
    design = np.column_stack([X, np.ones(30)])
    precision = design.T @ design / noise**2 + np.eye(3) / prior_scale**2
    return np.linalg.solve(precision, design.T @ Y / noise**2 + mean / prior_scale**2)


LINEAR = {"dense0": {"w": np.array([[3.0], [1.0]]), "b": np.array([-2.0])}}


DESCENT = credo.MAP(
    num_steps=1500, learning_rate=0.05, batch_size=30, optimizer="sgd", schedule="constant"
)


def linear_mode(prior, method=DESCENT, **options):
    model = with_prior(prior, MLP(hidden=()))
    layer = credo.fit(model, (X, Y), method, **options).draws["network"]["dense0"]
    return np.concatenate([layer["w"].reshape(-1, 2), layer["b"].reshape(-1, 1)], axis=1)


def test_fine_tuning_is_ridge_regression_around_the_trained_weights():
    mean = np.array([3.0, 1.0, -2.0])
    found = linear_mode(NormalPrior(0.1, LINEAR))[0]
    np.testing.assert_allclose(found, ridge(mean, 0.1), rtol=1e-6)
    assert not np.allclose(found, ridge(0 * mean, 0.1), rtol=1e-2)  # planted: around 0
    assert np.abs(found - mean).max() < np.abs(ridge(mean, 10.0) - mean).max()


def test_anchors_are_drawn_around_the_mean():
    """Anchored members of a linear model are exact draws from its posterior."""
    ensemble = credo.Ensemble(DESCENT, size=60, anchored=True)
    members = linear_mode(NormalPrior(0.3, LINEAR), ensemble)
    design = np.column_stack([X, np.ones(30)])
    std = np.sqrt(np.diag(np.linalg.inv(design.T @ design / 0.25 + np.eye(3) / 0.09)))

    def agrees(mean):
        return bool((np.abs(members.mean(axis=0) - mean) < 4 * std / 60**0.5).all())

    assert len(members) == 60
    assert agrees(ridge(np.array([3.0, 1.0, -2.0]), 0.3))
    assert not agrees(ridge(np.zeros(3), 0.3))  # planted: anchors around 0
    spread = members.std(axis=0, ddof=1) / std
    assert (np.abs(spread - 1) < 4 / (2 * 59) ** 0.5).all()


def test_a_posterior_becomes_a_prior():
    draws = random_like(jax.tree.map(lambda leaf: np.zeros((2, 50, *leaf.shape)), PARAMS_2))
    draws = jax.tree.map(lambda leaf: 1e3 + leaf, draws)
    posterior = Samples(MODEL, draws, Record((2,)))
    tuned, learned = posterior.as_prior(0.2), posterior.as_prior()
    flat = jax.tree.map(lambda leaf: leaf.reshape(100, *leaf.shape[2:]), draws["network"])
    for prior in (tuned, learned):
        jax.tree.map(lambda m, d: np.testing.assert_allclose(m, d.mean(axis=0)), prior.mean, flat)
    assert tuned.scale == 0.2 and isinstance(tuned, NormalPrior)
    jax.tree.map(
        lambda s, d: np.testing.assert_allclose(s, d.std(axis=0), rtol=1e-6), learned.scale, flat
    )
    normal = NormalWeights(MODEL, {**PARAMS_2, "network": MEAN}, {**PARAMS_2, "network": SCALE})
    exact = normal.as_prior()
    jax.tree.map(np.testing.assert_array_equal, (exact.mean, exact.scale), (MEAN, SCALE))


def test_draws_that_count_differently_make_a_prior_by_their_weights():
    draws = random_like(jax.tree.map(lambda leaf: np.zeros((1, 3, *leaf.shape)), PARAMS_2))
    weights = jnp.array([[0.5, 0.3, 0.2]])
    prior = Samples(MODEL, draws, Record((2,)), weights).as_prior()
    for name, layer in draws["network"].items():
        for part, leaf in layer.items():
            mean = np.average(leaf[0], axis=0, weights=weights[0])
            variance = np.average((leaf[0] - mean) ** 2, axis=0, weights=weights[0])
            np.testing.assert_allclose(prior.mean[name][part], mean)
            np.testing.assert_allclose(prior.scale[name][part], np.sqrt(variance))
            assert not np.allclose(leaf[0].mean(axis=0), mean)  # planted: all alike


def test_one_network_has_no_scale_of_its_own():
    posterior = credo.fit(MODEL, (X, Y), credo.MAP(num_steps=5))
    with pytest.raises(credo.CredoError, match=r"as_prior\(scale=0.1\)"):
        posterior.as_prior()


def test_a_prior_with_a_new_last_layer():
    """A number in the mean stands for an array: 0 for a layer that starts anew."""
    mean = {"dense0": MEAN["dense0"], "dense1": {"w": 0.0, "b": 0.0}}
    model = with_prior(NormalPrior(0.1, mean), likelihood=Normal(0.5, 4))
    params = model.init(jax.random.key(0), (2,))
    new = jax.tree.map(jnp.zeros_like, params["network"]["dense1"])
    centered = {**params, "network": {"dense0": MEAN["dense0"], "dense1": new}}
    target = Target(model, 30, (2,))
    assert target.log_prior(centered) > target.log_prior(params)
    credo.fit(model, (X, np.tile(Y[:, None], 4)), credo.MAP(num_steps=3))


@pytest.mark.parametrize(
    ("prior", "words"),
    [
        (NormalPrior(1.0, {"dense0": 0.0}), "structure"),
        (NormalPrior(1.0, jax.tree.map(lambda leaf: leaf[..., :1], MEAN)), r"shape .* where the"),
        (WeightPrior({"dense0": 1.0}), "structure"),
    ],
)
def test_a_mean_of_another_network_is_refused(prior, words):
    with pytest.raises(credo.CredoError, match=words):
        credo.fit(with_prior(prior), (X, Y), credo.MAP(num_steps=3))


def test_scales_of_weights_are_positive():
    with pytest.raises(credo.CredoError, match="positive"):
        WeightPrior(jax.tree.map(lambda leaf: 0 * leaf, SCALE))


@pytest.mark.parametrize(
    "network",
    [MLP(hidden=(3,)), Equinox(lambda key: eqx.nn.MLP(2, 1, 3, 1, key=key))],
    ids=["mlp", "equinox"],
)
@pytest.mark.parametrize("scale", [0.1, None])
def test_a_prior_with_means_is_saved_and_loaded(network, scale, tmp_path):
    model = credo.Model(network, Normal(0.5))
    trained = credo.fit(model, (X, Y), credo.Ensemble(credo.MAP(num_steps=5), size=3))
    tuned = credo.Model(network, Normal(0.5), trained.as_prior(scale))
    posterior = credo.fit(tuned, (X, Y), credo.MAP(num_steps=5))
    credo.save(posterior, tmp_path / "tuned")
    given = {} if isinstance(network, MLP) else {"network": network}
    loaded = credo.load(tmp_path / "tuned", **given)
    pair = [jax.tree.leaves(each.model.prior) for each in (posterior, loaded)]
    for first, second in zip(*pair, strict=True):
        np.testing.assert_array_equal(first, second)
    params = loaded.model.init(jax.random.key(0), (2,))
    batch = Batch(jnp.asarray(X), jnp.asarray(Y[:, None]))
    densities = [Target(m, 30, (2,)).log_joint(params, batch) for m in (tuned, loaded.model)]
    np.testing.assert_array_equal(*densities)


def test_means_reach_dropout_and_variational_methods():
    """A tight prior around trained weights keeps every method near them."""
    y = (Y > 0).astype(int)
    model = credo.Model(MLP(hidden=(3,)), Bernoulli(), NormalPrior(0.01, MEAN))
    steps = {"num_steps": 400, "learning_rate": 0.02}
    laplace = credo.Laplace("diagonal", layers="all", tune_prior=False, **steps)
    for method in (credo.BayesByBackprop(**steps), laplace):
        mean = credo.fit(model, (X, y), method).mean["network"]
        jax.tree.map(lambda m, c: np.testing.assert_allclose(m, c, atol=0.15), mean, MEAN)
