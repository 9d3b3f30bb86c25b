"""Snapshots of descents are the networks that MAP passes."""

import jax
import numpy as np
import pytest

import credo
from credo.landscape import Trajectories
from credo.networks import MLP

pytestmark = pytest.mark.usefixtures("quick_compilation")

X = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 1)
MODEL = credo.Model(MLP(hidden=(4,)), credo.likelihoods.Categorical(3))


def weights(posterior, member, snapshot):
    return np.concatenate(
        [np.asarray(leaf[member, snapshot]).ravel() for leaf in jax.tree.leaves(posterior.draws)]
    )


def test_the_last_snapshot_is_where_the_descent_ends():
    descent = credo.MAP(num_steps=23, batch_size=8)
    found = credo.fit(MODEL, (X, Y), Trajectories(descent, 3, 4), key=5)
    assert jax.tree.leaves(found.draws)[0].shape[:2] == (3, 4)
    end = weights(credo.fit(MODEL, (X, Y), descent, key=5), 0, 0)
    np.testing.assert_array_equal(weights(found, 0, -1), end)
    others = [weights(found, 0, 2), weights(found, 1, -1), weights(found, 2, -1)]
    assert all(np.abs(other - end).max() > 1e-4 for other in others)


def test_more_snapshots_than_steps():
    found = credo.fit(MODEL, (X, Y), Trajectories(credo.MAP(num_steps=5), 1, 20))
    assert jax.tree.leaves(found.draws)[0].shape[:2] == (1, 5)


def test_counts_are_checked():
    with pytest.raises(credo.CredoError, match="num_members"):
        Trajectories(num_members=0)
    with pytest.raises(credo.CredoError, match="stops early"):
        Trajectories(credo.MAP(validation_fraction=0.2))
