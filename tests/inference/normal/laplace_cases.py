"""Data, models and brute force that the tests of Laplace approximations share."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy import stats

import credo
from credo.likelihoods import Bernoulli, Categorical, Normal
from credo.model import Batch
from credo.networks import MLP, LeNet
from credo.predictive.linearized import output_moments
from credo.priors import NormalPrior

RNG = np.random.default_rng(4)
X = RNG.normal(size=(23, 2))
DESIGN = np.column_stack([np.ones(23), X])  # parameters in the order of the pytree: b, then w
NOISE, PRIOR = 0.7, 0.6
Y = DESIGN @ [0.4, 1.0, -0.5] + NOISE * RNG.normal(size=23)
LABELS = (DESIGN @ [0.2, 1.5, -1.0] + RNG.logistic(size=23) > 0).astype(int)
CLASSES = (LABELS + (X[:, 1] > 0.5)).astype(int)
LINEAR = credo.Model(MLP(hidden=()), Normal(NOISE), NormalPrior(PRIOR))
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
    "categorical": (credo.Model(MLP((4,), "tanh"), Categorical(3)), CLASSES),
    "bernoulli": (credo.Model(MLP((4,), "tanh"), Bernoulli()), LABELS),
    "normal": (
        credo.Model(MLP((4,), "tanh"), Normal(NOISE, 2)),
        np.column_stack([Y, -Y]),
    ),
    "learned": (
        credo.Model(MLP((4,), "tanh"), Normal(scale="learned")),
        Y[:, None],
    ),
}
LENET = LeNet((2, 3), (4,), 3)
