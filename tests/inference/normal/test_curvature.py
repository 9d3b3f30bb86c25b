"""Curvature of the log likelihood, written out with NumPy and autodiff."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import special

import credo
from credo.inference.normal import curvature
from credo.inference.normal.laplace import _approximate
from credo.model import Batch, Target
from credo.networks import MLP, Functions
from credo.networks.layers import layer_factors
from tests.inference.normal.laplace_cases import (
    CLASSES,
    LENET,
    MODELS,
    RNG,
    X,
    batch_of,
    brute_force,
    covariance,
    network,
    recorded,
)

pytestmark = pytest.mark.usefixtures("float64", "quick_compilation")


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
    opaque = dataclasses.replace(model, network=Functions(None, model.network.apply))
    same, _ = curvature.dense(opaque, params, batch_of(X, y), kind, chosen[3:7])
    np.testing.assert_allclose(same, expected[3:7, 3:7], rtol=1e-9, atol=1e-10)


def test_gauss_newton_is_the_hessian_of_a_linear_model():
    model = credo.Model(MLP(hidden=()), credo.likelihoods.Categorical(3))
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


@pytest.mark.parametrize("prior", [credo.priors.NormalPrior(0.5), credo.priors.FanInPrior(2.0)])
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


@pytest.mark.parametrize("kind", ["ggn", "fisher"])
def test_curvature_of_convolutions_against_brute_force(kind):
    shape, labels = (10, 10, 1), CLASSES[:5]
    x = jnp.asarray(RNG.normal(size=(5, *shape)))
    model = credo.Model(LENET, credo.likelihoods.Categorical(3))
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


@pytest.mark.parametrize("outputs", [[0.3, -0.4, 1.0], [60.0, 0.0, -60.0], [-90.0, 0.0, 90.0]])
def test_classes_have_the_fisher_information_of_their_outputs(outputs):
    """diag(p) − p pᵀ from one column fewer than classes, also where a probability is 0 or 1."""
    root = credo.likelihoods.Categorical(3).fisher_root({}, jnp.array([outputs]))[0]
    probs = np.exp(np.array(outputs) - np.logaddexp.reduce(outputs))
    assert root.shape == (3, 2)
    np.testing.assert_allclose(root @ root.T, np.diag(probs) - np.outer(probs, probs), atol=1e-15)


def test_input_dependent_noise_has_the_fisher_information_of_its_outputs():
    """The expectation over y of ∇log p ∇log pᵀ, by quadrature."""
    likelihood = credo.likelihoods.Normal(scale="by_input")
    outputs = jnp.array([[0.3, -0.4]])
    root = likelihood.fisher_root({}, outputs)[0]
    mean, scale = (np.asarray(part)[0, 0] for part in likelihood.moments({}, outputs))
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    score = jax.grad(lambda f, y: likelihood.log_prob({}, f, y[None, None])[0])
    scores = np.array([score(outputs, jnp.asarray(mean + scale * node))[0] for node in nodes])
    expected = np.einsum("q,qi,qj->ij", weights / weights.sum(), scores, scores)
    np.testing.assert_allclose(root @ root.T, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [1, 64, 65, 130, 300])
def test_strips_make_the_whole_symmetric_sum(size):
    vectors = np.random.default_rng(size).normal(size=(3, 2, 5, size))
    strips = curvature._gram_strips(jnp.asarray(vectors))
    assert (len(strips) > 1) == (size > curvature.STRIP_WIDTH)
    expected = np.einsum("abci,abcj->ij", vectors, vectors)
    np.testing.assert_allclose(curvature._from_strips(strips), expected, rtol=1e-10, atol=1e-12)


def test_memory_of_a_kronecker_fit():
    """Beside data and network: at most three times what the result itself must hold."""
    model = credo.Model(MLP(hidden=(500, 500)), credo.likelihoods.Categorical(10))
    params = jax.eval_shape(lambda: model.init(jax.random.key(0), (784,)))
    rows = Batch(jax.ShapeDtypeStruct((10_000, 784), float), jax.ShapeDtypeStruct((10_000,), int))
    method = credo.Laplace("kron", "all", tune_prior=False)
    lowered = _approximate.lower(method, Target(model, 10_000, (784,)), params, rows)
    used = lowered.compile().memory_analysis()
    network = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(params))
    factors = (785**2 + 2 * 501**2 + 2 * 500**2 + 10**2) * jnp.zeros(()).dtype.itemsize
    assert used.temp_size_in_bytes + used.output_size_in_bytes < 3 * (network + factors)
    assert used.argument_size_in_bytes > 10_000 * 784 * 4  # the count is of bytes
