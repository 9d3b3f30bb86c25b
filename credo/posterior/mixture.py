"""A posterior that mixes others in equal parts: an ensemble of Bayesian members."""

from dataclasses import dataclass, field, fields, replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from credo.errors import CredoError
from credo.model import Model
from credo.networks import Noise, Params
from credo.posterior.posterior import Posterior, checked, require, with_whole_prior
from credo.posterior.record import Record
from credo.posterior.samples import Samples
from credo.saving import Context
from credo.struct import same


@dataclass(frozen=True, repr=False)
class Mixture(Posterior):
    """(1/M) Σ_m q_m(θ), all q_m of one kind."""

    model: Model
    members: Any
    """One posterior without a model, whose arrays have a leading axis of M."""
    record: Record = field(default_factory=Record)

    def facts(self) -> dict[str, Any]:
        return {"members": f"{self.num_members} × {type(self.members).__name__}"}

    @property
    def num_members(self) -> int:
        return jax.tree.leaves(self.members)[0].shape[0]

    @property
    def is_linearized(self) -> bool:
        return self.members.is_linearized

    def member(self, index: int | slice | Array) -> Any:
        """One of the posteriors, which predicts alone as it does in the mixture."""
        one = jax.tree.map(lambda leaf: leaf[index], self.members)
        shape = self.record.input_shape or one.record.input_shape
        return replace(one, model=self.model, record=Record(shape, self.record.units))

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

    @classmethod
    def from_fields(cls, fields_: dict[str, Any], context: Context) -> Any:
        members, record = fields_["members"], fields_["record"]
        model = with_whole_prior(fields_["model"], record.input_shape)
        require(isinstance(members, Posterior), "its members are no posterior")
        require(not isinstance(members, Mixture), "its members are mixtures themselves")
        own = {each.name: getattr(members, each.name) for each in fields(members)}
        members = checked(type(members), own, model, record.input_shape, more_axes=1)
        made = cls(model, members, record)
        counts = {leaf.shape[:1] for leaf in jax.tree.leaves(members)}
        require(len(counts) == 1 and counts != {()}, "its members differ in number")
        template = jax.eval_shape(lambda: model.init(jax.random.key(0), record.input_shape))
        for index in range(made.num_members):
            made.member(index).validate(template)
        return made


def mix(posteriors: list[Any]) -> Any:
    """The mixture of posteriors (and of mixtures' members) in equal parts; of draws, all draws."""
    first = posteriors[0]
    kinds = {type(each) for each in posteriors}
    if len(kinds) > 1 or not all(same(each.model, first.model) for each in posteriors):
        raise CredoError("only posteriors of one kind and of the same model can be mixed")
    if isinstance(first, Samples):
        return _all_draws(posteriors)
    if isinstance(first, Mixture):
        joined = jax.tree.map(lambda *a: jnp.concatenate(a), *[each.members for each in posteriors])
        return replace(first, members=joined)
    bare = [replace(each, model=None) for each in posteriors]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *bare)
    return Mixture(first.model, stacked, first.record)


def _all_draws(posteriors: list[Samples]) -> Samples:
    draws = jax.tree.map(lambda *a: jnp.concatenate(a), *[each.draws for each in posteriors])
    weights = None
    if posteriors[0].weights is not None:
        chains = sum(each.num_chains for each in posteriors)
        parts = [each.num_chains / chains * each.weights for each in posteriors]  # type: ignore[operator]
        weights = jnp.concatenate(parts)
    return replace(posteriors[0], draws=draws, weights=weights)
