"""Stochastic gradient descent shared by the methods that optimise."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
from jaxtyping import Array

from credo.inference.method import COUNT, POSITIVE, Info, Plan, check_fields
from credo.model import Batch, Target
from credo.networks import Noise, Params

Optimizer = Literal["adam", "sgd", "momentum"]
Schedule = Literal["constant", "cosine"]


class Descent(NamedTuple):
    """What is optimised (the parameters, or a method's own pytree) and the optimiser's memory."""

    params: Any
    memory: Any


def check_descent(method: Any) -> None:
    """Validate the fields that every optimising method has."""
    check_fields(
        method, learning_rate=POSITIVE, num_steps=COUNT, num_epochs=COUNT, batch_size=COUNT
    )


def plan_descent(method: Any, num_data: int) -> Plan:
    """num_steps, or as many as num_epochs passes over the data take."""
    batch_size = min(method.batch_size or num_data, num_data)
    steps = method.num_steps
    if method.num_epochs is not None:
        steps = max(1, int(method.num_epochs * (num_data // batch_size)))
    return Plan(num_steps=steps, num_warmup=steps, batch_size=batch_size)


def optimizer(method: Any, num_data: int) -> Any:
    """The method's optimiser as an Optax gradient transformation.

    A method whose learning rate goes its own way has a function `rates` that gives the schedule.
    """
    import optax  # here, so that `import credo` does not wait for it

    rate: Any = method.learning_rate
    if hasattr(method, "rates"):
        rate = method.rates(num_data)
    elif method.schedule == "cosine":
        rate = optax.cosine_decay_schedule(rate, plan_descent(method, num_data).num_steps)
    makers = {"adam": optax.adam, "sgd": optax.sgd, "momentum": lambda r: optax.sgd(r, 0.9)}
    return makers[method.optimizer](rate)


def start(method: Any, num_data: int, params: Params) -> Descent:
    return Descent(params, optimizer(method, num_data).init(params))


def descend(
    method: Any, target: Target, state: Descent, batch: Batch, noise: Noise, scales: Any = None
) -> tuple[Descent, Info]:
    """One step down the gradient of −log_joint / N; `scales` replace the prior's in the penalty."""

    def objective(params: Params) -> tuple[Array, Info]:
        log_likelihood = target.training_likelihood(params, batch, noise)
        log_joint = (log_likelihood + target.log_prior(params, scales)) / target.temperature
        return -log_joint / target.num_data, {"nll": -log_likelihood / target.num_data}

    return descend_on(method, target.num_data, state, objective)


def descend_on(
    method: Any, num_data: int, state: Descent, objective: Callable[[Any], tuple[Array, Info]]
) -> tuple[Descent, Info]:
    """One step down the gradient of `objective`, which gives a loss and what to record."""
    (loss, info), gradient = jax.value_and_grad(objective, has_aux=True)(state.params)
    updates, memory = optimizer(method, num_data).update(gradient, state.memory, state.params)
    params = jax.tree.map(lambda p, u: p + u, state.params, updates)
    return Descent(params, memory), {"loss": loss} | info


def climb(target: Target, params: Params, batch: Batch, num_steps: int) -> Params:
    """Adam towards the mode of the log joint of a batch: where a chain may well start."""
    import optax

    rule = optax.adam(optax.cosine_decay_schedule(1e-2, max(num_steps, 1)))
    gradient = jax.grad(lambda p: -target.log_joint(p, batch) / target.num_data)

    def one(_, carry: Any) -> Any:
        params, memory = carry
        updates, memory = rule.update(gradient(params), memory)
        return jax.tree.map(lambda p, u: p + u, params, updates), memory

    return jax.lax.fori_loop(0, num_steps, one, (params, rule.init(params)))[0]


def remedy(method: Any) -> str:
    return f"lower learning_rate (got {method.learning_rate:g}) or standardise the inputs"
