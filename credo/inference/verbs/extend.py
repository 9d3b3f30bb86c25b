"""More members for an ensemble that has been fitted, perhaps saved and loaded since."""

import dataclasses
import os
from numbers import Integral
from typing import Any

import numpy as np
from jaxtyping import Array

from credo.errors import CredoError
from credo.inference.ensembles.ensemble import Ensemble
from credo.inference.registry import method_from
from credo.inference.verbs.fit import fit
from credo.networks.prior_function import PriorFunction
from credo.posterior import Mixture, Posterior, Samples, mix, replace_record


def extend(
    posterior: Posterior,
    data: Any,
    size: int,
    key: int | Array = 0,
    *,
    checkpoint: str | os.PathLike | None = None,
    keep_checkpoint: bool = False,
    progress: bool | None = None,
) -> Posterior:
    """The ensemble with further members, `size` in all, fitted to the same data.

    With the key of the first fit, the result is that of `Ensemble(size=size)`
    from the start, to the bit.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.default_model(3, credo.networks.MLP(hidden=(8,)))
        >>> pair = credo.fit(model, data.train, credo.Ensemble(credo.MAP(num_steps=100), size=2))
        >>> credo.extend(pair, data.train, size=3).num_draws
        3
    """
    record = posterior.record
    if record.method != "ensemble":
        raise CredoError(f"only an ensemble can be extended, got a posterior of {record.method!r}")
    method = method_from(record.method, record.options)
    assert isinstance(method, Ensemble)
    if not (isinstance(size, Integral) and size > method.size):
        raise CredoError(
            f"the ensemble has {method.size} members already; size must be a larger whole number, "
            f"got {size!r}"
        )
    model = posterior.model
    if isinstance(model.network, PriorFunction):  # the fit puts it around the network again
        model = dataclasses.replace(model, network=model.network.network)
    more = dataclasses.replace(method, size=size - method.size, first=method.first + method.size)
    new = fit(
        model, data, more, key, units=record.units, temperature=record.temperature,
        checkpoint=checkpoint, keep_checkpoint=keep_checkpoint, progress=progress,
    )  # fmt: skip
    if new.record.input_shape != record.input_shape:
        raise CredoError(
            f"the ensemble was fitted on rows of shape {record.input_shape}, got "
            f"{new.record.input_shape}; give the data it was fitted to"
        )
    histories = (record.history, new.record.history)
    joined = {n: np.concatenate(padded([h[n] for h in histories])) for n in histories[1]}
    whole: Samples | Mixture = mix([posterior, new])
    return replace_record(
        dataclasses.replace(whole, record=record),
        options={**record.options, "size": int(size)},
        history=joined,
        seconds=record.seconds + new.record.seconds,
    )


def padded(histories: list[np.ndarray]) -> list[np.ndarray]:
    """Histories of one length: those of members that stopped earlier end in NaN."""
    longest = max(history.shape[1] for history in histories)
    if all(history.shape[1] == longest for history in histories):
        return histories
    return [
        np.pad(h.astype(float), [(0, 0), (0, longest - h.shape[1])], constant_values=np.nan)
        for h in histories
    ]
