"""Predictions of a chain that is never stored: what it predicts is kept instead of its weights.

A hundred draws of a network with a million weights are 400 MB; their outputs at a thousand inputs
are 4 MB. Good for chains of large networks whose only use is to predict at known inputs.
"""

import os
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credo.errors import CredoError
from credo.inference.convergence import ROWS
from credo.inference.engine import check_data, infer, initial
from credo.inference.method import Info, Method, Plan
from credo.inference.registry import as_method, name_of
from credo.inference.sgld import Weighted
from credo.keys import as_key
from credo.model import Batch, Model, Target
from credo.networks import Noise, Params, no_noise
from credo.networks.network import default_fan_in
from credo.posterior import Samples
from credo.predictive import Predictive, check_inputs, summarize


class Start(NamedTuple):
    """Initial parameters, and the inputs that a chain carries along."""

    params: Params
    x: Array


class WatchedState(NamedTuple):
    """A method's state, and the inputs."""

    inner: Any
    x: Array


@dataclass(frozen=True)
class Stored:
    """A network whose parameters are its outputs at the watched inputs."""

    def init(self, key: Array, input_shape: tuple[int, ...], num_outputs: int) -> Params:
        return jnp.zeros((1, num_outputs))

    def apply(self, params: Params, x: Array, noise: Noise = no_noise) -> Array:
        return params

    def fan_in(self, shape: tuple[int, ...]) -> int:
        return default_fan_in(shape)


@dataclass(frozen=True)
class Watching:
    """A sampler that keeps its outputs at the inputs of its start instead of its parameters."""

    method: Any
    model: Model

    def plan(self, num_data: int) -> Plan:
        return self.method.plan(num_data)

    def init(self, key: Array, target: Target, params: Any, batch: Batch) -> WatchedState:
        return WatchedState(self.method.init(key, target, params.params, batch), params.x)

    def step(
        self, key: Array, target: Target, state: WatchedState, batch: Batch
    ) -> tuple[WatchedState, Info]:
        inner, info = self.method.step(key, target, state.inner, batch)
        return state._replace(inner=inner), info

    def meet(self, states: list[WatchedState]) -> list[WatchedState]:
        met = self.method.meet([state.inner for state in states])
        return [s._replace(inner=inner) for s, inner in zip(states, met, strict=True)]

    def keep(self, state: WatchedState) -> Any:
        kept = self.method.keep(state.inner)
        params = kept.params if isinstance(kept, Weighted) else kept
        outputs = self.model.outputs(params, state.x)
        seen = {"network": outputs, "likelihood": params["likelihood"]}
        return Weighted(seen, kept.weight) if isinstance(kept, Weighted) else seen

    def posterior(self, target: Target, states: list[WatchedState], kept: Any) -> Samples:
        samples = self.method.posterior(target, [state.inner for state in states], kept)
        stored = Model(Stored(), self.model.likelihood, self.model.prior)
        return Samples(stored, samples.draws, weights=samples.weights)

    def warnings(
        self, target: Target, posterior: Samples, batch: Batch, info: dict[str, np.ndarray]
    ) -> list[str]:
        """What the method says; whether chains agree is judged by the outputs that are watched."""
        outputs = posterior.draws["network"][:, :, :ROWS]
        seen = replace(posterior, draws={**posterior.draws, "network": outputs})
        # `Stored` looks only at the number of its inputs, which must be that of its outputs.
        batch = batch._replace(x=jnp.zeros((outputs.shape[2], 1)))
        return getattr(self.method, "warnings", lambda *_: [])(target, seen, batch, info)

    def remedy(self) -> str:
        return getattr(self.method, "remedy", lambda: "check the data and the settings")()


def fit_predict(
    model: Model,
    data: Any,
    x: np.ndarray | Array,
    method: Method | str,
    key: int | Array = 0,
    *,
    temperature: float = 1.0,
    checkpoint: str | os.PathLike | None = None,
    progress: bool | None = None,
) -> Predictive:
    """Run a sampler and predict at `x`, storing outputs instead of weights.

    The same as `predict(fit(model, data, method, key), x)` with all draws, in less memory; the
    posterior itself is not there afterwards.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.Model(credo.networks.MLP(hidden=(8,)), credo.Categorical(3))
        >>> sampler = credo.SGLD(num_samples=20, num_warmup=200, thin=10)
        >>> credo.fit_predict(model, data.train, data.test.x, sampler).probs.shape[1]
        3
    """
    chosen = as_method(method)
    batch = check_data(model, data)
    target = Target(model, len(batch.x), batch.x.shape[1:], temperature)
    x = jnp.asarray(check_inputs(x, target.input_shape), float)
    plan = chosen.plan(target.num_data)
    if plan.num_kept == 0:
        raise CredoError(
            f"{name_of(chosen)} keeps no draws along its run, so there is nothing to save here; "
            "use credo.fit and credo.predict"
        )
    # The starts that the engine would have chosen, so that the run is the same.
    keys = [jax.random.fold_in(as_key(key), chain) for chain in range(plan.num_chains)]
    starts = [Start(initial(target, chain_key), jnp.copy(x)) for chain_key in keys]
    watching = Watching(chosen, model)
    posterior = infer(
        target, batch, watching, key, starts, checkpoint=checkpoint, progress=progress
    )
    return summarize(posterior, x)
