"""Draws that are equal disagree about nothing: exactly, in single precision, for every law."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.model import NormalMixture
from credo.posterior import Record, Samples

ALL_LIKELIHOODS = [
    credo.likelihoods.Categorical(7),
    credo.likelihoods.Bernoulli(),
    credo.likelihoods.Ordinal(4),
    credo.likelihoods.Normal(),
    credo.likelihoods.Normal("by_input"),
    credo.likelihoods.Normal(0.3, 2),
    NormalMixture(),
    credo.likelihoods.StudentT(),
    credo.likelihoods.MultivariateNormal(2),
    credo.likelihoods.Poisson(),
    credo.likelihoods.NegativeBinomial(),
    credo.likelihoods.BernoulliArray((2, 2)),
]


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("likelihood", ALL_LIKELIHOODS, ids=lambda each: type(each).__name__)
def test_equal_draws_have_no_mutual_information_to_the_bit(likelihood, is_weighted):
    """Rounding noise would rank inputs: an AUROC of .45 for a point estimate was seen."""
    model = credo.Model(credo.networks.MLP((5,)), likelihood)
    params = model.init(jax.random.key(1), (3,))
    draws = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (2, 3, *leaf.shape)), params)
    weights = jnp.asarray([[0.05, 0.3, 0.15], [0.2, 0.1, 0.2]]) if is_weighted else None
    posterior = Samples(model, draws, Record((3,)), weights)
    x = np.random.default_rng(0).normal(size=(101, 3))
    for num_draws in (1, 4, 100):
        information = credo.predict(posterior, x, num_draws).mutual_information
        np.testing.assert_array_equal(information, 0.0)
