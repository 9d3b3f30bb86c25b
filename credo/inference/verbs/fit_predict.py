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

from credo.data.units import Units
from credo.engine import Info, Plan, initial
from credo.errors import CredoError
from credo.inference.method import Method
from credo.inference.registry import as_method, name_of
from credo.inference.sampling.convergence import ROWS
from credo.inference.sampling.sgld import Weighted
from credo.inference.verbs.fit import infer, prepared
from credo.keys import as_key
from credo.model import Batch, Model, Target
from credo.networks import Noise, Params, no_noise
from credo.networks.network import default_fan_in
from credo.posterior import Record, Samples
from credo.predictive import Predictive, check_rows, predict_stored


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
class KeepingOutputs(Method):
    """A sampler that keeps its outputs at the inputs of its start instead of its parameters."""

    method: Method
    model: Model

    def plan(self, num_rows: int) -> Plan:
        return self.method.plan(num_rows)

    def check(self, key: Array, target: Target, params: Any, data: Any) -> None:
        self.method.check(key, target, params.params, data)

    def init(self, key: Array, target: Target, params: Any, batch: Batch) -> WatchedState:
        return WatchedState(self.method.init(key, target, params.params, batch), params.x)

    def step(
        self, key: Array, target: Target, state: WatchedState, batch: Batch
    ) -> tuple[WatchedState, Info]:
        inner, info = self.method.step(key, target, state.inner, batch)
        return state._replace(inner=inner), info

    def is_finished(self, state: WatchedState) -> Array:
        return self.method.is_finished(state.inner)

    def synchronize(self, states: WatchedState) -> WatchedState:
        return states._replace(inner=self.method.synchronize(states.inner))

    def keep(self, state: WatchedState) -> Any:
        kept = self.method.keep(state.inner)
        params = kept.params if isinstance(kept, Weighted) else kept
        outputs = self.model.outputs(params, state.x)
        seen = {"network": outputs, "likelihood": params["likelihood"]}
        return Weighted(seen, kept.weight) if isinstance(kept, Weighted) else seen

    def posterior(self, target: Target, states: WatchedState, kept: Any) -> Samples:
        samples: Any = self.method.posterior(target, states.inner, kept)
        stored = Model(Stored(), self.model.likelihood, self.model.prior)
        return Samples(stored, samples.draws, weights=samples.weights)

    def warnings(
        self, target: Target, posterior: Samples, data: Batch, info: dict[str, np.ndarray]
    ) -> list[str]:
        """Those of the method; whether chains agree is judged by the outputs that are kept."""
        outputs = posterior.draws["network"][:, :, :ROWS]
        seen = replace(posterior, draws={**posterior.draws, "network": outputs})
        # `Stored` looks only at the number of its inputs, which must be that of its outputs.
        data = data._replace(x=jnp.zeros((outputs.shape[2], 1)))
        return self.method.warnings(target, seen, data, info)

    def divergence_hint(self) -> str:
        return self.method.divergence_hint()

    @property
    def held_out_fraction(self) -> float:
        return self.method.held_out_fraction


def fit_predict(
    model: Model,
    data: Any,
    x: np.ndarray | Array,
    method: Method | str,
    key: int | Array = 0,
    *,
    units: Units | None = None,
    temperature: float = 1.0,
    checkpoint: str | os.PathLike | None = None,
    progress: bool | None = None,
) -> Predictive:
    """Run a sampler and predict at `x`, storing outputs instead of weights.

    The same as `predict(fit(model, data, method, key), x)` with all draws, in less memory; the
    posterior itself is not there afterwards.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.default_model(3, credo.networks.MLP(hidden=(8,)))
        >>> sampler = credo.SGLD(num_samples=20, num_warmup=200, thin=10)
        >>> credo.fit_predict(model, data.train, data.test.x, sampler).probs.shape[1]
        3
    """
    chosen = as_method(method)
    units = units or Units()
    rows, source, target = prepared(model, data, chosen, key, units, temperature)
    plan = chosen.plan(source.num_rows)
    if plan.num_kept == 0:
        raise CredoError(
            f"{name_of(chosen)} keeps no draws along its run, so there is nothing to save here; "
            "use credo.fit and credo.predict"
        )
    record = Record(target.input_shape, units)
    inputs = jnp.asarray(check_rows(record, x), float)
    # The starts that the engine would have chosen, so that the run is the same.
    keys = [jax.random.fold_in(as_key(key), chain) for chain in range(plan.num_chains)]
    starts = [Start(initial(target, k, rows), jnp.copy(inputs)) for k in keys]
    posterior = infer(
        target, source, rows, KeepingOutputs(chosen, model), key, starts,
        facts={"input_shape": target.input_shape, "units": units}, checkpoint=checkpoint,
        progress=progress,
    )  # fmt: skip
    return predict_stored(posterior, inputs)
