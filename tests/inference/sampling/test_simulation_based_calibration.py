"""Simulation-based calibration: ranks of the truth among posterior draws are uniform.

Reference: Talts et al., Validating Bayesian Inference Algorithms with Simulation-Based Calibration,
2018.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import credo
from credo.inference.density import Density
from credo.inference.sampling import hmc

pytestmark = [
    pytest.mark.usefixtures("float64"),
    pytest.mark.filterwarnings("ignore::credo.CredoWarning"),
]

DESIGN = np.random.default_rng(0).normal(size=(8, 2))
NUM_RUNS, NUM_DRAWS, BINS = 300, 19, 5


def log_density(w, y):
    """Logistic regression with prior N(0, 1), labels y ∈ {0, 1}."""
    logits = DESIGN @ w
    return jnp.sum(y * logits - jax.nn.softplus(logits)) - 0.5 * jnp.sum(w**2)


def ranks(method, prior_scale=1.0):
    """How many of NUM_DRAWS nearly independent draws lie below the truth, over NUM_RUNS worlds."""
    target = Density(log_density, takes_batch=True)
    thin, warmup = 6, 60

    def one(key):
        truth_key, label_key, chain_key = jax.random.split(key, 3)
        truth = prior_scale * jax.random.normal(truth_key, (2,))
        y = (jax.random.uniform(label_key, (8,)) < jax.nn.sigmoid(DESIGN @ truth)).astype(float)
        state = method.init(chain_key, target, {"position": jnp.zeros(2)}, y)

        def step(state, key):
            state = method.step(key, target, state, y)[0]
            return state, method.keep(state)["position"]

        count = warmup + NUM_DRAWS * thin
        _, path = jax.lax.scan(step, state, jax.random.split(chain_key, count))
        return jnp.sum(path[warmup + thin - 1 :: thin] < truth, axis=0)

    return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), NUM_RUNS)))


def p_values(found):
    """χ² tests of uniformity, one for each weight."""
    counts = [np.bincount(column * BINS // (NUM_DRAWS + 1), minlength=BINS) for column in found.T]
    return [stats.chisquare(count).pvalue for count in counts]


METHODS = {
    "hmc": credo.HMC(num_warmup=0, step_size=0.5, num_leapfrog=4),
    "nuts": credo.NUTS(num_warmup=0, step_size=0.5, max_doublings=3, mass="unit"),
    "mala": credo.MALA(num_warmup=0, step_size=0.4, climb_steps=0),
}


@pytest.mark.parametrize("name", METHODS)
def test_ranks_are_uniform(name):
    assert min(p_values(ranks(METHODS[name]))) > 1e-3


def test_a_wrong_prior_is_caught():
    assert min(p_values(ranks(METHODS["hmc"], prior_scale=2.0))) < 1e-6


def test_a_wrong_sampler_is_caught(monkeypatch):
    exact = hmc.normal_like
    monkeypatch.setattr(
        hmc, "normal_like", lambda k, p: jax.tree.map(lambda a: 0.6 * a, exact(k, p))
    )
    cold = dataclasses.replace(METHODS["hmc"], num_leapfrog=5)
    assert min(p_values(ranks(cold))) < 1e-6
