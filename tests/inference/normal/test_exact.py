"""The exact posterior of linear models, against formulas written out with NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import stats

import credo
from credo.errors import CredoError
from credo.inference.normal import exact
from credo.inference.normal.exact import Exact, LinearPosterior
from credo.likelihoods import Normal
from credo.model import Batch, Target
from credo.networks import MLP, Functions
from credo.priors import NormalPrior

pytestmark = pytest.mark.usefixtures("float64", "quick_compilation")

RNG = np.random.default_rng(4)
X = RNG.normal(size=(15, 2))
DESIGN = np.column_stack([np.ones(15), X])  # parameters in the order of the pytree: b, then w
NOISE, PRIOR = 0.7, 0.6
Y = DESIGN @ [0.4, 1.0, -0.5] + NOISE * RNG.normal(size=15)
COVARIANCE = np.linalg.inv(DESIGN.T @ DESIGN / NOISE**2 + np.eye(3) / PRIOR**2)
MEAN = COVARIANCE @ DESIGN.T @ Y / NOISE**2
EVIDENCE = stats.multivariate_normal(
    np.zeros(15), NOISE**2 * np.eye(15) + PRIOR**2 * DESIGN @ DESIGN.T
).logpdf(Y)
MODEL = credo.Model(MLP(hidden=()), Normal(NOISE), NormalPrior(PRIOR))


def test_posterior_and_evidence():
    posterior = credo.fit(MODEL, (X, Y), credo.Exact())
    layer = posterior.mean["network"]["dense0"]
    np.testing.assert_allclose([*layer["b"], *layer["w"][:, 0]], MEAN, rtol=1e-10)
    factor = np.asarray(posterior.factor)
    np.testing.assert_allclose(factor @ factor.T, COVARIANCE, rtol=1e-10)
    np.testing.assert_allclose(posterior.record.history["log_evidence"], EVIDENCE, rtol=1e-10)


def test_a_temperature_scales_the_covariance():
    cold = credo.fit(MODEL, (X, Y), credo.Exact(), temperature=0.25)
    factor = np.asarray(cold.factor)
    np.testing.assert_allclose(factor @ factor.T, COVARIANCE / 4, rtol=1e-10)


def test_predictions_come_from_the_posterior():
    posterior = credo.fit(MODEL, (X, Y), "exact")
    predicted = credo.predict(posterior, X[:4], num_draws=20_000, key=1)
    mean, variance = (
        DESIGN[:4] @ MEAN,
        np.einsum("ni,ij,nj->n", *[DESIGN[:4], COVARIANCE, DESIGN[:4]]),
    )
    error = np.sqrt(variance / 20_000)
    assert np.all(np.abs(predicted.mean - mean) < 4 * error)
    np.testing.assert_allclose(predicted.epistemic_variance, variance, rtol=4 * (2 / 20_000) ** 0.5)


def test_several_targets_and_basis_functions():
    """Two outputs that share no parameter are two regressions."""
    network = Functions(
        lambda key: jnp.ones((3, 2)),
        lambda params, x: jnp.column_stack([jnp.ones(len(x)), jnp.sin(x)]) @ params + 1.0,
    )
    model = credo.Model(network, Normal(NOISE, 2), NormalPrior(PRIOR))
    values = np.column_stack([Y, -2 * Y])
    posterior = credo.fit(model, (X, values), credo.Exact())
    design = np.column_stack([np.ones(15), np.sin(X)])
    precision = design.T @ design / NOISE**2 + np.eye(3) / PRIOR**2
    expected = np.linalg.solve(precision, design.T @ (values - 1.0) / NOISE**2)
    np.testing.assert_allclose(posterior.mean["network"], expected, rtol=1e-9)


def test_one_update_after_another_is_one_update():
    prior = LinearPosterior.prior(jnp.full(3, PRIOR))
    first = prior.update(DESIGN[:6], Y[:6], NOISE)
    both = first.update(DESIGN[6:], Y[6:], NOISE)
    np.testing.assert_allclose(both.mean, MEAN, rtol=1e-10)
    np.testing.assert_allclose(both.precision, np.linalg.inv(COVARIANCE), rtol=1e-10)
    evidence = prior.log_evidence(DESIGN[:6], Y[:6], NOISE)
    evidence += first.log_evidence(DESIGN[6:], Y[6:], NOISE)
    np.testing.assert_allclose(evidence, EVIDENCE, rtol=1e-10)
    mean, variance = both.predict(DESIGN[:2], NOISE)
    np.testing.assert_allclose(mean, DESIGN[:2] @ MEAN, rtol=1e-10)
    expected = NOISE**2 + np.einsum("ni,ij,nj->n", DESIGN[:2], COVARIANCE, DESIGN[:2])
    np.testing.assert_allclose(variance, expected, rtol=1e-10)
    # planted: the evidence after the update instead of before
    assert not np.isclose(both.log_evidence(DESIGN, Y, NOISE), EVIDENCE, rtol=0.01)


@pytest.mark.parametrize("temperature", [1.0, 0.25])
def test_an_update_with_new_rows_is_a_fit_to_all(temperature, tmp_path):
    first = credo.fit(MODEL, (X[:6], Y[:6]), credo.Exact(), temperature=temperature)
    credo.save(first, tmp_path / "first.safetensors")
    both = credo.update(credo.load(tmp_path / "first.safetensors"), (X[6:], Y[6:]))
    layer = both.mean["network"]["dense0"]
    np.testing.assert_allclose([*layer["b"], *layer["w"][:, 0]], MEAN, rtol=1e-10)
    factor = np.asarray(both.factor)
    np.testing.assert_allclose(factor @ factor.T, temperature * COVARIANCE, rtol=1e-10)
    np.testing.assert_allclose(both.record.history["log_evidence"], EVIDENCE, rtol=1e-10)
    # planted: rows that are counted twice
    again = np.asarray(credo.update(both, (X[6:], Y[6:])).factor)
    assert not np.allclose(again @ again.T, temperature * COVARIANCE, rtol=0.05)


def test_the_evidence_is_the_elbo_of_the_exact_posterior():
    """log p(D) = E_q[log p(D, θ)] + H[q]; the log joint is quadratic, so its Hessian is enough."""
    posterior = credo.fit(MODEL, (X, Y), credo.Exact())
    target = Target(MODEL, len(X), (2,))
    batch = Batch(jnp.asarray(X), jnp.asarray(Y))
    center, unravel = ravel_pytree(posterior.mean)
    log_joint = jax.jit(lambda flat: target.log_joint(unravel(flat), batch))
    height, hessian = float(log_joint(center)), np.asarray(jax.hessian(log_joint)(center))

    def elbo(covariance):
        entropy = 0.5 * np.linalg.slogdet(2 * np.pi * np.e * covariance)[1]
        return height + 0.5 * np.trace(hessian @ covariance) + entropy

    covariance = np.asarray(posterior.factor @ posterior.factor.T)
    evidence = posterior.record.history["log_evidence"][0, 0]
    np.testing.assert_allclose(elbo(covariance), evidence, rtol=1e-10)
    # planted: a posterior that is a little too wide, or without its correlations, has a lower ELBO
    assert elbo(1.1 * covariance) < evidence - 1e-3
    assert elbo(np.diag(np.diag(covariance))) < evidence - 1e-3


def test_what_cannot_work_is_refused_before_the_work(monkeypatch):
    """A million parameters: the matrix alone would be 8 TB."""
    monkeypatch.setattr(Exact, "init", None)  # nothing may get that far
    large = credo.Model(MLP(hidden=(1000, 1000)), Normal(1.0))
    with pytest.raises(CredoError, match=r"linear in its parameters.*use MLP"):
        credo.fit(large, (X, Y), credo.Exact())
    wide = credo.Model(MLP(hidden=()), Normal(1.0))
    with pytest.raises(CredoError, match=r"20,001 × 20,001.*at most 10,000 parameters"):
        credo.fit(wide, (np.ones((2, 20_000)), np.ones(2)), credo.Exact())


def test_rows_that_do_not_fit_at_once_can_come_in_parts(monkeypatch):
    monkeypatch.setattr(exact, "LARGEST", 90)  # 4 · 3² + 2 · 9 · 3 numbers
    with pytest.raises(CredoError, match=r"15 targets × 3 parameters.*credo.update"):
        credo.fit(MODEL, (X, Y), credo.Exact())
    part = credo.fit(MODEL, (X[:9], Y[:9]), credo.Exact())
    with pytest.raises(CredoError, match="10 targets"):
        credo.update(part, (X[:10], Y[:10]))
    assert credo.update(part, (X[9:], Y[9:])).record.history["log_evidence"].shape == (1, 1)
