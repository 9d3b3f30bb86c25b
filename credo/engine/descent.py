"""Gradient descent on any objective: the only place where an optimiser's update is applied.

    θ ← θ + u(∇ loss(θ, batch))

with the updates u of Optax. A method that descends subclasses `Descent` and says what it learns
(`start`), what is to be small (`loss`), and which parameters its predictions use (`point`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credo.engine.algorithm import Algorithm, Info, Plan
from credo.errors import CredoError
from credo.fields import COUNT, POSITIVE, at_least, between, check_fields
from credo.struct import is_off

OPTIMIZERS = ("adam", "sgd", "momentum")
Schedule = Literal["constant", "cosine"]
DECAYED = "weights"  # label of the group that decoupled decay shrinks
NUM_CHECKS = 50  # how often in a run the held-out rows are looked at


class Best(NamedTuple):
    """The best of what was learned, by the held-out rows."""

    learned: Any
    loss: Array
    last_loss: Array
    """Of the latest look."""
    num_stale: Array
    """Looks since the best."""


class DescentState(NamedTuple):
    """What is learned, the optimiser's memory, the steps so far, the best so far."""

    learned: Any
    memory: Any
    step: Array
    best: Best | None = None

    @property
    def result(self) -> Any:
        """What was learned: the latest, or the best by the held-out rows."""
        return self.learned if self.best is None else self.best.learned


@dataclass(frozen=True, kw_only=True)
class Descent(Algorithm):
    """Gradient descent, with the fields that all methods of its kind share."""

    learning_rate: float = 1e-3
    """Step size of the optimiser."""
    num_steps: int = 4000
    """Gradient steps."""
    num_epochs: float | None = None
    """Passes over the data; where given, replaces num_steps."""
    batch_size: int = 128
    """Rows per step."""
    optimizer: Any = "adam"
    """adam, sgd or momentum; in Python also any optax.GradientTransformation, which brings its own
    learning rate."""
    schedule: Schedule = "cosine"
    """How the learning rate changes: constant, or cosine decay to zero."""
    warmup: float = 0.0
    """Share of the steps over which the learning rate grows from 0."""
    clip: float | None = None
    """Largest norm of a gradient; longer ones are shortened to it."""
    decay: float = 0.0
    """Decoupled weight decay (AdamW): each step also shrinks what is learned by this share of the
    learning rate. It is not the prior's: with it, the result is no longer a posterior mode."""
    validation_fraction: float = 0.0
    """Share of the rows held out to stop early on; what predicts them best is kept."""
    patience: int = 10
    """Looks at the held-out rows without a better one after which a run ends; a run has 50."""

    def __post_init__(self) -> None:
        check_fields(
            self, learning_rate=POSITIVE, num_steps=COUNT, num_epochs=POSITIVE, batch_size=COUNT,
            warmup=between(0, 1), clip=POSITIVE, decay=at_least(0), patience=COUNT,
            validation_fraction=between(0, 1, high_included=False),
        )  # fmt: skip
        self._check_optimizer()

    def start(self, key: Array, objective: Any, params: Any) -> Any:
        """What is learned, as it is before the first step; by default the parameters."""
        return params

    def loss(
        self, key: Array, objective: Any, learned: Any, batch: Any, progress: Array
    ) -> tuple[Array, Info]:
        """What is to be small, and what to record; `progress` goes from 0 to 1 along the run."""
        return objective.loss(key, learned, batch)

    def point(self, learned: Any) -> Any:
        """The parameters by which the held-out rows are predicted."""
        return learned

    def project(self, learned: Any) -> Any:
        """Where a step must not leave what is learned."""
        return learned

    def groups(self, learned: Any) -> tuple[Any, dict[str, Any]] | None:
        """A label for each leaf, and by label what multiplies the learning rate; None: all alike.

        Decoupled decay is for the leaves labelled "weights".
        """
        return None

    def rate_schedule(self, total: Any) -> Callable[[Array], Array]:
        """The learning rate as a function of the step."""

        def at(step: Array) -> Array:
            rate = jnp.asarray(self.learning_rate)
            step = jnp.asarray(step, float)  # a quotient of int32 would be single precision
            share = step / total
            if not is_off(self.warmup):
                rate = rate * jnp.minimum(1.0, (step + 1) / (self.warmup * total))
            if self.schedule == "cosine":
                rate = rate * 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(share, 1.0)))
            return rate

        return at

    def total_steps(self, num_data: Any) -> Any:
        """num_steps, or as many as num_epochs passes over the data take; data may be traced."""
        if self.num_epochs is None:
            return self.num_steps
        per_epoch = jnp.maximum(num_data // self.batch_size, 1)
        return jnp.maximum(jnp.floor(self.num_epochs * per_epoch), 1)

    def plan(self, num_rows: int) -> Plan:
        steps = int(self.total_steps(num_rows))
        return Plan(num_steps=steps, num_warmup=steps, batch_size=self.batch_size)

    def init(self, key: Array, objective: Any, params: Any, batch: Any) -> DescentState:
        learned = self.start(key, objective, params)
        memory = self.transformation(objective, learned).init(learned)
        best = None
        if self._holds_out(objective):
            worst = jnp.asarray(jnp.inf, float)
            best = Best(learned, worst, worst, jnp.zeros((), jnp.int32))
        return DescentState(learned, memory, jnp.zeros((), jnp.int32), best)

    def step(
        self, key: Array, objective: Any, state: DescentState, batch: Any
    ) -> tuple[DescentState, Info]:
        total = self.total_steps(getattr(objective, "num_data", 0))
        progress = (state.step + 1) / total

        def loss(learned: Any) -> tuple[Array, Info]:
            return self.loss(key, objective, learned, batch, progress)

        rule = self.transformation(objective, state.learned)
        learned, memory, info = descend(rule, state.learned, state.memory, loss)
        state = DescentState(self.project(learned), memory, state.step + 1, state.best)
        if state.best is None:
            return state, info
        state = self._look_at_held_out(objective, state, total)
        return state, info | {"validation_nll": state.best.last_loss}  # type: ignore[union-attr]

    def is_finished(self, state: DescentState) -> Array:
        if state.best is None:
            return jnp.zeros((), bool)
        return state.best.num_stale >= self.patience

    def divergence_hint(self) -> str:
        return f"lower learning_rate (got {self.learning_rate:g}) or standardize the inputs"

    def transformation(self, objective: Any, learned: Any) -> Any:
        """The optimiser as an Optax gradient transformation."""
        import optax  # here, so that `import credo` does not wait for it

        if not isinstance(self.optimizer, str):
            return self.optimizer
        rate = self.rate_schedule(self.total_steps(getattr(objective, "num_data", 0)))
        grouped = self.groups(learned)
        if grouped is None:
            rule = self._rule(rate)
        else:
            labels, factors = grouped
            rules = {
                label: self._rule(_times(factor, rate), label == DECAYED)
                for label, factor in factors.items()
            }
            rule = optax.multi_transform(rules, labels)
        # Before the groups, for the norm is that of the whole gradient.
        return (
            rule if self.clip is None else optax.chain(optax.clip_by_global_norm(self.clip), rule)
        )

    def _rule(self, rate: Callable[[Array], Array], decays: bool = True) -> Any:
        import optax

        parts = []
        if self.optimizer == "adam":
            parts.append(optax.scale_by_adam())
        if self.optimizer == "momentum":
            parts.append(optax.trace(decay=0.9))
        if decays and not is_off(self.decay):
            parts.append(optax.add_decayed_weights(self.decay))
        return optax.chain(*parts, optax.scale_by_learning_rate(rate))

    def _holds_out(self, objective: Any) -> bool:
        return (
            not is_off(self.validation_fraction)
            and getattr(objective, "held_out", None) is not None
        )

    def _look_at_held_out(self, objective: Any, state: DescentState, total: Any) -> DescentState:
        every = jnp.maximum(total // NUM_CHECKS, 1)

        def look(best: Best) -> Best:
            loss = objective.held_out_loss(self.point(state.learned)).astype(best.loss.dtype)
            better = loss < best.loss
            learned = jax.tree.map(
                lambda new, old: jnp.where(better, new, old), state.learned, best.learned
            )
            stale = jnp.where(better, 0, best.num_stale + 1)
            return Best(learned, jnp.where(better, loss, best.loss), loss, stale)

        due = state.step % every == 0
        return state._replace(best=jax.lax.cond(due, look, lambda best: best, state.best))

    def _check_optimizer(self) -> None:
        is_transformation = callable(getattr(self.optimizer, "update", None))
        if self.optimizer not in OPTIMIZERS and not is_transformation:
            raise CredoError(
                f"{type(self).__name__}: optimizer must be one of {', '.join(OPTIMIZERS)}, or an "
                f"optax.GradientTransformation, got {self.optimizer!r}"
            )
        if not is_transformation:
            return
        fields = type(self).__dataclass_fields__
        for name in ("learning_rate", "schedule", "warmup", "clip", "decay"):
            if getattr(self, name) != fields[name].default:
                raise CredoError(
                    f"{type(self).__name__}: an optimizer of your own brings its {name} along; "
                    f"leave {name} out (got {getattr(self, name)!r})"
                )


def _times(factor: Any, rate: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda step: factor * rate(step)


def descend(
    rule: Any, learned: Any, memory: Any, loss: Callable[[Any], tuple[Array, Info]]
) -> tuple[Any, Any, Info]:
    """One step of an Optax transformation down the gradient of `loss`."""
    (value, info), gradient = jax.value_and_grad(loss, has_aux=True)(learned)
    updates, memory = rule.update(gradient, memory, learned)
    learned = jax.tree.map(lambda value, update: value + update, learned, updates)
    return learned, memory, {"loss": value} | info


def adamw(rate: Any, decay: Any) -> Any:
    """AdamW whose rate and decay, one for all weights or one each, are data of a compiled step."""
    import optax

    def decayed(updates: Any, params: Any) -> Any:
        return updates + decay * params

    return optax.chain(optax.scale_by_adam(b2=0.99), optax.stateless(decayed), optax.scale(-rate))


def climb(objective: Any, params: Any, batch: Any, num_steps: int) -> Any:
    """Adam towards the mode of the log joint of a batch: where a chain may well start."""
    import optax

    rule = optax.adam(optax.cosine_decay_schedule(1e-2, max(num_steps, 1)))

    def loss(params: Any) -> tuple[Array, Info]:
        return -objective.log_joint(params, batch) / objective.num_data, {}

    def one(_: int, carry: Any) -> Any:
        params, memory = carry
        return descend(rule, params, memory, loss)[:2]

    return jax.lax.fori_loop(0, num_steps, one, (params, rule.init(params)))[0]


def held_out_rows(key: Array, num_rows: int, fraction: float) -> tuple[np.ndarray, np.ndarray]:
    """Which rows to learn from, and which to hold out: at least one of each."""
    if num_rows < 2:
        raise CredoError(
            f"validation_fraction={fraction:g} needs at least 2 rows, got {num_rows}; leave it out"
        )
    order = np.asarray(jax.random.permutation(key, num_rows))
    count = min(max(1, round(fraction * num_rows)), num_rows - 1)
    return np.sort(order[count:]), np.sort(order[:count])
