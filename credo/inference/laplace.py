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

import functools
import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from credo.errors import CredoError, CredoWarning
from credo.inference import optimize
from credo.inference.curvature import NOISE_POWERS, Curvature, of_likelihood
from credo.inference.evidence import LIMIT, Evidence, maximize
from credo.inference.method import COUNT, Info, Plan, check_fields
from credo.inference.optimize import Descent, Optimizer, Schedule
from credo.inference.spectra import STRUCTURES, Spectrum
from credo.model import Batch, Model, NormalLearntScale, Target
from credo.networks import Params, no_noise
from credo.networks.layers import has_layers
from credo.networks.prior_function import Free, PriorFunction
from credo.posterior import Posterior, Record, Samples
from credo.posterior.samples import one_network

Structure = Literal["kron", "full", "diagonal", "subnetwork"]
Layers = Literal["last", "all"]


@dataclass(frozen=True)
class Laplace:
    """A normal around the mode, by the curvature there.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.Model(credo.networks.MLP(hidden=(16,)), credo.Categorical(3))
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
    """Whether prior scales, and a learnt noise, are multiplied by what maximises the evidence."""
    linearized: bool = True
    """Whether draws are of the linearised network, or weights of the network itself."""
    learning_rate: float = 1e-3
    """Step size of the optimiser."""
    num_steps: int = 4000
    """Gradient steps."""
    num_epochs: float | None = None
    """Passes over the data; where given, replaces num_steps."""
    batch_size: int = 128
    """Rows per step."""
    optimizer: Optimizer = "adam"
    """adam, sgd or momentum."""
    schedule: Schedule = "cosine"
    """How the learning rate changes: constant, or cosine decay to zero."""

    def __post_init__(self) -> None:
        optimize.check_descent(self)
        check_fields(self, num_weights=COUNT)

    def plan(self, num_data: int) -> Plan:
        return optimize.plan_descent(self, num_data)

    def init(self, key: Array, target: Target, params: Params, batch: Batch) -> Descent:
        check_network(self, target.model)
        return optimize.start(self, target.num_data, params)

    def step(
        self, key: Array, target: Target, state: Descent, batch: Batch
    ) -> tuple[Descent, Info]:
        return optimize.descend(self, target, state, batch, no_noise)

    def keep(self, state: Descent) -> None:
        return None

    def posterior(self, target: Target, states: list[Descent], kept: None) -> Samples:
        return one_network(target.model, states[0].params, Record(target.input_shape))

    def finish(self, target: Target, posterior: Samples, data: Batch) -> Posterior:
        params = jax.tree.map(lambda leaf: leaf[0, 0], posterior.draws)
        return approximate(self, target, params, data)

    def remedy(self) -> str:
        return optimize.remedy(self)


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
    return replace(posterior, record=replace(posterior.record, history=history))


@jax.jit
def _is_finite(tree: Any) -> Array:
    return jnp.all(jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]))


@functools.partial(jax.jit, static_argnames=("method", "target"))
def _approximate(method: Laplace, target: Target, params: Params, data: Batch) -> Any:
    model, own = target.model, params["likelihood"]
    spectrum: Spectrum = STRUCTURES[method.structure](method, model, params, data)
    power = NOISE_POWERS[method.curvature]
    evidence = Evidence(
        spectrum.log_likelihood,
        spectrum.squared_norm,
        spectrum.eigenvalues,
        ravel_pytree(own)[0],
        ravel_pytree(of_likelihood(model, params, data, "ggn"))[0],
        data.y.size if isinstance(model.likelihood, NormalLearntScale) else 0.0,
        power,
    )
    logs = maximize(evidence) if method.tune_prior else jnp.zeros(2)
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
    return replace(posterior, linearized=method.linearized), found  # type: ignore[arg-type]
