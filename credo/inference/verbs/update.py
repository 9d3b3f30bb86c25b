"""New data for a posterior that has been fitted: the filter's update, and the exact one."""

import os
import time
import warnings
from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from credo.data.source import resident
from credo.errors import CredoError, CredoWarning
from credo.inference.ensembles.denfi import Assimilation, DEnFi, inflated_starts
from credo.inference.normal.exact import check_size, updated
from credo.inference.registry import as_method, method_from, options_of
from credo.inference.verbs.fit import infer
from credo.keys import as_key
from credo.model import Batch, Target, check_data, check_pair
from credo.posterior import DenseNormal, Posterior, replace_record
from credo.predictive import check_inputs


def update(
    posterior: Posterior,
    data: Any,
    method: DEnFi | str | None = None,
    key: int | Array = 0,
    *,
    row_weights: Any = None,
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
        row_weights: how much each row counts, as in `credo.fit`.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.default_model(3, credo.networks.MLP(hidden=(8,)))
        >>> few = data.train.x[:50], data.train.y[:50]
        >>> before = credo.fit(model, few, credo.DEnFi(size=2, num_steps=100))
        >>> after = credo.update(before, data.train)
    """
    record = posterior.record
    if method is None and record.method == "exact" and isinstance(posterior, DenseNormal):
        return _update_exactly(posterior, data, row_weights)
    if method is None and record.method != "denfi":
        raise CredoError(
            f"only an ensemble of credo.DEnFi or a posterior of credo.Exact can be updated, got "
            f"one of {record.method!r}; fit with credo.DEnFi()"
        )
    chosen = as_method(method) if method else method_from(record.method, record.options)
    if not isinstance(chosen, DEnFi):
        raise CredoError(f"an update needs credo.DEnFi(), got {method!r}")
    rows = new_rows(posterior, data, False, row_weights)
    if chosen.memory == "all" and len(rows.x) < record.num_data:
        warnings.warn(
            f"denfi: the update has {len(rows.x)} rows, fewer than the {record.num_data} before "
            "it, and learns from these alone: with memory='all' give old and new rows together, "
            "or fit with memory='new'",
            CredoWarning,
            stacklevel=2,
        )
    target = Target(posterior.model, len(rows.x), rows.x.shape[1:], record.temperature)
    count = record.num_updates + 1
    noise_key, run_key = jax.random.split(jax.random.fold_in(as_key(key), count))
    starts = inflated_starts(chosen, posterior, noise_key)  # type: ignore[arg-type]
    facts = {
        "input_shape": record.input_shape, "units": record.units, "origin": record.origin,
        "num_data": len(rows.x), "num_updates": count,
    }  # fmt: skip
    found = infer(
        target, resident(rows, padded=True), rows, Assimilation(chosen), run_key, starts,
        facts=facts, checkpoint=checkpoint, progress=progress,
    )  # fmt: skip
    return replace_record(found, method="denfi", options=options_of(chosen))


def new_rows(
    posterior: Posterior, data: Any, require_all_classes: bool, row_weights: Any = None
) -> Batch:
    """Rows in the user's units as the model takes them."""
    x, y = check_pair(data)
    pair = check_inputs(posterior, x), posterior.record.units.targets_of(y)
    return check_data(posterior.model, pair, require_all_classes, row_weights)


def _update_exactly(posterior: DenseNormal, data: Any, row_weights: Any) -> DenseNormal:
    began = time.perf_counter()
    record = posterior.record
    rows = new_rows(posterior, data, True, row_weights)
    target = Target(posterior.model, len(rows.x), rows.x.shape[1:], record.temperature)
    check_size(target, posterior.mean, len(rows.x))
    padded = resident(rows, padded=True).rows.data  # one program for many numbers of rows
    mean, factor, evidence = jax.block_until_ready(updated(target, posterior, padded))
    total = record.history["log_evidence"] + np.asarray(evidence)
    found = DenseNormal(posterior.model, mean, factor, record=record)
    return replace_record(
        found, seconds=record.seconds + time.perf_counter() - began,
        history={**record.history, "log_evidence": total},
        num_data=record.num_data + len(rows.x), num_updates=record.num_updates + 1,
    )  # fmt: skip
