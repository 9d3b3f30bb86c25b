"""The only loop: it runs every method.

One compiled function advances a chain by any number of steps on data that stays on the device.
Between calls, on the host: progress, checkpoint, divergence check. Every random number comes from
the chain's key and the step's index, so a run that was killed and resumed, or cut into other
chunks, gives the same bits.
"""

import dataclasses
import functools
import os
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credo.caching import enable_compilation_cache
from credo.data.batches import batch_indices
from credo.errors import CredoWarning, DivergedError
from credo.inference.checkpoint import Checkpoint
from credo.inference.interrupt import deferred_interrupt
from credo.inference.method import Method, Plan
from credo.inference.progress import Progress
from credo.inference.registry import as_method, name_of, options_of
from credo.keys import as_key
from credo.model import Batch, Model, Target
from credo.model.checks import check_data
from credo.posterior import Posterior

CHUNK_SECONDS = 0.4  # long enough to cost nothing, short enough for Ctrl-C and the progress bar


class Chain(NamedTuple):
    """One chain in flight: its state, what it stored so far, what it recorded so far."""

    state: Any
    kept: Any
    info: dict[str, Array]


def fit(
    model: Model,
    data: Any,
    method: Method | str,
    key: int | Array = 0,
    *,
    temperature: float = 1.0,
    checkpoint: str | os.PathLike | None = None,
    checkpoint_seconds: float = 20.0,
    keep_checkpoint: bool = False,
    progress: bool | None = None,
    extra: dict | None = None,
    whole: bool = True,
) -> Posterior:
    """Infer the posterior of `model` given `data` (a pair of x and y) with `method`.

    Args:
        method: an instance such as `credo.HMC()`, or a name such as "hmc" for its defaults.
        key: an integer seed or a JAX key; the same key gives the same bits.
        temperature: 1 for the Bayesian posterior, below 1 for a cold one.
        checkpoint: a file to save the run to every `checkpoint_seconds`, and to resume from if it
            exists; removed when the run is done.
        keep_checkpoint: leave it there, for a caller who removes it once the posterior is safe.
        progress: show a progress bar; by default only on a terminal.
        extra: JSON-able data to keep with the posterior.
        whole: False for the first part of a stream, whose labels may all be of one class.

    Example:
        >>> data = credo.data.load("digits")
        >>> model = credo.Model(credo.networks.MLP(hidden=(32,)), credo.Categorical(10))
        >>> posterior = credo.fit(model, data.train, credo.MAP(num_steps=100))
    """
    chosen: Method = as_method(method)
    batch = check_data(model, data, whole)
    target = Target(model, len(batch.x), batch.x.shape[1:], temperature)
    posterior = infer(
        target, batch, chosen, key, checkpoint=checkpoint, checkpoint_seconds=checkpoint_seconds,
        keep_checkpoint=keep_checkpoint, progress=progress,
    )  # fmt: skip
    record = dataclasses.replace(
        posterior.record, input_shape=target.input_shape, num_data=len(batch.x), extra=extra or {}
    )
    return dataclasses.replace(posterior, record=record)


def infer(
    target: Any,
    data: Any,
    method: Method,
    key: int | Array = 0,
    starts: list[Any] | None = None,
    *,
    checkpoint: str | os.PathLike | None = None,
    checkpoint_seconds: float = 20.0,
    keep_checkpoint: bool = False,
    progress: bool | None = None,
) -> Posterior:
    """Run `method` on a target: what `fit` and `sample` share. `starts` has one per chain."""
    enable_compilation_cache()
    plan = method.plan(target.num_data)
    numbers = range(plan.first_chain, plan.first_chain + plan.num_chains)
    keys = [jax.random.fold_in(as_key(key), chain) for chain in numbers]
    began = time.perf_counter()
    given = starts or [None] * plan.num_chains
    if hasattr(method, "check"):
        method.check(keys[0], target, initial(target, keys[0], given[0]), data)
    pairs = zip(keys, given, strict=True)
    chains = [_start(method, target, plan, chain_key, data, start) for chain_key, start in pairs]
    settings: tuple = (method, target, plan, jax.tree.map(jnp.shape, chains))
    if checkpoint is not None:  # two functions of the user may have one name: tell them by content
        step = functools.partial(_step, method, target, plan, keys[0])
        settings = (*settings, str(jax.make_jaxpr(step)(data, 0, chains[0].state)))
    store = Checkpoint.open(checkpoint, checkpoint_seconds, settings, keys, data)
    chains = _run(method, target, plan, keys, data, chains, store, progress)
    info = {name: np.stack([c.info[name] for c in chains]) for name in chains[0].info}
    kept = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[chain.kept for chain in chains])
    posterior = method.posterior(target, [chain.state for chain in chains], kept)
    if hasattr(method, "finish"):
        posterior = method.finish(target, posterior, data)
    record = dataclasses.replace(
        posterior.record,
        method=name_of(method),
        options=options_of(method),
        seconds=time.perf_counter() - began,
        temperature=target.temperature,
        num_warmup=plan.num_warmup,
        thin=plan.thin,
        history={**posterior.record.history, **info},
    )
    posterior = dataclasses.replace(posterior, record=record)
    for message in getattr(method, "warnings", lambda *_: [])(target, posterior, data, info):
        warnings.warn(message, CredoWarning, stacklevel=3)
    if not keep_checkpoint:
        store.remove()
    return posterior


@functools.partial(jax.jit, static_argnames=("method", "target", "plan"))
def _start(
    method: Method, target: Target, plan: Plan, key: Array, data: Batch, start: Any = None
) -> Chain:
    params = initial(target, key, start)
    state_key = jax.random.split(jax.random.fold_in(key, 0))[1]
    state = method.init(state_key, target, params, _batch(target, plan, key, data, 0))
    # A weakly typed leaf would turn strong after the first step, and compile everything twice.
    state = jax.tree.map(lambda leaf: jax.lax.convert_element_type(leaf, leaf.dtype), state)
    first = jax.eval_shape(functools.partial(_step, method, target, plan, key, data), 0, state)[1]
    kept = jax.eval_shape(method.keep, state)
    empty = lambda count: lambda leaf: jnp.zeros((count, *leaf.shape), leaf.dtype)  # noqa: E731
    return Chain(
        state, jax.tree.map(empty(plan.num_kept), kept), jax.tree.map(empty(plan.num_steps), first)
    )


@functools.partial(jax.jit, static_argnames="target")
def initial(target: Target, key: Array, start: Any = None) -> Any:
    """Where a chain starts: as given, or at the network's initialisation."""
    if start is not None:
        return start
    return target.model.init(jax.random.split(jax.random.fold_in(key, 0))[0], target.input_shape)


def _batch(target: Target, plan: Plan, key: Array, data: Batch, index) -> Batch:
    num_data, size = target.num_data, plan.batch_size
    if size is None or (size >= num_data and not plan.with_replacement):
        return data
    batch_key = jax.random.fold_in(key, 2)
    if plan.with_replacement:
        rows = jax.random.randint(jax.random.fold_in(batch_key, index), (size,), 0, num_data)
    else:
        rows = batch_indices(batch_key, index, num_data, size)
    return jax.tree.map(lambda column: column[rows], data)


def _step(method: Method, target: Target, plan: Plan, key: Array, data: Batch, index, state):
    step_key = jax.random.fold_in(jax.random.fold_in(key, 1), index)
    return method.step(step_key, target, state, _batch(target, plan, key, data, index))


@functools.partial(
    jax.jit, static_argnames=("method", "target", "plan"), donate_argnames=("chain",)
)
def _advance(
    method: Method, target: Target, plan: Plan, key: Array, data: Batch, chain: Chain, start, stop
) -> Chain:
    """Run steps start … stop − 1: the bounds are data, so every chunk is the same program.

    Steps come in segments that end where something is stored. A segment cut short by `stop` stores
    a provisional value, which the segment's true end overwrites.
    """

    def one_step(index, carry):
        state, info = carry
        state, new = _step(method, target, plan, key, data, index, state)
        return state, {name: info[name].at[index].set(new[name]) for name in info}

    def segment(carry):
        index, (state, kept, info) = carry
        slot = jnp.maximum(index - plan.num_warmup, 0) // plan.thin
        sampling_end = plan.num_warmup + (slot + 1) * plan.thin
        end = jnp.minimum(jnp.where(index < plan.num_warmup, plan.num_warmup, sampling_end), stop)
        state, info = jax.lax.fori_loop(index, end, one_step, (state, info))
        value = method.keep(state)
        kept = jax.tree.map(lambda buffer, leaf: buffer.at[slot].set(leaf), kept, value)
        return end, Chain(state, kept, info)

    return jax.lax.while_loop(lambda carry: carry[0] < stop, segment, (start, chain))[1]


def _run(method, target, plan, keys, data, chains, store, progress) -> list[Chain]:
    chains, step = store.load(chains)
    chunk, first = 1, step
    bar = Progress(plan.num_steps, step, name_of(method), progress)
    with bar, _pool(plan) as pool, deferred_interrupt() as interrupted:
        while step < plan.num_steps:
            meeting = next((m for m in plan.meetings if m > step), plan.num_steps)
            stop = min(step + chunk, meeting, plan.num_steps)
            began = time.perf_counter()
            chains = _advance_all(pool, method, target, plan, keys, data, chains, step, stop)
            elapsed = time.perf_counter() - began
            _check_finite(method, chains, step, stop)
            if stop in plan.meetings:
                met = method.meet([chain.state for chain in chains])
                # Chains may now share arrays, but each gives its own away when it advances.
                owned = [jax.tree.map(jnp.copy, state) for state in met]
                chains = [c._replace(state=state) for c, state in zip(chains, owned, strict=True)]
            # The first call also compiles: it says nothing about the speed of a step.
            growth = 8 if step == first else min(8.0, CHUNK_SECONDS / max(elapsed, 1e-6))
            chunk, step = max(1, int((stop - step) * growth)), stop
            bar.update(step, {name: chains[0].info[name][step - 1] for name in chains[0].info})
            store.save(chains, step, now=interrupted())
            if interrupted():
                raise KeyboardInterrupt
    return chains


def _pool(plan: Plan) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(plan.num_chains, os.cpu_count() or 1))


def _advance_all(pool, method, target, plan, keys, data, chains, start, stop) -> list[Chain]:
    """Advance every chain: on CPU one compiled chain per core, elsewhere all as one program."""

    # JAX's precision is set per thread where `with` set it: hand it on to the workers.
    double = jax.config.jax_enable_x64  # type: ignore[attr-defined]

    def advance(key: Array, chain: Chain) -> Chain:
        with jax.enable_x64(double):
            chain = _advance(method, target, plan, key, data, chain, start, stop)
            return jax.block_until_ready(chain)

    if len(chains) == 1:
        return [advance(keys[0], chains[0])]
    if jax.default_backend() == "cpu":
        return list(pool.map(advance, keys, chains))
    together = jax.vmap(lambda k, c: _advance(method, target, plan, k, data, c, start, stop))
    stacked = together(jnp.stack(keys), jax.tree.map(lambda *a: jnp.stack(a), *chains))
    return [jax.tree.map(lambda a, i=i: a[i], stacked) for i in range(len(chains))]


def _check_finite(method: Method, chains: list[Chain], start: int, stop: int) -> None:
    for index, chain in enumerate(chains):
        for name in {"loss", "log_joint"} & set(chain.info):
            values = np.asarray(chain.info[name][start:stop])
            if not np.isfinite(values).all():
                step = start + int(np.argmin(np.isfinite(values)))
                remedy = getattr(method, "remedy", lambda: "check the data and the settings")()
                raise DivergedError(
                    f"{name_of(method)}: the {name.replace('_', ' ')} became "
                    f"{values[step - start]} at step {step} of chain {index}; {remedy}"
                )
