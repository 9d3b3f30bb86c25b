"""Laplace against exact posteriors, grids and curvature written out with NumPy and autodiff."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import optimize, special, stats

import credo
from credo.inference import curvature
from credo.inference.laplace import Laplace, _approximate
from credo.linearized import output_moments
from credo.model import Batch, Target
from credo.networks import MLP, Functions, LeNet, PriorFunction
from credo.networks.layers import layer_factors

pytestmark = pytest.mark.usefixtures("float64", "quick_compilation")

RNG = np.random.default_rng(4)
X = RNG.normal(size=(23, 2))
DESIGN = np.column_stack([np.ones(23), X])  # parameters in the order of the pytree: b, then w
NOISE, PRIOR = 0.7, 0.6
Y = DESIGN @ [0.4, 1.0, -0.5] + NOISE * RNG.normal(size=23)
LABELS = (DESIGN @ [0.2, 1.5, -1.0] + RNG.logistic(size=23) > 0).astype(int)
CLASSES = (LABELS + (X[:, 1] > 0.5)).astype(int)
LINEAR = credo.Model(MLP(hidden=()), credo.Normal(NOISE), credo.NormalPrior(PRIOR))
STRUCTURES = ("kron", "full", "diagonal", "subnetwork")


def linear_params(weights, likelihood=None):
    """The parameters of MLP(hidden=()) from (bias, weights...), one column per output."""
    weights = jnp.asarray(weights).reshape(3, -1)
    layer = {"b": weights[0], "w": weights[1:]}
    return {"network": {"dense0": layer}, "likelihood": likelihood or {}}


def ridge(prior=PRIOR, noise=NOISE):
    """Precision and mean of Bayesian linear regression."""
    precision = DESIGN.T @ DESIGN / noise**2 + np.eye(3) / prior**2
    return precision, np.linalg.solve(precision, DESIGN.T @ Y / noise**2)


def exact_evidence(prior, noise):
    covariance = noise**2 * np.eye(len(Y)) + prior**2 * DESIGN @ DESIGN.T
    return stats.multivariate_normal(np.zeros(len(Y)), covariance).logpdf(Y)


def recorded(posterior, name="log_evidence"):
    return float(posterior.record.history[name][0, 0])


def covariance(posterior, num=None):
    """The covariance of the network's flattened weights, from the posterior's own maps."""
    flat, _ = ravel_pytree(posterior.mean["network"])
    if hasattr(posterior, "std"):
        return np.diag(np.asarray(ravel_pytree(posterior.std["network"])[0]) ** 2)
    if hasattr(posterior, "factor"):
        own = ravel_pytree(posterior.mean["likelihood"])[0].size
        whole = np.zeros((own + flat.size, own + flat.size))
        whole[np.ix_(posterior.chosen, posterior.chosen)] = posterior.factor @ posterior.factor.T
        return whole[own:, own:]
    blocks = []
    for name in sorted(posterior.mean["network"]):
        a, g, s = (
            np.asarray(part[name])
            for part in (posterior.inputs, posterior.outputs, posterior.spread)
        )
        root = np.einsum("fi,oj,ij->foij", a, g, s).reshape(len(a) * len(g), -1)
        order = np.roll(
            np.arange(len(root)), len(g)
        )  # the bias is the last row, but first in the tree
        blocks.append((root @ root.T)[np.ix_(order, order)])
    return np.asarray(jax.scipy.linalg.block_diag(*blocks))


def noise_std(posterior):
    """The standard deviations of the likelihood's own parameters, which come first."""
    if hasattr(posterior, "likelihood_std"):
        return np.asarray(posterior.likelihood_std)
    if hasattr(posterior, "std"):
        return np.asarray(ravel_pytree(posterior.std["likelihood"])[0])
    own = ravel_pytree(posterior.mean["likelihood"])[0].size
    return np.abs(np.diag(posterior.factor)[:own])


def network(model, seed=0, shape=(2,)):
    """A network with weights that are no mode of anything: curvature is defined anywhere."""
    params = model.init(jax.random.key(seed), shape)
    flat, unravel = ravel_pytree(params)
    return unravel(flat + 0.3 * jax.random.normal(jax.random.key(seed + 1), flat.shape))


def batch_of(x, y):
    return Batch(jnp.asarray(x), jnp.asarray(y), jnp.arange(len(x)))


def brute_force(model, params, x, y, kind):
    """Σ_n of Jᵀ F J, or of outer products of gradients, by autodiff of one datum at a time."""
    flat, unravel = ravel_pytree(params["network"])

    def outputs(w, row):
        return model.outputs({**params, "network": unravel(w)}, row[None])[0]

    def loss(f, label):
        return -model.likelihood.log_prob(params["likelihood"], f[None], label[None])[0]

    def of_row(row, label):
        jacobian, f = jax.jacobian(outputs)(flat, row), outputs(flat, row)
        if kind == "ggn":
            return jacobian.T @ jax.hessian(loss)(f, label) @ jacobian
        gradient = jacobian.T @ jax.grad(loss)(f, label)
        return jnp.outer(gradient, gradient)

    return np.asarray(jax.jit(jax.vmap(of_row))(jnp.asarray(x), jnp.asarray(y)).sum(0))


moments = jax.jit(output_moments)


MODELS = {
    "categorical": (credo.Model(MLP((4,), "tanh"), credo.Categorical(3)), CLASSES),
    "bernoulli": (credo.Model(MLP((4,), "tanh"), credo.Bernoulli()), LABELS),
    "normal": (credo.Model(MLP((4,), "tanh"), credo.Normal(NOISE, 2)), np.column_stack([Y, -Y])),
    "learnt": (credo.Model(MLP((4,), "tanh"), credo.NormalLearntScale()), Y[:, None]),
}


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
    model = credo.Model(MLP((10,)), credo.Normal(1e-3))
    params = model.init(jax.random.key(0), (1,))
    x = X[:, :1]
    posterior = credo.laplace((model, params), (x, Y), structure, layers="all", tune_prior=False)
    assert posterior.factor.dtype == np.float32 and np.isfinite(posterior.factor).all()
    assert np.isfinite(recorded(posterior))
    spread = credo.linearized_predict(posterior, x).epistemic_variance
    assert np.all(spread < (10 * 1e-3) ** 2)  # at the data, about the noise


def test_what_is_not_finite_is_said():
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


@pytest.mark.parametrize("kind", ["ggn", "fisher"])
@pytest.mark.parametrize("name", MODELS)
def test_curvature_against_brute_force(name, kind, monkeypatch):
    model, y = MODELS[name]
    params = network(model)
    expected = brute_force(model, params, X, y, kind)
    chosen = np.arange(len(expected))
    monkeypatch.setattr(curvature, "LAYER_ROWS", 5)  # 23 rows: the last chunk overlaps
    monkeypatch.setattr(curvature, "CHUNK_NUMBERS", 5 * 3 * len(expected))
    full, log_likelihood = curvature.dense(model, params, batch_of(X, y), kind, chosen)
    np.testing.assert_allclose(full, expected, rtol=1e-9, atol=1e-10)
    terms = model.log_likelihood(params, batch_of(X, y))
    np.testing.assert_allclose(log_likelihood, terms.sum(), rtol=1e-9)
    diagonal, log_likelihood = curvature.diagonal(model, params, batch_of(X, y), kind)
    np.testing.assert_allclose(log_likelihood, terms.sum(), rtol=1e-9)
    np.testing.assert_allclose(ravel_pytree(diagonal)[0], np.diag(expected), rtol=1e-9)
    head = expected[12:, 12:]  # the second layer, after 2 × 4 weights and 4 biases
    of_head = np.arange(len(head)), ("dense1",)
    last, log_likelihood = curvature.dense(model, params, batch_of(X, y), kind, *of_head)
    np.testing.assert_allclose(log_likelihood, terms.sum(), rtol=1e-9)
    np.testing.assert_allclose(last, head, rtol=1e-9, atol=1e-10)
    foreign = dataclasses.replace(model, network=Functions(None, model.network.apply))
    same, _ = curvature.dense(foreign, params, batch_of(X, y), kind, chosen[3:7])
    np.testing.assert_allclose(same, expected[3:7, 3:7], rtol=1e-9, atol=1e-10)


def test_gauss_newton_is_the_hessian_of_a_linear_model():
    model = credo.Model(MLP(hidden=()), credo.Categorical(3))
    params = network(model)
    flat, unravel = ravel_pytree(params["network"])
    data = batch_of(X, CLASSES)

    def loss(w):
        return -model.log_likelihood({**params, "network": unravel(w)}, data).sum()

    found, _ = curvature.dense(model, params, data, "ggn", np.arange(flat.size))
    np.testing.assert_allclose(found, jax.jit(jax.hessian(loss))(flat), rtol=1e-9, atol=1e-10)
    fisher, _ = curvature.dense(model, params, data, "fisher", np.arange(flat.size))
    assert not np.allclose(fisher, found, rtol=0.1)


@pytest.mark.parametrize("kind", ["ggn", "fisher"])
def test_kronecker_factors_are_their_definition(kind):
    """A = mean of a aᵀ, G = sum of g gᵀ, from activations and gradients found one row at a time."""
    model, y = MODELS["categorical"]
    params = network(model)
    layers = params["network"]
    inputs, gradients = {"dense0": [], "dense1": []}, {"dense0": [], "dense1": []}
    for row, label in zip(X, y, strict=True):
        hidden = np.tanh(row @ layers["dense0"]["w"] + layers["dense0"]["b"])
        probs = special.softmax(hidden @ layers["dense1"]["w"] + layers["dense1"]["b"])
        inputs["dense0"].append(np.append(row, 1))
        inputs["dense1"].append(np.append(hidden, 1))
        for c, weight in enumerate(probs) if kind == "ggn" else [(label, 1.0)]:
            score = np.sqrt(weight) * (np.eye(3)[c] - probs)
            gradients["dense1"].append(score)
            gradients["dense0"].append((1 - hidden**2) * (layers["dense1"]["w"] @ score))
    found, log_likelihood = curvature.kronecker(model, params, batch_of(X, y), kind, tuple(layers))
    expected = model.log_likelihood(params, batch_of(X, y)).sum()
    np.testing.assert_allclose(log_likelihood, expected, rtol=1e-9)
    for name in layers:
        a, g = np.array(inputs[name]), np.array(gradients[name])
        np.testing.assert_allclose(found[name].inputs, a.T @ a / len(X), rtol=1e-10)
        np.testing.assert_allclose(found[name].outputs, g.T @ g, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("prior", [credo.NormalPrior(0.5), credo.FanInPrior(2.0)])
def test_kronecker_covariance_is_the_inverse(prior):
    """(A ⊗ G + 1/s²)⁻¹ written out, with different scales for weights and biases."""
    model = dataclasses.replace(MODELS["categorical"][0], prior=prior)
    params = network(model)
    posterior = credo.laplace((model, params), (X, CLASSES), layers="all", tune_prior=False)
    names = ("dense0", "dense1")
    factors, _ = curvature.kronecker(model, params, batch_of(X, CLASSES), "ggn", names)
    scales = model.prior_scales(params)["network"]
    blocks, transposed, log_determinant = [], [], 0.0
    for name in ("dense0", "dense1"):
        a, g = np.roll(factors[name].inputs, 1, (0, 1)), np.asarray(factors[name].outputs)
        s = np.repeat([scales[name]["b"]] + (len(a) - 1) * [scales[name]["w"]], len(g))
        precision = np.kron(a, g) + np.diag(s**-2.0)
        blocks.append(np.linalg.inv(precision))
        transposed.append(np.linalg.inv(np.kron(g, a) + np.diag(s**-2.0)))
        log_determinant += np.linalg.slogdet(s[:, None] * precision * s)[1]
    expected = np.asarray(jax.scipy.linalg.block_diag(*blocks))
    np.testing.assert_allclose(covariance(posterior), expected, rtol=1e-8, atol=1e-12)
    planted = np.asarray(jax.scipy.linalg.block_diag(*transposed))
    assert not np.allclose(covariance(posterior), planted, rtol=0.1)
    weights = jax.tree.map(lambda w, s: jnp.sum((w / s) ** 2), params["network"], scales)
    fit = model.log_likelihood(params, batch_of(X, CLASSES)).sum()
    evidence = fit - 0.5 * sum(jax.tree.leaves(weights)) - 0.5 * log_determinant
    np.testing.assert_allclose(recorded(posterior), evidence, rtol=1e-10)


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


@pytest.fixture(scope="module")
def logistic(float64):
    """2-d logistic regression: the mode by Newton's steps, the truth on a grid."""
    model = credo.Model(
        Functions(lambda key: jnp.zeros(2), lambda w, x: (x @ w)[:, None]),
        credo.Bernoulli(),
        credo.NormalPrior(1.5),
    )
    sign = 2 * LABELS - 1

    def log_joint(w):  # over leading axes of w
        prior = stats.norm(0, 1.5).logpdf(w).sum(-1)
        return special.log_expit(sign * (w @ X.T)).sum(-1) + prior

    mode = optimize.minimize(lambda w: -log_joint(w), np.zeros(2), tol=1e-12).x
    axes = [np.linspace(m - 6, m + 6, 400) for m in mode]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    log_weights = log_joint(grid)
    evidence = special.logsumexp(log_weights) + 2 * np.log(12 / 399)
    weights = special.softmax(log_weights)
    return model, mode, grid, weights, evidence


def test_logistic_regression_against_the_grid(logistic):
    """Laplace is as good as the posterior is normal: each figure within a few per cent of truth."""
    model, mode, grid, weights, evidence = logistic
    posterior = credo.laplace(
        (model, jnp.asarray(mode)), (X, LABELS), "full", layers="all", tune_prior=False
    )
    p = special.expit(X @ mode)
    hessian = X.T @ (X * (p * (1 - p))[:, None]) + np.eye(2) / 1.5**2
    np.testing.assert_allclose(covariance(posterior), np.linalg.inv(hessian), rtol=1e-8)
    center = weights @ grid
    truth = np.einsum("n,ni,nj->ij", weights, grid - center, grid - center)
    std, true_std = np.sqrt(np.diag(covariance(posterior))), np.sqrt(np.diag(truth))
    assert np.all(np.abs(mode - center) < 0.35 * true_std)
    np.testing.assert_allclose(std, true_std, rtol=0.15)
    assert abs(recorded(posterior) - evidence) < 0.1
    inputs = 1.5 * RNG.normal(size=(50, 2))
    predicted = weights @ special.expit(grid @ inputs.T)
    for predictive in (credo.probit_predict, credo.linearized_predict, credo.predict):
        probs = predictive(posterior, inputs).probs[:, 1]
        assert np.abs(probs - predicted).max() < 0.06
    # planted: a covariance that forgot the prior, or that saw every datum twice
    for wrong in (hessian - np.eye(2) / 1.5**2, 2 * hessian):
        off = np.sqrt(np.diag(np.linalg.inv(wrong)))
        assert not np.allclose(off, true_std, rtol=0.15)


def test_far_away_the_bayesian_stays_uncertain(logistic):
    """Along a ray the mode's probability goes to 0 or 1, that of the posterior to P(wᵀx > 0)."""
    model, mode, grid, weights, _ = logistic
    posterior = credo.laplace(
        (model, jnp.asarray(mode)), (X, LABELS), "full", layers="all", tune_prior=False
    )
    direction = np.array([[0.3, 1.0]])
    limit = stats.norm.cdf(
        (direction @ mode)[0] / np.sqrt((direction @ covariance(posterior) @ direction.T)[0, 0])
    )
    far = credo.probit_predict(posterior, 1e6 * direction).probs[0, 1]
    drawn = credo.predict(posterior, 1e6 * direction, num_draws=4000).probs[0, 1]
    truth = weights @ (grid @ direction[0] > 0)
    assert abs(drawn - limit) < 4 * np.sqrt(limit * (1 - limit) / 4000)
    assert abs(far - limit) < 0.02 and abs(limit - truth) < 0.06 and 0.02 < limit < 0.98


def test_probit_against_quadrature():
    """σ(m/√(1 + πv/8)) is within 0.02 of the integral; without π/8 it is not."""
    model = credo.Model(MLP(hidden=()), credo.Bernoulli())
    posterior = credo.laplace((model, network(model)), (X, LABELS), tune_prior=False)
    inputs = jnp.asarray(2 * RNG.normal(size=(40, 2)))
    mean, variance = (np.asarray(part).reshape(-1) for part in moments(posterior, inputs))
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    exact = special.expit(mean[:, None] + np.sqrt(variance)[:, None] * nodes) @ weights
    exact /= weights.sum()
    assert np.abs(credo.probit_predict(posterior, inputs).probs[:, 1] - exact).max() < 0.02
    assert (
        np.abs(credo.linearized_predict(posterior, inputs, 2000).probs[:, 1] - exact).max() < 0.02
    )
    assert np.abs(special.expit(mean / np.sqrt(1 + variance)) - exact).max() > 0.02


def test_probit_of_three_classes_against_monte_carlo():
    """Centred logits: 0.03 from the sampled predictive on average, and blind to a common shift."""
    model = credo.Model(MLP(hidden=()), credo.Categorical(3))
    params = network(model)
    posterior = credo.laplace((model, params), (X, CLASSES), "full", layers="all", tune_prior=False)
    inputs = jnp.asarray(2 * RNG.normal(size=(40, 2)))
    found = credo.probit_predict(posterior, inputs).probs
    truth = credo.linearized_predict(posterior, inputs, 20_000).probs
    assert np.abs(found - truth).mean() < 0.03
    mean, covariance = moments(posterior, inputs)
    planted = np.asarray(mean) / np.sqrt(1 + 100 * np.diagonal(covariance, axis1=1, axis2=2))
    assert np.abs(special.softmax(planted, axis=1) - truth).mean() > 0.1
    shift = {"b": params["network"]["dense0"]["b"] + 3.0, "w": params["network"]["dense0"]["w"]}
    moved = {**posterior.mean, "network": {"dense0": shift}}
    same = credo.probit_predict(dataclasses.replace(posterior, mean=moved), inputs).probs
    np.testing.assert_allclose(same, found, rtol=1e-9)


LENET = LeNet((2, 3), (4,), 3)


@pytest.mark.parametrize("kind", ["ggn", "fisher"])
def test_curvature_of_convolutions_against_brute_force(kind):
    shape, labels = (10, 10, 1), CLASSES[:5]
    x = jnp.asarray(RNG.normal(size=(5, *shape)))
    model = credo.Model(LENET, credo.Categorical(3))
    params = network(model, shape=shape)
    expected = np.asarray(brute_force(model, params, x, labels, kind))
    diagonal, _ = curvature.diagonal(model, params, batch_of(x, labels), kind)
    np.testing.assert_allclose(ravel_pytree(diagonal)[0], np.diag(expected), rtol=1e-7, atol=1e-12)
    factors, _ = curvature.kronecker(model, params, batch_of(x, labels), kind, ("conv0",))
    root = curvature._root(model, params, batch_of(x, labels), jnp.ones(5), kind)
    inputs, gradients = layer_factors(LENET, params["network"], x, root)["conv0"]
    seen = np.asarray(inputs).reshape(-1, inputs.shape[-1])
    pulled = np.asarray(gradients).reshape(-1, gradients.shape[-1])
    np.testing.assert_allclose(factors["conv0"].inputs, seen.T @ seen / len(seen), rtol=1e-9)
    np.testing.assert_allclose(factors["conv0"].outputs, pulled.T @ pulled, rtol=1e-9, atol=1e-14)
    # A ⊗ G has about the trace of the exact block; seven times as much would be a fault.
    trace = np.trace(factors["conv0"].inputs) * np.trace(factors["conv0"].outputs)
    biases_and_kernel = sum(leaf.size for leaf in params["network"]["conv0"].values())
    assert 0.3 < trace / np.trace(expected[:biases_and_kernel, :biases_and_kernel]) < 3


def test_a_prior_that_runs_away_is_said():
    model, y = MODELS["categorical"]
    params = network(model)
    head = jax.tree.map(jnp.zeros_like, params["network"]["dense1"])
    nothing = {**params, "network": {**params["network"], "dense1": head}}
    with pytest.warns(credo.CredoWarning, match="prior_multiplier went to its limit"):
        credo.laplace((model, nothing), (X, y))


def test_what_a_trained_network_knew_is_kept():
    model, y = MODELS["categorical"]
    method = credo.MAP(num_steps=5)
    trained = credo.fit(model, (X, y), method, temperature=0.25, extra={"classes": ["a", "b", "c"]})
    found = credo.laplace(trained, (X, y))
    assert found.record.temperature == 0.25 and found.record.extra == trained.record.extra
    every = {"structure": "full", "layers": "all", "tune_prior": False}
    hot = credo.laplace(trained, (X, y), temperature=1.0, **every)
    cold = credo.laplace(trained, (X, y), **every)
    np.testing.assert_allclose(covariance(cold), 0.25 * covariance(hot), rtol=1e-8)


NETWORKS = [*((s, MLP((4,), "tanh")) for s in STRUCTURES), ("kron", LENET), ("diagonal", LENET)]


@pytest.mark.parametrize(("structure", "net"), NETWORKS)
def test_output_covariances_are_those_of_the_jacobian(structure, net):
    """Layer by layer, without the Jacobian, the same as with it."""
    shape = (2,) if isinstance(net, MLP) else (10, 10, 1)
    x = RNG.normal(size=(7, *shape))
    model = credo.Model(net, credo.Categorical(3))
    params = network(model, shape=shape)
    posterior = credo.laplace((model, params), (x, CLASSES[:7]), structure, layers="all")
    flat, unravel = ravel_pytree(params["network"])

    def outputs(w):
        return model.outputs({**params, "network": unravel(w)}, jnp.asarray(x))

    jacobian = np.asarray(jax.jit(jax.jacobian(outputs))(flat))
    expected = np.einsum("nki,ij,nlj->nkl", jacobian, covariance(posterior), jacobian)
    mean, found = moments(posterior, jnp.asarray(x))
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(mean, outputs(flat), rtol=1e-10)


def test_convolutions_have_the_factors_of_their_gradients():
    """Σ_t a_t g_tᵀ is the gradient of the kernel."""
    net, x = LENET, jnp.asarray(RNG.normal(size=(2, 10, 10, 1)))
    params = net.init(jax.random.key(0), (10, 10, 1), 2)

    def each(outputs):
        return jnp.broadcast_to(jnp.eye(2), (len(outputs), 2, 2))

    found = jax.jit(lambda p: layer_factors(net, p, x, each))(params)
    jacobian = jax.jit(jax.jacobian(lambda p: net.apply(p, x)))(params)
    for name, (inputs, gradients) in found.items():
        product = jnp.einsum("nti,nktj->nkij", inputs, gradients)
        kernel = jacobian[name]["w"].reshape(2, 2, -1, product.shape[-1])
        np.testing.assert_allclose(product[:, :, :-1], kernel, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(product[:, :, -1], jacobian[name]["b"], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_draws_are_linearised_functions_with_the_right_spread(structure):
    model, y = MODELS["normal"]
    posterior = credo.laplace((model, network(model)), (X, y), structure, layers="all")
    drawn = credo.predict(posterior, X, num_draws=4000, key=3)
    closed = credo.linearized_predict(posterior, X)
    error = np.sqrt(closed.epistemic_variance / 4000)
    assert np.all(np.abs(drawn.mean - closed.mean) < 4.5 * error)
    np.testing.assert_allclose(
        drawn.epistemic_variance, closed.epistemic_variance, rtol=4.5 * (2 / 4000) ** 0.5
    )
    # planted: weights put into the network itself have another mean
    raw = credo.predict(dataclasses.replace(posterior, linearized=False), X, 4000, key=3)
    assert not np.all(np.abs(raw.mean - closed.mean) < 4.5 * error)


def test_the_linearised_predictive_of_a_linear_model_is_exact():
    precision, mean = ridge()
    posterior = credo.laplace((LINEAR, linear_params(mean)), (X, Y), tune_prior=False)
    predicted = credo.linearized_predict(posterior, X)
    spread = np.einsum("ni,ij,nj->n", DESIGN, np.linalg.inv(precision), DESIGN)
    np.testing.assert_allclose(predicted.mean, DESIGN @ mean, rtol=1e-9)
    np.testing.assert_allclose(predicted.epistemic_variance, spread, rtol=1e-9)
    np.testing.assert_allclose(predicted.aleatoric_variance, NOISE**2, rtol=1e-9)


def test_the_tuned_prior_is_the_argmax_of_the_exact_evidence():
    """The weights are held while the scale is tuned: there both agree, elsewhere it moves there."""
    best = np.exp(optimize.minimize_scalar(lambda s: -exact_evidence(np.exp(s), NOISE), (-2, 2)).x)

    def multiplier(scale):
        model = dataclasses.replace(LINEAR, prior=credo.NormalPrior(float(scale)))
        trained = model, linear_params(ridge(prior=scale)[1])
        return recorded(credo.laplace(trained, (X, Y), "full"), "prior_multiplier")

    np.testing.assert_allclose(multiplier(best), 1.0, atol=1e-5)
    assert multiplier(0.5 * best) > 1.2 and multiplier(2 * best) < 0.98


@pytest.mark.parametrize("kind", ["ggn", "fisher"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_tuning_finds_the_largest_evidence(structure, kind):
    """Over multiples of the prior scales and of a learnt noise, by fits at other scales."""
    model, y = MODELS["learnt"]
    params = network(model)
    chosen = {"layers": "all", "num_weights": 9, "curvature": kind}
    found = credo.laplace((model, params), (X, y), structure, **chosen)
    prior, noise = (recorded(found, f"{name}_multiplier") for name in ("prior", "noise"))
    log_scale = params["likelihood"]["log_scale"]
    np.testing.assert_allclose(found.mean["likelihood"]["log_scale"], log_scale + np.log(noise))

    def fit_at(prior, noise):
        other = dataclasses.replace(model, prior=credo.NormalPrior(float(prior)))
        shifted = {**params, "likelihood": {"log_scale": log_scale + np.log(noise)}}
        return credo.laplace((other, shifted), (X, y), structure, **chosen, tune_prior=False)

    def evidence(prior, noise):
        return recorded(fit_at(prior, noise))

    if structure != "subnetwork":  # whose weights are chosen anew at another scale
        again = fit_at(prior, noise)
        np.testing.assert_allclose(recorded(found), recorded(again), rtol=1e-8)
        np.testing.assert_allclose(covariance(found), covariance(again), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(noise_std(found), noise_std(again), rtol=1e-8)
        for factor in (0.95, 1.05):
            assert evidence(prior, noise * factor) < recorded(found)
            assert structure == "kron" or evidence(prior * factor, noise) < recorded(found)


@pytest.mark.parametrize("kind", ["ggn", "fisher"])
def test_a_noise_far_off_is_tuned_to_the_same_spread(kind):
    """From σ = 1 to the true 0.1: tuned once as wide as found anew at the tuned noise."""
    model = credo.Model(MLP(hidden=()), credo.NormalLearntScale())
    weights = [0.4, 1.0, -0.5]
    y = DESIGN @ weights + 0.1 * RNG.normal(size=len(X))
    params = linear_params(weights, {"log_scale": jnp.zeros(1)})
    chosen = {"structure": "diagonal", "layers": "all", "curvature": kind}
    found = credo.laplace((model, params), (X, y), **chosen)
    tuned = {**params, "likelihood": found.mean["likelihood"]}
    other = credo.NormalPrior(recorded(found, "prior_multiplier"))
    anew = credo.laplace(
        (dataclasses.replace(model, prior=other), tuned), (X, y), **chosen, tune_prior=False
    )
    assert recorded(found, "noise_multiplier") < 0.2
    np.testing.assert_allclose(ravel_pytree(found.std)[0], ravel_pytree(anew.std)[0], rtol=1e-8)


def test_a_learnt_noise_has_its_own_uncertainty():
    model, y = MODELS["learnt"]
    params = network(model)
    for kind, information in (("ggn", 2 * len(X)), ("fisher", None)):
        if information is None:
            scale = np.exp(params["likelihood"]["log_scale"])
            residual = (y - model.outputs(params, jnp.asarray(X))) / scale
            information = np.sum((residual**2 - 1) ** 2)
        std = credo.laplace(
            (model, params), (X, y), curvature=kind, tune_prior=False
        ).likelihood_std
        np.testing.assert_allclose(std, (1 + information) ** -0.5, rtol=1e-10)


@pytest.mark.parametrize("outputs", [[0.3, -0.4, 1.0], [60.0, 0.0, -60.0], [-90.0, 0.0, 90.0]])
def test_classes_have_the_fisher_information_of_their_outputs(outputs):
    """diag(p) − p pᵀ from one column fewer than classes, also where a probability is 0 or 1."""
    root = credo.Categorical(3).fisher_root({}, jnp.array([outputs]))[0]
    probs = np.exp(np.array(outputs) - np.logaddexp.reduce(outputs))
    assert root.shape == (3, 2)
    np.testing.assert_allclose(root @ root.T, np.diag(probs) - np.outer(probs, probs), atol=1e-15)


def test_input_dependent_noise_has_the_fisher_information_of_its_outputs():
    """The expectation over y of ∇log p ∇log pᵀ, by quadrature."""
    likelihood = credo.NormalInputScale()
    outputs = jnp.array([[0.3, -0.4]])
    root = likelihood.fisher_root({}, outputs)[0]
    mean, scale = (np.asarray(part)[0, 0] for part in likelihood.moments({}, outputs))
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    score = jax.grad(lambda f, y: likelihood.log_prob({}, f, y[None, None])[0])
    scores = np.array([score(outputs, jnp.asarray(mean + scale * node))[0] for node in nodes])
    expected = np.einsum("q,qi,qj->ij", weights / weights.sum(), scores, scores)
    np.testing.assert_allclose(root @ root.T, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_files_hold_every_structure(structure, tmp_path):
    model, y = MODELS["learnt"]
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
    foreign = dataclasses.replace(
        model, network=Functions(None, lambda p, x: jnp.tanh(x @ p[0]) @ p[1])
    )
    trained = foreign, [np.ones((2, 4), np.float32), RNG.normal(size=(4, 3)).astype(np.float32)]
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
            Laplace(**options).init(None, credo.Target(foreign, 3), trained[1], None)


@pytest.mark.filterwarnings("ignore::credo.CredoWarning")
def test_what_cannot_be_done_is_said():
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
def test_what_is_not_a_trained_network_is_said(name):
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
    model, y = MODELS["learnt"]
    params = network(model)
    with pytest.raises(credo.CredoError, match=r"NormalLearntScale has parameters \['log_scale'\]"):
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


def test_memory_of_a_kronecker_fit():
    """Beside data and network: at most three times what the result itself must hold."""
    model = credo.Model(MLP(hidden=(500, 500)), credo.Categorical(10))
    params = jax.eval_shape(lambda: model.init(jax.random.key(0), (784,)))
    rows = Batch(jax.ShapeDtypeStruct((10_000, 784), float), jax.ShapeDtypeStruct((10_000,), int))
    method = credo.Laplace("kron", "all", tune_prior=False)
    lowered = _approximate.lower(method, Target(model, 10_000, (784,)), params, rows)
    used = lowered.compile().memory_analysis()
    network = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(params))
    factors = (785**2 + 2 * 501**2 + 2 * 500**2 + 10**2) * jnp.zeros(()).dtype.itemsize
    assert used.temp_size_in_bytes + used.output_size_in_bytes < 3 * (network + factors)
    assert used.argument_size_in_bytes > 10_000 * 784 * 4  # the count is of bytes
