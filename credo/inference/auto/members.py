"""How the members of `auto` learn: each from the rows outside its fold, judged by those inside."""

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from credo.engine import Algorithm, Info, Plan, adamw, descend
from credo.inference.auto.folds import Folds
from credo.inference.dropout.unit_noise import input_site, row_noise
from credo.model import Batch, Target
from credo.networks import Noise, Params, TabularNetwork, no_noise, site_shapes
from credo.networks.noise import bernoulli

NUM_LOOKS = 50  # at its own fold, in a member's run
AVERAGE = 0.97  # memory of the running average of weights
PATIENCE = 2.5  # a member ends when it has gone on for so many times its best number of steps
LEAST_PATIENCE = 0.1  # ... and for this share of the steps
WARMUP = 0.05  # share of the steps in which the learning rate grows


class Member(NamedTuple):
    """What makes a member that member: data of one program."""

    fold: Array
    learning_rate: Array
    length: Array
    dropout: Array
    decay: Array
    switches: Any
    """Of a `TabularNetwork`; None for other networks."""


class MemberState(NamedTuple):
    """A member in training. Its weights are one vector: many small arrays compile slowly."""

    weights: Float[Array, " p"]
    memory: Any
    average: Float[Array, " p"]
    best: Float[Array, " p"]
    """The average that predicted the member's fold best."""
    best_loss: Array
    best_step: Array
    last_loss: Array
    step: Array
    key: Array
    """Of the order of rows, as numbers."""
    member: Member


@dataclass(frozen=True)
class Members(Algorithm):
    """AdamW with a running average of the weights, kept where it predicts the own fold best."""

    num_members: int
    num_steps: int
    batch_size: int

    def plan(self, num_rows: int) -> Plan:
        return Plan(
            num_steps=self.num_steps, num_warmup=self.num_steps, num_chains=self.num_members
        )

    def init(self, key: Array, folds: Folds, member: Member, batch: Any) -> MemberState:
        draw_key, row_key = jax.random.split(key)
        weights = _flat(_drawn(draw_key, folds.target, member))
        memory = adamw(0.0, 0.0).init(weights)
        worst = jnp.asarray(jnp.inf, weights.dtype)
        start = jnp.zeros((), jnp.int32)
        return MemberState(
            weights, memory, weights, weights, worst, start, worst, start,
            jax.random.key_data(row_key), member,
        )  # fmt: skip

    def step(
        self, key: Array, folds: Folds, state: MemberState, batch: Any
    ) -> tuple[MemberState, Info]:
        target, member = folds.target, state.member
        row_key = jax.random.wrap_key_data(state.key)
        batch = folds.batch(row_key, state.step, member.fold, self.batch_size)
        step = state.step + 1

        def loss(weights: Array) -> tuple[Array, Info]:
            params = params_of(target, state, weights)
            noise = _dropout(key, target, params, member.dropout)
            return -_mean_term(target, params, batch, noise), {}

        decays = member.decay * _is_matrix(target)
        rule = adamw(self._rate(member, step), decays)
        weights, memory, info = descend(rule, state.weights, state.memory, loss)
        memory_of_average = jnp.minimum(AVERAGE, step / (step + 5.0))
        average = memory_of_average * state.average + (1 - memory_of_average) * weights
        state = state._replace(weights=weights, memory=memory, average=average, step=step)
        every = max(self.num_steps // NUM_LOOKS, 1)
        state = jax.lax.cond(
            step % every == 0, functools.partial(_look, folds), lambda same: same, state
        )
        return state, info | {"validation_nll": state.last_loss}

    def is_finished(self, state: MemberState) -> Array:
        length = state.member.length * self.num_steps
        patience = PATIENCE * state.best_step + LEAST_PATIENCE * length
        return (state.step >= jnp.ceil(length)) | (state.step > patience)

    def divergence_hint(self) -> str:
        return "look for extreme values among the targets, or choose a method with a learning rate"

    def _rate(self, member: Member, step: Array) -> Array:
        """Grows, then falls to 0 as a cosine."""
        share = step / (member.length * self.num_steps)
        fall = jnp.clip((share - WARMUP) / (1 - WARMUP), 0.0, 1.0)
        rise = jnp.minimum(share / WARMUP, 1.0)
        return member.learning_rate * rise * 0.5 * (1 + jnp.cos(jnp.pi * fall))


def params_of(target: Target, state: MemberState, weights: Array) -> Params:
    """A member's parameters from its vector of weights, its switches among them."""
    shapes = _shapes(target)
    leaves, structure = jax.tree.flatten(shapes)
    parts, start = [], 0
    for leaf in leaves:
        parts.append(weights[start : start + leaf.size].reshape(leaf.shape).astype(leaf.dtype))
        start += leaf.size
    params = jax.tree.unflatten(structure, parts)
    if state.member.switches is None:
        return params
    network = {**params["network"], "switches": state.member.switches}
    return {**params, "network": network}


def _drawn(key: Array, target: Target, member: Member) -> Params:
    network = target.model.network
    if member.switches is None or not isinstance(network, TabularNetwork):
        return target.model.init(key, target.input_shape)
    outputs = target.model.likelihood.num_outputs
    used = jnp.sum(member.switches["inputs"])
    weights = network.draw(key, target.input_shape[0], outputs, used)
    return {"network": weights, "likelihood": target.model.likelihood.init()}


def _shapes(target: Target) -> Params:
    """Of all that is learned."""
    shapes = jax.eval_shape(lambda: target.model.init(jax.random.key(0), target.input_shape))
    network = shapes["network"]
    if isinstance(target.model.network, TabularNetwork):
        network = {name: part for name, part in network.items() if name != "switches"}
    return {**shapes, "network": network}


def _is_matrix(target: Target) -> Array:
    """1 for the weights of matrices, which decay, 0 for biases and scales."""
    leaves = jax.tree.leaves(_shapes(target))
    return jnp.concatenate([jnp.full(leaf.size, float(leaf.ndim > 1)) for leaf in leaves])


def _flat(params: Params) -> Array:
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(params)])


def _dropout(key: Array, target: Target, params: Params, rate: Array) -> Noise:
    """At the inputs of all layers but the first."""
    network = target.model.network
    sites = list(site_shapes(network, params["network"], target.input_shape))
    first = "dense0" if isinstance(network, TabularNetwork) else input_site(target)
    draw = {site: lambda k, shape: bernoulli(k, rate, shape) for site in sites if site != first}
    return row_noise(key, draw, False) if draw else no_noise


def _mean_term(target: Target, params: Params, batch: Batch, noise: Noise = no_noise) -> Array:
    """Mean log-likelihood of rows, by their weights."""
    terms = target.model.training_terms(params, batch, noise)
    return batch.total(terms) / jnp.maximum(batch.total(jnp.ones_like(terms)), 1e-12)


def _look(folds: Folds, state: MemberState) -> MemberState:
    """Keep the average of the weights where it predicts the member's fold best."""
    params = params_of(folds.target, state, state.average)
    own = folds.of_fold(state.member.fold)
    loss = -_mean_term(folds.target, params, own)
    loss = jnp.where(jnp.isfinite(loss), loss, jnp.inf).astype(state.best_loss.dtype)
    is_better = loss < state.best_loss
    return state._replace(
        best=jnp.where(is_better, state.average, state.best),
        best_loss=jnp.where(is_better, loss, state.best_loss),
        best_step=jnp.where(is_better, state.step, state.best_step),
        last_loss=loss,
    )
