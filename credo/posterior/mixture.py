"""A posterior that mixes others in equal parts: an ensemble of Bayesian members."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from credo.errors import CredoError
from credo.model import Model
from credo.networks import Noise, Params
from credo.posterior.record import Record, in_short
from credo.posterior.samples import Samples


@dataclass(frozen=True, repr=False)
class Mixture:
    """(1/M) Σ_m q_m(θ), all q_m of one kind."""

    model: Model
    members: Any
    """One posterior whose arrays have a leading axis of M."""
    record: Record = Record(())  # noqa: RUF009

    def __repr__(self) -> str:
        return in_short(self, members=f"{self.num_members} × {type(self.members).__name__}")

    @property
    def num_members(self) -> int:
        return jax.tree.leaves(self.members)[0].shape[0]

    @property
    def num_draws(self) -> None:
        """Draws are made anew each time: there is no fixed number of them."""
        return None

    def member(self, index: int | slice | Array) -> Any:
        """One of the posteriors, with the input shape, without which it could not predict alone."""
        one = jax.tree.map(lambda leaf: leaf[index], self.members)
        return replace(one, record=Record(self.record.input_shape or one.record.input_shape))

    def sample(self, key: Array, num_draws: int) -> tuple[Array, Any]:
        """Which member and its own draw; members take turns, so each has its share."""
        # A random order, lest fewer draws than members be always of the same ones.
        order_key, key = jax.random.split(key)
        turns = jax.random.permutation(order_key, self.num_members)
        chosen = turns[jnp.arange(num_draws) % self.num_members]

        def one(index: Array, key: Array) -> Any:
            return jax.tree.map(lambda leaf: leaf[0], self.member(index).sample(key, 1))

        return chosen, jax.vmap(one)(chosen, jax.random.split(key, num_draws))

    def realize(self, draw: tuple[Array, Any]) -> tuple[Params, Noise]:
        index, own = draw
        return self.member(index).realize(own)


def mix(posteriors: list[Any]) -> Any:
    """The mixture of posteriors (and of mixtures' members) in equal parts; of draws, all draws."""
    first = posteriors[0]
    if any(type(each) is not type(first) or each.model != first.model for each in posteriors):
        raise CredoError("only posteriors of one kind and of the same model can be mixed")
    if isinstance(first, Samples):
        return _all_draws(posteriors)
    if isinstance(first, Mixture):
        joined = jax.tree.map(lambda *a: jnp.concatenate(a), *[each.members for each in posteriors])
        return replace(first, members=joined)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *posteriors)
    return Mixture(first.model, stacked, first.record)


def _all_draws(posteriors: list[Samples]) -> Samples:
    draws = jax.tree.map(lambda *a: jnp.concatenate(a), *[each.draws for each in posteriors])
    weights = None
    if posteriors[0].weights is not None:
        chains = sum(each.num_chains for each in posteriors)
        parts = [each.num_chains / chains * each.weights for each in posteriors]  # type: ignore[operator]
        weights = jnp.concatenate(parts)
    return replace(posteriors[0], draws=draws, weights=weights)


def _flatten(posterior: Mixture):
    return (posterior.members,), posterior.model


def _unflatten(model: Model, children) -> Mixture:
    return Mixture(model, *children)


jax.tree_util.register_pytree_node(Mixture, _flatten, _unflatten)
