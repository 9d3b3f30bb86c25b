"""Every method of the family learns with dense, convolutional and foreign networks."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credo
from credo.networks import MLP, Equinox, LeNet

pytestmark = pytest.mark.usefixtures("quick_compilation")

SHORT = {"num_steps": 60, "batch_size": 20, "learning_rate": 0.01}
METHODS = {
    "dropout": credo.Dropout(channelwise=True, **SHORT),
    "gaussian-dropout": credo.GaussianDropout(**SHORT),
    "concrete-dropout": credo.ConcreteDropout(**SHORT),
    "variational-dropout": credo.VariationalDropout(per="weight", kl_weight=0.1, **SHORT),
    "bayes-by-backprop": credo.BayesByBackprop(initial_std=0.02, **SHORT),
    "flipout": credo.BayesByBackprop(estimator="flipout", initial_std=0.02, **SHORT),
    "mixture": credo.BayesByBackprop(prior="mixture", kl_warmup=1.0, **SHORT),
}
NETWORKS = {
    "dense": MLP(hidden=(10,)),
    "convolutional": LeNet(channels=(4, 6), hidden=(8,), kernel=3),
}
# Images of three classes: the third of the rows that is bright.
Y = np.arange(60) % 3
X = np.random.default_rng(0).normal(size=(60, 14, 14, 1)).astype(np.float32)
X += (np.arange(14)[None, :, None, None] // 5 == Y[:, None, None, None]).astype(np.float32)


def learns(posterior):
    """The loss of the data falls."""
    values = posterior.record.history["nll"][0]
    assert np.isfinite(values).all()
    smooth = np.convolve(values, np.ones(10) / 10, "valid")
    return smooth.min() < 0.8 * smooth[0]


def spread(posterior):
    """How much the draws disagree, in nats."""
    return credo.predict(posterior, X, num_draws=20).mutual_information.mean()


@pytest.mark.parametrize(
    ("network", "method"),
    [("convolutional", name) for name in METHODS if name != "mixture"]
    + [("dense", name) for name in METHODS if name not in ("flipout", "bayes-by-backprop")],
)
def test_it_learns_and_its_draws_differ(network, method):
    model = credo.Model(NETWORKS[network], credo.likelihoods.Categorical(3))
    posterior = credo.fit(model, (X, Y), METHODS[method])
    assert learns(posterior) and spread(posterior) > 1e-4


def test_without_noise_draws_agree():
    model = credo.Model(NETWORKS["dense"], credo.likelihoods.Categorical(3))
    silent = credo.fit(model, (X, Y), credo.Dropout(rate=0.0, **SHORT))
    assert spread(silent) < 1e-6  # so the check above can fail


class Convolution(eqx.Module):
    """As others write it: channels first, one row at a time."""

    conv: eqx.nn.Conv2d
    out: eqx.nn.Linear

    def __init__(self, key):
        first, second = jax.random.split(key)
        self.conv = eqx.nn.Conv2d(1, 4, 3, stride=2, key=first)
        self.out = eqx.nn.Linear(4 * 6 * 6, 3, key=second)

    def __call__(self, row):
        return self.out(jax.nn.relu(self.conv(jnp.moveaxis(row, -1, 0))).ravel())


@pytest.mark.parametrize("method", ["variational-dropout", "flipout"])
def test_a_network_nobody_here_wrote_gets_its_weights_sampled(method):
    model = credo.Model(Equinox(Convolution), credo.likelihoods.Categorical(3))
    posterior = credo.fit(model, (X, Y), METHODS[method])
    assert learns(posterior) and spread(posterior) > 1e-4
    assert jax.tree.structure(posterior.mean) == jax.tree.structure(posterior.std)
