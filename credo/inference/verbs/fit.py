"""`credo.fit`: data and a method in, a posterior out."""

import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from credo.data.origin import Origin
from credo.data.source import Batch, Source, resident
from credo.data.stream import Stream
from credo.data.units import Units
from credo.engine import Algorithm, Run, run
from credo.engine.descent import held_out_rows
from credo.errors import CredoError, CredoWarning
from credo.inference.method import Method
from credo.inference.registry import as_method, name_of, options_of
from credo.keys import as_key
from credo.model import Model, Target, check_data, check_pair
from credo.posterior import Posterior, replace_record

WARNING_ROWS = 100  # rows of a stream that warnings look at


def fit(
    model: Model,
    data: Any,
    method: Method | str = "auto",
    key: int | Array = 0,
    *,
    units: Units | None = None,
    temperature: float = 1.0,
    row_weights: Any = None,
    class_weights: Mapping[Any, float] | None = None,
    checkpoint: str | os.PathLike | None = None,
    checkpoint_seconds: float = 20.0,
    keep_checkpoint: bool = False,
    progress: bool | None = None,
    observe_every: int | None = None,
    observe: Callable[[int, Posterior], None] | None = None,
    origin: Origin | None = None,
    require_all_classes: bool = True,
    padded: bool = False,
) -> Posterior:
    """Infer the posterior of `model` given `data` with `method`.

    Args:
        data: a pair of x and y, or a source of batches such as `credo.data.stream_arrays` gives.
        method: an instance such as `credo.HMC()`, or a name such as "hmc" for its defaults; without
            one, `auto`, which needs no tuning.
        key: an integer seed or a JAX key; the same key gives the same bits.
        units: how x and y as you have them become what network and likelihood take, such as
            `credo.data.Units.standardizing(x, y)`; predictions then speak in these units too.
        temperature: 1 for the Bayesian posterior, below 1 for a cold one.
        row_weights: how much each row counts: its log-likelihood is multiplied by it.
        class_weights: the same by class, {0: 1.0, 1: 5.0}, or by name where `units` has names.
        checkpoint: a file to save the run to every `checkpoint_seconds`, and to resume from if it
            exists; removed when the run is done.
        keep_checkpoint: leave it there, for a caller who removes it once the posterior is safe.
        progress: show a progress bar; by default only on a terminal.
        observe: called with the number of steps and the posterior so far every `observe_every`
            steps.
        origin: where the rows are to be found again, kept with the posterior.
        require_all_classes: False for the first part of a stream, whose labels may be of one class.
        padded: fill up the rows to a power of two for methods that see all data at every step too,
            so that a growing data set compiles few programs, at up to twice the work.

    Example:
        >>> data = credo.data.load("digits")
        >>> model = credo.Model(credo.networks.MLP(hidden=(32,)), credo.likelihoods.Categorical(10))
        >>> posterior = credo.fit(model, data.train, credo.MAP(num_steps=100))
    """
    chosen = as_method(method)
    units = units or Units()
    if not hasattr(data, "segment"):
        model, units = chosen.adapted(model, units, *check_pair(data))
    rows, source, target = prepared(
        model, data, chosen, key, units, temperature, row_weights, class_weights,
        require_all_classes, padded,
    )  # fmt: skip
    facts = {
        "input_shape": target.input_shape, "num_data": source.num_rows, "units": units,
        "origin": origin,
    }  # fmt: skip
    setup = chosen.setup(target, source, rows, units, key)
    watch = None
    if observe is not None:

        def watch(step: int, so_far: Run) -> None:
            found = chosen.posterior(setup.objective, so_far.states, so_far.kept)
            observe(step, described(found, chosen, target, so_far, **facts))

    return infer(
        setup.objective, setup.source, rows, chosen, key, setup.starts,
        algorithm=setup.algorithm, facts=facts, checkpoint=checkpoint,
        checkpoint_seconds=checkpoint_seconds, keep_checkpoint=keep_checkpoint, progress=progress,
        observe_every=observe_every, observe=watch,
    )  # fmt: skip


def prepared(
    model: Model,
    data: Any,
    method: Method,
    key: int | Array,
    units: Units,
    temperature: float,
    row_weights: Any = None,
    class_weights: Mapping[int, float] | None = None,
    require_all_classes: bool = True,
    padded: bool = False,
) -> tuple[Batch, Source, Target]:
    """The rows that need to be seen at once, the source of batches, and the target."""
    if hasattr(data, "segment"):
        return _streamed(model, data, method, temperature, units, row_weights, class_weights)
    x, y = check_pair(data)
    x = units.inputs_of(x)
    class_weights = units.class_weights_of(class_weights)
    rows = check_data(
        model, (x, units.targets_of(y)), require_all_classes, row_weights, class_weights
    )
    held_out = None
    if method.held_out_fraction > 0:
        split_key = jax.random.fold_in(as_key(key), 2**31 - 2)
        chosen, held = held_out_rows(split_key, len(rows.x), method.held_out_fraction)
        held_out = resident(_part(rows, held), padded=True).rows.data
        rows = _part(rows, chosen)
    # Where steps see batches, filling up costs nothing.
    padded = padded or method.plan(len(rows.x)).batch_size is not None
    source = resident(rows, padded)
    target = Target(model, len(rows.x), rows.x.shape[1:], temperature, held_out=held_out)
    return rows, source, target


def _part(rows: Batch, chosen: np.ndarray) -> Batch:
    return jax.tree.map(lambda column: column[chosen], rows)


def _streamed(model, source: Source, method, temperature, units, row_weights, class_weights):
    if row_weights is not None or class_weights is not None:
        raise CredoError("weights of rows belong into the stream: give it blocks (x, y, weights)")
    plan = method.plan(source.num_rows)
    if plan.batch_size is None:
        raise CredoError(
            f"{name_of(method)} sees all rows at every step, and a stream has only some of them in "
            "memory; use a method with batches, such as map, ensemble or sgld, or load the rows"
        )
    if method.finishes_on_all_rows or method.held_out_fraction > 0:
        raise CredoError(
            f"{name_of(method)} with these settings needs all rows in memory after its run or to "
            "stop early; use map, swag, dropout, bayes-by-backprop, sgld or sghmc"
        )
    if isinstance(source, Stream):

        def prepare(x: np.ndarray, y: np.ndarray) -> Batch:
            rows = units.inputs_of(x), units.targets_of(y)
            return check_data(model, rows, require_all_classes=False)

        source = source.prepared_by(prepare)
    elif units != Units():
        raise CredoError(
            "a source of your own gives inputs and targets as the network takes them; leave units "
            "out, or apply them in the source"
        )
    data = source.segment(0, plan.batch_size).rows.data
    shape = jax.tree.leaves(data.x)[0].shape[1:]
    rows = jax.tree.map(lambda column: column[:WARNING_ROWS], data)
    return rows, source, Target(model, source.num_rows, shape, temperature)


def infer(
    target: Any,
    source: Source,
    rows: Any,
    method: Method,
    key: int | Array = 0,
    starts: list[Any] | None = None,
    *,
    algorithm: Algorithm | None = None,
    facts: Mapping[str, Any],
    **options: Any,
) -> Any:
    """Run a method, finish its posterior with all rows, and say what is to be said."""
    keep_checkpoint = options.pop("keep_checkpoint", False)
    done = run(
        algorithm or method,
        target,
        source,
        key,
        starts,
        name=name_of(method),
        keep_checkpoint=True,
        **options,
    )
    posterior = method.posterior(target, done.states, done.kept)
    if hasattr(posterior, "model"):
        posterior = replace_record(posterior, input_shape=facts.get("input_shape", ()))
    posterior = method.finish(target, posterior, rows)
    posterior = described(posterior, method, target, done, **facts)
    for message in method.warnings(target, posterior, rows, done.history):
        warnings.warn(message, CredoWarning, stacklevel=4)
    if not keep_checkpoint:
        done.checkpoint.remove()
    return posterior


def described(posterior: Any, method: Method, target: Any, done: Run, **facts: Any) -> Any:
    """The posterior with a record of how it was made."""
    return replace_record(
        posterior,
        method=name_of(method),
        options=options_of(method),
        seconds=done.seconds,
        temperature=target.temperature,
        num_warmup=min(done.plan.num_warmup, int(done.num_steps.max())),
        thin=done.plan.thin,
        history={**posterior.record.history, **done.history},
        **facts,
    )
