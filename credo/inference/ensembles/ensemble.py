"""Deep ensembles: the same method from several starts, averaged.

    p(y | x, D) ≈ (1/M) Σ_m p(y | x, q_m),     q_m = what member m has learned

Members differ by their initialisation and the order of their batches. Members that are points make
a deep ensemble, Bayesian members a mixture of posteriors around several modes (`Ensemble(SGLD())`,
`Ensemble("dropout")`, multi-SWAG).

Anchored members minimise −log p(y + σξ | θ) + ½‖(θ − θ⁰)/s‖² with ξ ~ N(0, I) and θ⁰ from the
prior: for a linear model with normal noise they are exact posterior draws.

References: Lakshminarayanan, Pritzel & Blundell, Simple and Scalable Predictive Uncertainty
Estimation using Deep Ensembles, NeurIPS 2017. Pearce, Leibfried & Brintrup, Uncertainty in Neural
Networks: Approximately Bayesian Ensembling, AISTATS 2020. Osband, Aslanides & Cassirer, Randomized
Prior Functions for Deep Reinforcement Learning, NeurIPS 2018.
"""

import functools
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credo.engine import Info, Plan, pick
from credo.errors import CredoError
from credo.fields import COUNT, at_least, check_fields
from credo.inference.method import DescentMethod, Method, Wrapper
from credo.model import Batch, Normal, Target
from credo.networks import Params
from credo.networks.prior_function import Free, PriorFunction
from credo.posterior import Mixture, Posterior, Samples, mix
from credo.posterior.posterior import replace_record
from credo.struct import is_off, replace_unchecked


class EnsembleState(NamedTuple):
    """One member: the state of its method, and what is its own for good."""

    member: Any
    anchor: Params | None
    """The centre of its prior."""
    fixed: Params | None
    """Its prior function."""
    key: Array
    """Of the noise on its targets, as numbers."""


@dataclass(frozen=True)
class Ensemble(Wrapper):
    """Deep ensemble: the same method from several starts, averaged.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.default_model(3, credo.networks.MLP(hidden=(16,)))
        >>> posterior = credo.fit(model, data.train, credo.Ensemble(credo.MAP(num_steps=200)))
        >>> posterior.num_draws
        5
    """

    member: Method | str = "map"
    """Method of every member, by its name or as an instance."""
    size: int = 5
    """Members."""
    adversarial: float = 0.0
    """Step ε of adversarial training, in units of the inputs: x − ε sign ∇ log p(y|x) is learned
    beside x. The loss is the mean of both, so that the prior keeps its weight."""
    anchored: bool = False
    """Pull each member to its own draw from the prior, and where the noise is known to targets with
    noise of its own."""
    prior_function: float = 0.0
    """Scale β of a fixed random network that is added to each member's."""
    first: int = field(default=0, metadata={"flag": False})
    """Number of the first member; `credo.extend` counts on from those there are."""

    def __post_init__(self) -> None:
        check_fields(
            self, size=COUNT, adversarial=at_least(0), prior_function=at_least(0),
            first=at_least(0),
        )  # fmt: skip
        try:
            if not isinstance(self.member, str):
                object.__setattr__(self, "member", self.inner)  # an instance also for a class
            if not self.inner.can_be_member:
                raise CredoError("it makes an ensemble of its own; use it alone")
        except CredoError as error:
            raise CredoError(
                f"Ensemble: {self.member!r} is not a method that can be a member: {error}"
            ) from None

    def plan(self, num_rows: int) -> Plan:
        own = self.inner.plan(num_rows)
        chains, first = self.size * own.num_chains, self.first * own.num_chains
        return own._replace(num_chains=chains, first_chain=first)

    def init(self, key: Array, target: Target, params: Params, batch: Batch) -> EnsembleState:
        keys = jax.random.split(key, 4)
        model = target.model
        anchor = None
        if self.anchored:
            # At a temperature T the prior is N(m, T s²).
            spread, means = jnp.sqrt(target.temperature), model.prior_means(params)
            drawn = model.sample_prior(keys[0], params)
            anchor = jax.tree.map(lambda leaf, m: m + spread * (leaf - m), drawn, means)
        fixed = None
        if not is_off(self.prior_function):
            outputs = model.likelihood.num_outputs
            fixed = model.network.init(keys[1], target.input_shape, outputs)
        state = EnsembleState(None, anchor, fixed, jax.random.key_data(keys[2]))
        own, batch = self._own_view(target, state, batch)
        member = self.inner.init(keys[3], own, params, batch)
        if self.anchored or not is_off(self.adversarial):
            check_point(self, member, params)
        return state._replace(member=member)

    def step(
        self, key: Array, target: Target, state: EnsembleState, batch: Batch
    ) -> tuple[EnsembleState, Info]:
        own, batch = self._own_view(target, state, batch)
        if not is_off(self.adversarial):
            params = network_of(state.member)
            batch = with_adversarial_examples(own, params, batch, self.adversarial)
        member, info = self.inner.step(key, own, state.member, batch)
        return state._replace(member=member), info

    def keep(self, state: EnsembleState) -> Any:
        return self.inner.keep(state.member)

    def is_finished(self, state: EnsembleState) -> Array:
        return self.inner.is_finished(state.member)

    def check(self, key: Array, target: Target, params: Params, data: Any) -> None:
        self._check(target)
        self.inner.check(key, target, params, data)

    def synchronize(self, states: EnsembleState) -> EnsembleState:
        groups = [
            group._replace(member=self.inner.synchronize(group.member))
            for group in self._groups(states)
        ]
        return jax.tree.map(lambda *parts: jnp.concatenate(parts), *groups)

    def posterior(self, target: Target, states: EnsembleState, kept: Any) -> Posterior:
        members = []
        groups = zip(self._groups(states), self._groups(kept, len(states.key)), strict=True)
        for group, own in groups:
            found = self.inner.posterior(target, group.member, own)
            # A noisy network needs the shape of its inputs to draw, also as a part of a mixture.
            found = replace_record(found, input_shape=target.input_shape)
            members.append(self._with_prior_function(found, group))
        return mix(members)

    def finish(self, target: Target, posterior: Posterior, data: Batch) -> Posterior:
        members = split(posterior, self.size)
        finished = [self.inner.finish(target, member, data) for member in members]
        if all(new is old for new, old in zip(finished, members, strict=True)):
            return posterior
        histories = [member.record.history for member in finished]
        joined = {n: np.concatenate([h[n] for h in histories]) for n in histories[0]}
        return replace_record(mix(finished), history=joined)

    def warnings(
        self, target: Target, posterior: Posterior, data: Batch, info: dict[str, np.ndarray]
    ) -> list[str]:
        """The warnings of the first member that has any, and how many have."""
        target = replace(target, model=posterior.model)
        judge = self.inner.warnings
        if self._changes_the_loss and isinstance(self.inner, DescentMethod):
            judge = functools.partial(DescentMethod.warnings, self.inner)  # no mode of the target
        found = []
        for index, member in enumerate(split(posterior, self.size)):
            part = {name: np.array_split(value, self.size)[index] for name, value in info.items()}
            found.append(judge(target, member, data, part))
        warned = [messages for messages in found if messages]
        if len(warned) < 2:
            return [message for messages in warned for message in messages]
        return [f"{message} (one of {len(warned)} members with warnings)" for message in warned[0]]

    @property
    def inner(self) -> Method:
        from credo.inference.registry import as_method  # which imports this module

        return as_method(self.member)

    @property
    def _changes_the_loss(self) -> bool:
        """Whether members minimise something else than the target's loss of their weights."""
        return bool(self.anchored or self.adversarial or self.prior_function)

    def _check(self, target: Target) -> None:
        """Raise before the run what would only show after it."""
        if getattr(target.model.network, "always_starts_alike", False) and self.size > 1:
            raise CredoError(
                "all members would start from the same weights, those of the module given; pass a "
                "function of a key: credo.networks.Equinox(lambda key: ...)"
            )
        if self.adversarial and self.inner.has_acceptance:
            raise CredoError(
                "adversarial training has no density that an acceptance step could test; use "
                f"members such as map, dropout or sgld, got {self.member!r}"
            )
        if self.anchored and self.inner.finishes_on_all_rows:
            raise CredoError(
                "anchored members are draws from the posterior already; a posterior around each of "
                f"them would count the uncertainty twice: use members such as map, got "
                f"{self.member!r}"
            )
        if self.prior_function and not self.inner.gives_draws:
            raise CredoError(
                "prior_function needs members that are networks or chains of them, such as map or "
                f"sgld, got {self.member!r}"
            )

    def _groups(self, stacked: Any, count: int | None = None) -> list[Any]:
        """The parts of stacked chains, member by member."""
        count = count or len(stacked.key)
        chains = count // self.size
        return [pick(stacked, slice(start, start + chains)) for start in range(0, count, chains)]

    def _own_view(self, target: Target, state: EnsembleState, batch: Batch) -> tuple[Any, Batch]:
        """The target and the batch as this member sees them."""
        own = target
        if state.fixed is not None:
            whole = PriorFunction(target.model.network, self.prior_function)
            network = Free(whole, state.fixed)
            own = replace_unchecked(own, model=replace_unchecked(own.model, network=network))
        if state.anchor is not None:
            own = replace_unchecked(own, center=state.anchor)
            batch = with_noisy_targets(target, state.key, batch)
        return own, batch

    def _with_prior_function(self, posterior: Any, states: EnsembleState) -> Any:
        if states.fixed is None:
            return posterior
        whole = PriorFunction(posterior.model.network, self.prior_function)
        free = posterior.draws["network"]
        count = jax.tree.leaves(free)[0].shape[1]
        fixed = jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf[:, None], (len(leaf), count, *leaf.shape[1:])),
            states.fixed,
        )
        draws = {**posterior.draws, "network": {"free": free, "fixed": fixed}}
        return replace(posterior, model=replace(posterior.model, network=whole), draws=draws)


def with_noisy_targets(target: Target, key: Array, batch: Batch) -> Batch:
    """y + σξ, with a ξ for each datum that stays the same; where σ is learned, y itself.

    A noise scale that is learned from targets with its own noise would grow without end.
    """
    likelihood = target.model.likelihood
    if not (isinstance(likelihood, Normal) and likelihood.is_known) or batch.row is None:
        return batch
    own = jax.random.wrap_key_data(key)

    def draw(row: Array) -> Array:
        return jax.random.normal(jax.random.fold_in(own, row), batch.y.shape[1:])

    noise = jnp.sqrt(target.temperature) * likelihood.scale
    return batch._replace(y=batch.y + noise * jax.vmap(draw)(batch.row))


def with_adversarial_examples(target: Target, params: Params, batch: Batch, step: float) -> Batch:
    """The batch, and beside every x the x' = x − ε sign ∇_x log p(y | x) (fast gradient sign)."""

    def log_likelihood(x: Array) -> Array:
        return jnp.sum(target.model.log_likelihood(params, batch._replace(x=x)))

    worse = batch._replace(x=batch.x - step * jnp.sign(jax.grad(log_likelihood)(batch.x)))
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), batch, worse)


def network_of(state: Any) -> Any:
    """The one network that a member's state is; None where it is something else."""
    return getattr(state, "params", getattr(state, "learned", None))


def check_point(ensemble: Ensemble, state: Any, params: Params) -> None:
    """Adversarial examples and anchors need a member that is one network at a time."""
    held: Any = jax.tree.structure(network_of(state))
    if held != jax.tree.structure(params):
        raise CredoError(
            "adversarial and anchored need members whose state is one network, such as map, "
            f"dropout or sgld, got {ensemble.member!r}; use prior_function, or leave them out"
        )


def split(posterior: Any, size: int) -> list[Any]:
    """The members of an ensemble's posterior, one by one."""
    if isinstance(posterior, Mixture):
        count = posterior.num_members // size
        if count == 1:
            return [posterior.member(index) for index in range(size)]
        parts = [slice(start, start + count) for start in range(0, size * count, count)]
        return [replace(posterior, members=pick(posterior.members, part)) for part in parts]
    chains = posterior.num_chains // size

    def one(start: int) -> Samples:
        part = slice(start, start + chains)
        weights = None if posterior.weights is None else size * posterior.weights[part]
        return replace(posterior, draws=pick(posterior.draws, part), weights=weights)

    return [one(index * chains) for index in range(size)]
