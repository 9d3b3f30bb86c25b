"""New data for a posterior that has been fitted: the filter's update, and the exact one."""

import dataclasses
import os
import time
import warnings
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from credo.errors import CredoError, CredoWarning
from credo.inference.denfi import Assimilation, DEnFi, padded, starts_of
from credo.inference.engine import infer
from credo.inference.exact import check_size, updated
from credo.inference.registry import as_method, method_from, options_of
from credo.keys import as_key
from credo.model import Target
from credo.model.checks import check_data, check_pair
from credo.posterior import Posterior, Samples
from credo.posterior.dense import DenseNormal
from credo.predictive import check_inputs


def update(
    posterior: Posterior,
    data: Any,
    method: DEnFi | str | None = None,
    key: int | Array = 0,
    *,
    checkpoint: str | os.PathLike | None = None,
    progress: bool | None = None,
) -> Posterior:
    """Take new data into a posterior that `credo.fit` made with `credo.DEnFi` or `credo.Exact`.

    An exact posterior becomes that of the old and the new rows together, and its recorded log
    evidence that of both.

    Args:
        data: for the filter all data so far, old and new, or with `memory="new"` the new rows
            alone; for an exact posterior the new rows alone.
        method: the filter, by default the one the posterior was made with.
        key: an integer seed or a JAX key. The number of updates so far is folded into it: the same
            key twice gives different noise. The exact update has none.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.Model(credo.networks.MLP(hidden=(8,)), credo.Categorical(3))
        >>> few = data.train.x[:50], data.train.y[:50]
        >>> before = credo.fit(model, few, credo.DEnFi(size=2, num_steps=100))
        >>> after = credo.update(before, data.train)
    """
    record = posterior.record
    if method is None and record.method == "exact" and isinstance(posterior, DenseNormal):
        return _update_exactly(posterior, data)
    if method is None and record.method != "denfi":
        raise CredoError(
            f"only an ensemble of credo.DEnFi or a posterior of credo.Exact can be updated, got "
            f"one of {record.method!r}; fit with credo.DEnFi()"
        )
    chosen = as_method(method) if method else method_from(record.method, record.options)
    if not isinstance(chosen, DEnFi):
        raise CredoError(f"an update needs credo.DEnFi(), got {method!r}")
    check_inputs(check_pair(data)[0], record.input_shape)
    rows = check_data(posterior.model, data, whole=False)
    if chosen.memory == "all" and len(rows.x) < record.num_data:
        warnings.warn(
            f"denfi: the update has {len(rows.x)} rows, fewer than the {record.num_data} before "
            "it, and learns from these alone: with memory='all' give old and new rows together, "
            "or fit with memory='new'",
            CredoWarning,
            stacklevel=2,
        )
    batch = padded(rows)
    target = Target(posterior.model, len(batch.x), batch.x.shape[1:], record.temperature)
    count = record.num_updates + 1
    noise_key, run_key = jax.random.split(jax.random.fold_in(as_key(key), count))
    starts = starts_of(chosen, posterior, noise_key)  # type: ignore[arg-type]
    found = infer(
        target, batch, Assimilation(chosen), run_key, starts, checkpoint=checkpoint,
        progress=progress,
    )  # fmt: skip
    assert isinstance(found, Samples)
    record = dataclasses.replace(
        found.record, method="denfi", options=options_of(chosen), extra=record.extra,
        input_shape=record.input_shape, num_data=len(rows.x), num_updates=count,
    )  # fmt: skip
    return dataclasses.replace(found, record=record)


def _update_exactly(posterior: DenseNormal, data: Any) -> DenseNormal:
    began = time.perf_counter()
    record = posterior.record
    check_inputs(check_pair(data)[0], record.input_shape)
    batch = check_data(posterior.model, data)
    target = Target(posterior.model, len(batch.x), batch.x.shape[1:], record.temperature)
    check_size(target, posterior.mean)
    mean, factor, evidence = jax.block_until_ready(updated(target, posterior, batch))
    total = record.history["log_evidence"] + np.asarray(evidence)
    seconds = record.seconds + time.perf_counter() - began
    record = dataclasses.replace(
        record, seconds=seconds, history={**record.history, "log_evidence": total},
        num_data=record.num_data + len(batch.x), num_updates=record.num_updates + 1,
    )  # fmt: skip
    return dataclasses.replace(posterior, mean=mean, factor=factor, record=record)
