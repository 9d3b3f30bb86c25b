"""Deep ensembles: the same method from several starts, averaged.

    p(y | x, D) ≈ (1/M) Σ_m p(y | x, q_m),     q_m = what member m has learnt

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

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credo.errors import CredoError
from credo.inference.map import MAP
from credo.inference.method import COUNT, NOT_NEGATIVE, Info, Method, Plan, check_fields
from credo.model import Batch, Normal, Target
from credo.networks import Params
from credo.networks.prior_function import Free, PriorFunction
from credo.posterior import Mixture, Posterior, Samples, mix


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
class Ensemble:
    """Deep ensemble: the same method from several starts, averaged.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.Model(credo.networks.MLP(hidden=(16,)), credo.Categorical(3))
        >>> posterior = credo.fit(model, data.train, credo.Ensemble(credo.MAP(num_steps=200)))
        >>> posterior.num_draws
        5
    """

    member: Method | str = "map"
    """Method of every member, by its name or as an instance."""
    size: int = 5
    """Members."""
    adversarial: float = 0.0
    """Step ε of adversarial training, in units of the inputs: x − ε sign ∇ log p(y|x) is learnt
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
            self, size=COUNT, adversarial=NOT_NEGATIVE, prior_function=NOT_NEGATIVE,
            first=NOT_NEGATIVE,
        )  # fmt: skip
        try:
            if not isinstance(self.member, str):
                object.__setattr__(self, "member", self._method)  # an instance also for a class
            self._method  # noqa: B018
        except CredoError as error:
            raise CredoError(f"Ensemble: member {self.member!r} cannot be: {error}") from None

    def plan(self, num_data: int) -> Plan:
        own = self._method.plan(num_data)
        chains, first = self.size * own.num_chains, self.first * own.num_chains
        return own._replace(num_chains=chains, first_chain=first)

    def init(self, key: Array, target: Target, params: Params, batch: Batch) -> EnsembleState:
        keys = jax.random.split(key, 4)
        model = target.model
        self._check(target)
        anchor = None
        if self.anchored:
            spread = target.temperature**0.5
            drawn = model.sample_prior(keys[0], params)
            anchor = jax.tree.map(lambda leaf: spread * leaf, drawn)
        fixed = None
        if self.prior_function:
            outputs = model.likelihood.num_outputs
            fixed = model.network.init(keys[1], target.input_shape, outputs)
        state = EnsembleState(None, anchor, fixed, jax.random.key_data(keys[2]))
        own, batch = self._own_view(target, state, batch)
        member = self._method.init(keys[3], own, params, batch)
        if self.anchored or self.adversarial:
            check_point(self, member, params)
        return state._replace(member=member)

    def step(
        self, key: Array, target: Target, state: EnsembleState, batch: Batch
    ) -> tuple[EnsembleState, Info]:
        own, batch = self._own_view(target, state, batch)
        if self.adversarial:
            batch = attacked(own, state.member.params, batch, self.adversarial)
        member, info = self._method.step(key, own, state.member, batch)
        return state._replace(member=member), info

    def keep(self, state: EnsembleState) -> Params | None:
        return self._method.keep(state.member)

    def meet(self, states: list[EnsembleState]) -> list[EnsembleState]:
        met: list[EnsembleState] = []
        for group in self._groups(states):
            members = self._method.meet([state.member for state in group])
            met += [s._replace(member=m) for s, m in zip(group, members, strict=True)]
        return met

    def posterior(self, target: Target, states: list[EnsembleState], kept: Any) -> Posterior:
        chains = self._chains_per_member(states)
        members = []
        for index, group in enumerate(self._groups(states)):
            part = slice(index * chains, (index + 1) * chains)
            own = jax.tree.map(lambda leaf, part=part: leaf[part], kept)
            learnt = self._method.posterior(target, [state.member for state in group], own)
            # A noisy network needs the shape of its inputs to draw, also as a part of a mixture.
            learnt = replace(learnt, record=replace(learnt.record, input_shape=target.input_shape))
            members.append(self._with_prior_function(learnt, group))
        return mix(members)

    def finish(self, target: Target, posterior: Posterior, data: Batch) -> Posterior:
        if not hasattr(self._method, "finish"):
            return posterior
        members = split(posterior, self.size)
        finished = [self._method.finish(target, member, data) for member in members]
        histories = [member.record.history for member in finished]
        joined = {n: np.concatenate([h[n] for h in histories]) for n in histories[0]}
        whole = mix(finished)
        return replace(whole, record=replace(whole.record, history=joined))

    def warnings(
        self, target: Target, posterior: Posterior, batch: Batch, info: dict[str, np.ndarray]
    ) -> list[str]:
        """What the first member that has something to say says, and how many have."""
        ask: Any = getattr(self._method, "warnings", lambda *_: [])
        target = replace(target, model=posterior.model)
        found = []
        for index, member in enumerate(split(posterior, self.size)):
            part = {name: np.array_split(value, self.size)[index] for name, value in info.items()}
            found.append(ask(target, member, batch, part))
        said = [messages for messages in found if messages]
        if len(said) < 2:
            return [message for messages in said for message in messages]
        return [f"{message} (one of {len(said)} members with warnings)" for message in said[0]]

    def remedy(self) -> str:
        return getattr(self._method, "remedy", lambda: "check the data and the settings")()

    @property
    def _method(self) -> Any:
        from credo.inference.registry import as_method  # which imports this module

        return as_method(self.member)

    def _check(self, target: Target) -> None:
        """Raise before the run what would only show after it."""
        if getattr(target.model.network, "always_starts_alike", False) and self.size > 1:
            raise CredoError(
                "all members would start from the same weights, those of the module given; pass a "
                "function of a key: credo.networks.Equinox(lambda key: ...)"
            )
        draws = isinstance(self._method, MAP) or self._method.plan(target.num_data).num_kept > 0
        if self.adversarial and hasattr(self._method, "target_acceptance"):
            raise CredoError(
                "adversarial training has no density that an acceptance step could test; use "
                f"members such as map, dropout or sgld, got {self.member!r}"
            )
        if self.anchored and hasattr(self._method, "finish"):
            raise CredoError(
                "anchored members are draws from the posterior already; a posterior around each of "
                f"them would count the uncertainty twice: use members such as map, got "
                f"{self.member!r}"
            )
        if self.prior_function and not draws:
            raise CredoError(
                "prior_function needs members that are networks or chains of them, such as map or "
                f"sgld, got {self.member!r}"
            )

    def _chains_per_member(self, states: list[Any]) -> int:
        return len(states) // self.size

    def _groups(self, states: list[EnsembleState]) -> list[list[EnsembleState]]:
        count = self._chains_per_member(states)
        return [states[start : start + count] for start in range(0, len(states), count)]

    def _own_view(self, target: Target, state: EnsembleState, batch: Batch) -> tuple[Any, Batch]:
        """The target and the batch as this member sees them."""
        own = target
        if state.fixed is not None:
            whole = PriorFunction(target.model.network, self.prior_function)
            own = replace(own, model=replace(own.model, network=Free(whole, state.fixed)))
        if state.anchor is not None:
            own = AnchoredTarget(
                own.model, own.num_data, own.input_shape, own.temperature, state.anchor
            )
            batch = with_noisy_targets(target, state.key, batch)
        return own, batch

    def _with_prior_function(self, posterior: Any, states: list[EnsembleState]) -> Any:
        if states[0].fixed is None:
            return posterior
        whole = PriorFunction(posterior.model.network, self.prior_function)
        free = posterior.draws["network"]
        count = jax.tree.leaves(free)[0].shape[1]
        fixed = jax.tree.map(
            lambda *chains: jnp.stack([jnp.broadcast_to(c, (count, *c.shape)) for c in chains]),
            *[state.fixed for state in states],
        )
        draws = {**posterior.draws, "network": {"free": free, "fixed": fixed}}
        return replace(posterior, model=replace(posterior.model, network=whole), draws=draws)


@dataclass(frozen=True)
class AnchoredTarget(Target):
    """A target whose prior has its centre at `anchor`."""

    anchor: Any = None

    def log_prior(self, params: Params, scales: Any = None) -> Array:
        return super().log_prior(jax.tree.map(jnp.subtract, params, self.anchor), scales)


def with_noisy_targets(target: Target, key: Array, batch: Batch) -> Batch:
    """y + σξ, with a ξ for each datum that stays the same; where σ is learnt, y itself.

    A noise scale that is learnt from targets with its own noise would grow without end.
    """
    if not isinstance(target.model.likelihood, Normal) or batch.row is None:
        return batch
    own = jax.random.wrap_key_data(key)
    draw = lambda row: jax.random.normal(jax.random.fold_in(own, row), batch.y.shape[1:])  # noqa: E731
    noise = target.temperature**0.5 * target.model.likelihood.scale
    return batch._replace(y=batch.y + noise * jax.vmap(draw)(batch.row))


def attacked(target: Target, params: Params, batch: Batch, step: float) -> Batch:
    """The batch, and beside every x the x' = x − ε sign ∇_x log p(y | x) (fast gradient sign)."""

    def log_likelihood(x: Array) -> Array:
        return jnp.sum(target.model.log_likelihood(params, batch._replace(x=x)))

    worse = batch._replace(x=batch.x - step * jnp.sign(jax.grad(log_likelihood)(batch.x)))
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), batch, worse)


def check_point(ensemble: Ensemble, state: Any, params: Params) -> None:
    """Attacks and anchors need a member that is one network at a time."""
    held: Any = jax.tree.structure(getattr(state, "params", None))
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
        return [replace(posterior, members=posterior.member(part)) for part in parts]
    chains = posterior.num_chains // size

    def one(start: int) -> Samples:
        part = lambda leaf: leaf[start : start + chains]  # noqa: E731
        weights = None if posterior.weights is None else size * part(posterior.weights)
        return replace(posterior, draws=jax.tree.map(part, posterior.draws), weights=weights)

    return [one(index * chains) for index in range(size)]
