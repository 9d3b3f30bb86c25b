"""Laplace: a normal around the mode, as wide as the log joint is curved there.

    p(θ | D) ≈ N(θ*, T (H + diag(1/s²))⁻¹),     H ≈ −∇² log p(D | θ*)

at temperature T, with the prior's scales s. H is the generalised Gauss–Newton matrix or the
empirical Fisher, whole, diagonal, Kronecker-factored by layers, or whole over a few weights: those
whose variance under the diagonal is largest. All weights are uncertain, or those of the last layer
alone; the others are held at their mode. The likelihood's own parameters (log σ) are a block of
their own, with a diagonal.

A draw is by default a draw of the *linearised* network f(x; θ*) + J(x) (θ − θ*): the model for
which the Gauss–Newton matrix is the Hessian. The same weights in the network itself underfit.

References: MacKay, A Practical Bayesian Framework for Backpropagation Networks, 1992; Ritter, Botev
& Barber, A Scalable Laplace Approximation for Neural Networks, ICLR 2018; Immer, Korzepa & Bauer,
Improving Predictions of Bayesian Neural Nets via Local Linearization, AISTATS 2021; Daxberger et
al., Bayesian Deep Learning via Subnetwork Inference, ICML 2021, and Laplace Redux, NeurIPS 2021.
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from credo.caching import jit
from credo.errors import CredoError, CredoWarning
from credo.fields import COUNT, check_fields
from credo.inference.arrival import mode_warnings
from credo.inference.method import DescentMethod
from credo.inference.normal.curvature import NOISE_POWERS, Curvature, of_likelihood
from credo.inference.normal.evidence import LIMIT, Evidence, maximize
from credo.inference.normal.spectra import STRUCTURES, Spectrum
from credo.model import Batch, Model, Normal, Target
from credo.networks import Params
from credo.networks.layers import has_layers
from credo.networks.prior_function import Free, PriorFunction
from credo.posterior import Posterior, Samples, replace_record
from credo.posterior.samples import one_network

Structure = Literal["kron", "full", "diagonal", "subnetwork"]
Layers = Literal["last", "all"]


@dataclass(frozen=True)
class Laplace(DescentMethod):
    """A normal around the mode, by the curvature there.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.default_model(3, credo.networks.MLP(hidden=(16,)))
        >>> posterior = credo.fit(model, data.train, credo.Laplace(num_steps=200))
        >>> credo.probit_predict(posterior, data.test.x).probs.shape[1]
        3
    """

    structure: Structure = "kron"
    """kron (by layers), full, diagonal, or subnetwork (full over num_weights weights)."""
    layers: Layers = "last"
    """Which layers are uncertain: the last, or all."""
    curvature: Curvature = "ggn"
    """ggn (generalised Gauss-Newton) or fisher (empirical, at the labels seen)."""
    num_weights: int = 100
    """Weights of the subnetwork, those of largest variance."""
    tune_prior: bool = True
    """Whether prior scales, and a learned noise, are multiplied by what maximises the evidence."""
    linearized: bool = True
    """Whether draws are of the linearised network, or weights of the network itself."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self, num_weights=COUNT)

    def check(self, key: Array, target: Target, params: Params, data: Any) -> None:
        check_network(self, target.model)

    def posterior_of(self, target: Target, learned: Params) -> Samples:
        return one_network(target.model, learned)

    def finish(self, target: Target, posterior: Samples, data: Batch) -> Posterior:
        params = jax.tree.map(lambda leaf: leaf[0, 0], posterior.draws)
        for message in mode_warnings("laplace", self, target, params, data):
            warnings.warn(message, CredoWarning, stacklevel=2)
        return approximate(self, target, params, data)


def check_network(method: Laplace, model: Model) -> None:
    """Raise where weights are fixed, or where layers are needed and the network shows none."""
    if isinstance(model.network, PriorFunction | Free):
        raise CredoError(
            "laplace would make the fixed weights of a prior function uncertain too; use a network "
            "without credo.networks.PriorFunction, or the spread of credo.Ensemble('map', "
            "prior_function=…)"
        )
    wanted = {
        "structure='kron'": method.structure == "kron",
        "layers='last'": method.layers != "all",
    }
    if any(wanted.values()) and not has_layers(model.network):
        named = next(name for name, is_wanted in wanted.items() if is_wanted)
        raise CredoError(
            f"laplace: {named} needs to see the layers of the network, which "
            f"{type(model.network).__name__} does not show (MLP and LeNet do); use "
            "layers='all' with structure='full', 'diagonal' or 'subnetwork'"
        )


def approximate(method: Laplace, target: Target, params: Params, data: Batch) -> Posterior:
    """The Laplace approximation around `params`, with the evidence in its record's history."""
    posterior, found = _approximate(method, target, params, data)
    if not _is_finite(posterior):
        raise CredoError(
            "laplace: the posterior has entries that are not finite: the weights it was given are "
            "not, or the curvature is too large for the working precision; check that training "
            "converged, use a larger noise scale or fewer weights, or double precision "
            "(jax.config.update('jax_enable_x64', True))"
        )
    for name in ("prior_multiplier", "noise_multiplier"):
        if method.tune_prior and abs(2 * np.log(found[name])) > 0.99 * LIMIT:
            warnings.warn(
                f"laplace: the evidence has no maximum: {name} went to its limit, "
                f"{float(found[name]):.1e}, where the posterior means little; check that training "
                "converged, or use tune_prior=False",
                CredoWarning,
                stacklevel=3,
            )
    history = {name: np.asarray(value).reshape(1, 1) for name, value in found.items()}
    # A compiled program gives back the model's numbers as arrays.
    posterior = replace(posterior, model=target.model)
    return replace_record(posterior, input_shape=target.input_shape, history=history)


@jit
def _is_finite(tree: Any) -> Array:
    return jnp.all(jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]))


@jit
def _approximate(method: Laplace, target: Target, params: Params, data: Batch) -> Any:
    model, own = target.model, params["likelihood"]
    spectrum: Spectrum = STRUCTURES[method.structure](method, target, params, data)
    power = NOISE_POWERS[method.curvature]
    # A common multiplier of a learned normal noise is tuned too.
    learns_noise = isinstance(model.likelihood, Normal) and set(own) == {"log_scale"}
    num_targets = data.y[0].size
    evidence = Evidence(
        spectrum.log_likelihood,
        spectrum.squared_norm,
        spectrum.eigenvalues,
        ravel_pytree(own)[0],
        ravel_pytree(of_likelihood(model, params, data, "ggn"))[0],
        data.total(jnp.ones(len(data.x))) * num_targets if learns_noise else 0.0,
        power,
        learns_noise,
    )
    # The evidence of a part counts the other weights as known: where these learned the rows by
    # heart, their residuals look like data without noise. A noise may then only grow.
    is_whole = spectrum.eigenvalues.size == ravel_pytree(params["network"])[0].size
    bound = -LIMIT if is_whole else 0.0
    logs = maximize(evidence, bound) if method.tune_prior else jnp.zeros(2)
    prior, noise = logs[0], logs[1]
    mean = {"network": params["network"], "likelihood": jax.tree.map(lambda a: a + noise / 2, own)}
    # At the tuned noise: the empirical curvature of log σ is no power of it.
    own_curvature = ravel_pytree(of_likelihood(model, mean, data, method.curvature))[0]
    own_std = (target.temperature / (1 + own_curvature)) ** 0.5

    def stretch(eigenvalues: Array) -> Array:
        precision = jnp.exp(-prior) + jnp.exp(-power * noise) * eigenvalues
        return (target.temperature / precision) ** 0.5

    found = {
        "log_evidence": evidence.at(logs),
        "prior_multiplier": jnp.exp(prior / 2),
        "noise_multiplier": jnp.exp(noise / 2),
    }
    posterior = spectrum.build(mean, own_std, stretch)
    return replace(posterior, linearized=method.linearized), found  # type: ignore[type-var]
