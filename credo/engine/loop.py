"""The only loop: it runs every algorithm on every objective.

One compiled function advances a chain by any number of steps on data that stays on the device.
Between calls, on the host: progress, checkpoint, divergence check, observers. Every random number
comes from the chain's key and the step's index, so a run that was killed and resumed, or cut into
other chunks, gives the same bits.
"""

import functools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credo.caching import enable_compilation_cache, jit
from credo.data.source import Rows, Segment, Source
from credo.engine.algorithm import Algorithm, Plan, pick
from credo.engine.checkpoint import Checkpoint
from credo.engine.interrupt import deferred_interrupt
from credo.engine.placement import place
from credo.engine.progress import Progress
from credo.errors import DivergedError
from credo.keys import as_key

CHUNK_SECONDS = 0.4  # long enough to cost nothing, short enough for Ctrl-C and the progress bar


class Chain(NamedTuple):
    """One chain in flight: its state, what it stored and recorded so far, its steps so far."""

    state: Any
    kept: Any
    info: dict[str, Array]
    num_steps: Array


class Timing(NamedTuple):
    """What a program needs to know of a plan, as data."""

    num_warmup: int
    thin: int
    first_step: int
    """Of the segment of data."""


@dataclass(frozen=True)
class Run:
    """What a run gives: stacked states, what was kept, what was recorded."""

    plan: Plan
    states: Any
    kept: Any
    """Leaves (chain, draw, ...)."""
    history: dict[str, np.ndarray]
    """Each (chain, step); NaN after the end of a chain that finished early."""
    num_steps: np.ndarray
    """Steps of each chain."""
    seconds: float
    checkpoint: Checkpoint

    def state(self, chain: int = 0) -> Any:
        return pick(self.states, chain)


def run(
    algorithm: Algorithm,
    objective: Any,
    source: Source,
    key: int | Array = 0,
    starts: list[Any] | None = None,
    *,
    name: str | None = None,
    checkpoint: str | os.PathLike | None = None,
    checkpoint_seconds: float = 20.0,
    keep_checkpoint: bool = False,
    progress: bool | None = None,
    observe_every: int | None = None,
    observe: Callable[[int, Run], None] | None = None,
    placement: str | None = None,
) -> Run:
    """Run `algorithm` on `objective`, with batches from `source`.

    Args:
        starts: parameters at which each chain starts; by default those of `objective.init`.
        name: how the run calls itself in messages.
        checkpoint: a file to save the run to every `checkpoint_seconds`, and to resume from if it
            exists; removed when the run is done, or with `keep_checkpoint` by the caller.
        progress: show a progress bar; by default only on a terminal.
        observe: called with the number of steps and the run so far every `observe_every` steps.
        placement: where chains run, "threads" or "program"; by default what suits the machine.
    """
    enable_compilation_cache()
    name = name or type(algorithm).__name__
    plan = algorithm.plan(source.num_rows)
    numbers = range(plan.first_chain, plan.first_chain + plan.num_chains)
    keys = [jax.random.fold_in(as_key(key), chain) for chain in numbers]
    began = time.perf_counter()
    given = starts or [None] * plan.num_chains
    segment = source.segment(0, plan.batch_size)
    first = initial(objective, keys[0], segment.rows.data, given[0])
    algorithm.check(keys[0], objective, first, segment.rows.data)
    statics = _Statics.of(plan)
    chains = [
        _start(statics, algorithm, objective, chain_key, segment.rows, start)
        for chain_key, start in zip(keys, given, strict=True)
    ]
    settings = _settings(checkpoint, algorithm, objective, plan, statics, keys, segment, chains)
    fingerprint = source.fingerprint() if checkpoint is not None else ""
    store = Checkpoint.open(checkpoint, checkpoint_seconds, settings, fingerprint)
    lanes = place(keys, chains, placement)
    restored, step = store.load(lanes.stacked() if store.path is not None else None)
    if step:
        lanes.set(restored)

    def so_far() -> Run:
        return _result(plan, lanes.stacked(), time.perf_counter() - began, store)

    chunk, first_step = 1, step
    bar = Progress(plan.num_steps, step, name, progress)
    with bar, deferred_interrupt() as interrupted:
        while step < plan.num_steps:
            if not segment.serves(step):
                del segment  # or a stream would have one block more in memory
                segment = source.segment(step, plan.batch_size)
            stop = _next_stop(step, chunk, plan, segment, observe_every)
            chunk_began = time.perf_counter()
            timing = Timing(plan.num_warmup, plan.thin, segment.first_step)
            lanes.advance(
                functools.partial(
                    _advance, statics, algorithm, objective, segment.rows, timing, step, stop
                )
            )
            elapsed = time.perf_counter() - chunk_began
            # The first call also compiles: it says nothing about the speed of a step.
            growth = 8 if step == first_step else min(8.0, CHUNK_SECONDS / max(elapsed, 1e-6))
            chunk, last, step = max(1, int((stop - step) * growth)), step, stop
            ended = _look(algorithm, name, lanes, last, step, bar)
            if step in plan.sync_steps:
                stacked = lanes.stacked()
                lanes.set(stacked._replace(state=algorithm.synchronize(stacked.state)))
            if observe is not None and observe_every and step % observe_every == 0:
                observe(step, so_far())
            store.save(lanes.stacked, step, now=interrupted())
            if interrupted():
                raise KeyboardInterrupt
            if ended:
                break
    lanes.close()
    if not keep_checkpoint:
        store.remove()
    return so_far()


class _Statics(NamedTuple):
    """What of a plan is part of a program."""

    batch_size: int | None
    with_replacement: bool
    num_kept: int
    history_length: int
    """Room for what is recorded: a power of two, so that few programs are needed."""

    @staticmethod
    def of(plan: Plan) -> "_Statics":
        length = 1 << (plan.num_steps - 1).bit_length()
        return _Statics(plan.batch_size, plan.with_replacement, plan.num_kept, length)


def _settings(checkpoint, algorithm, objective, plan, statics, keys, segment, chains) -> Any:
    """What makes a run that run: all numbers, and the program itself.

    Two functions of the user may have one name: their programs tell them apart.
    """
    if checkpoint is None:
        return ()
    step = functools.partial(_step, statics, algorithm, objective, segment.rows, keys[0], 0)
    program = str(jax.make_jaxpr(step)(0, chains[0].state))
    key_data = [jax.random.key_data(key) for key in keys]
    return algorithm, objective, key_data, {program: 0, repr(plan): 0}


def _next_stop(step: int, chunk: int, plan: Plan, segment: Segment, every: int | None) -> int:
    """The end of the next chunk: nothing that the host must see lies within."""
    stops = [step + chunk, plan.num_steps]
    stops += [sync for sync in plan.sync_steps if sync > step][:1]
    stops += [segment.stop] if segment.stop is not None else []
    stops += [(step // every + 1) * every] if every else []
    return min(stops)


def _look(algorithm: Algorithm, name: str, lanes: Any, start: int, stop: int, bar: Any) -> bool:
    """Check what was recorded and show it; whether all chains have ended."""
    chains = lanes.chains if isinstance(lanes.chains, list) else [lanes.chains]
    for index, chain in enumerate(chains):
        for figure in {"loss", "log_joint"} & set(chain.info):
            values = np.asarray(chain.info[figure])[..., start:stop]
            bad = ~np.isfinite(values.reshape(-1, stop - start)).all(axis=0)
            if bad.any():
                step = int(np.argmax(bad))
                shown = values.reshape(-1, stop - start)[:, step]
                raise DivergedError(
                    f"{name}: the {figure.replace('_', ' ')} became "
                    f"{shown[~np.isfinite(shown)][0]} at step {start + step} of chain {index}; "
                    f"{algorithm.divergence_hint()}"
                )
    done = np.concatenate([np.atleast_1d(chain.num_steps) for chain in chains])
    last = max(int(done.reshape(-1)[0]) - 1, 0)
    bar.update(stop, {n: np.ravel(v[..., last])[0] for n, v in chains[0].info.items()})
    return bool((done < stop).all())


def _result(plan: Plan, chains: Chain, seconds: float, store: Checkpoint) -> Run:
    num_steps = np.asarray(chains.num_steps)
    longest = int(num_steps.max())
    history = {}
    for figure, values in chains.info.items():
        recorded = np.asarray(values)[:, :longest]
        ended = np.arange(longest) >= num_steps[:, None]
        history[figure] = np.where(ended, np.nan, recorded) if ended.any() else recorded
    return Run(plan, chains.state, chains.kept, history, num_steps, seconds, store)


@jit
def initial(objective: Any, key: Array, example: Any, start: Any = None) -> Any:
    """Where a chain starts: as given, or at the objective's initialisation."""
    if start is not None:
        return start
    return objective.init(jax.random.split(jax.random.fold_in(key, 0))[0], example)


@jit(static_argnames="statics")
def _start(
    statics: _Statics, algorithm: Any, objective: Any, key: Array, rows: Rows, start: Any = None
) -> Chain:
    params = initial(objective, key, rows.data, start)
    state_key = jax.random.split(jax.random.fold_in(key, 0))[1]
    batch = rows.batch(
        jax.random.fold_in(key, 2), jnp.zeros((), int), statics.batch_size, statics.with_replacement
    )
    state = algorithm.init(state_key, objective, params, batch)
    # A weakly typed leaf would turn strong after the first step, and compile everything twice.
    state = jax.tree.map(_strongly_typed, state)
    first = jax.eval_shape(
        functools.partial(_step, statics, algorithm, objective, rows, key, 0), 0, state
    )[1]
    kept = jax.eval_shape(algorithm.keep, state)
    info = jax.tree.map(functools.partial(_room_for, statics.history_length), first)
    stored = jax.tree.map(functools.partial(_room_for, statics.num_kept), kept)
    return Chain(state, stored, info, jnp.zeros((), jnp.int32))


def _strongly_typed(leaf: Any) -> Array:
    leaf = jnp.asarray(leaf)
    return jax.lax.convert_element_type(leaf, leaf.dtype)


def _room_for(count: int, leaf: Any) -> Array:
    return jnp.zeros((count, *leaf.shape), leaf.dtype)


def _step(statics: _Statics, algorithm, objective, rows: Rows, key, first_step, index, state):
    step_key = jax.random.fold_in(jax.random.fold_in(key, 1), index)
    batch = rows.batch(
        jax.random.fold_in(key, 2), index - first_step, statics.batch_size, statics.with_replacement
    )
    return algorithm.step(step_key, objective, state, batch)


@jit(static_argnames="statics", donate_argnames="chain")
def _advance(
    statics: _Statics,
    algorithm: Any,
    objective: Any,
    rows: Rows,
    timing: Timing,
    start: int,
    stop: int,
    key: Array,
    chain: Chain,
) -> Chain:
    """Run steps start … stop − 1: the bounds are data, so every chunk is the same program.

    Steps come in segments that end where something is stored. A segment cut short by `stop` stores
    a provisional value, which the segment's true end overwrites.
    """

    def one_step(carry):
        index, state, info = carry
        state, new = _step(
            statics, algorithm, objective, rows, key, timing.first_step, index, state
        )
        return index + 1, state, {name: info[name].at[index].set(new[name]) for name in info}

    def goes_on(index, end, state):
        return (index < end) & ~algorithm.is_finished(state)

    def segment(carry):
        index, chain = carry
        slot = jnp.maximum(index - timing.num_warmup, 0) // timing.thin
        sampling_end = timing.num_warmup + (slot + 1) * timing.thin
        end = jnp.where(index < timing.num_warmup, timing.num_warmup, sampling_end)
        end = jnp.minimum(end, stop)
        index, state, info = jax.lax.while_loop(
            lambda inner: goes_on(inner[0], end, inner[1]),
            one_step,
            (index, chain.state, chain.info),
        )
        value = algorithm.keep(state)
        kept = jax.tree.map(lambda buffer, leaf: buffer.at[slot].set(leaf), chain.kept, value)
        return index, Chain(state, kept, info, index)

    first = jnp.asarray(start, jnp.int32)
    return jax.lax.while_loop(
        lambda carry: goes_on(carry[0], stop, carry[1].state), segment, (first, chain)
    )[1]
