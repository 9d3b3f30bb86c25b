"""More members for an ensemble that has been fitted, perhaps saved and loaded since."""

import dataclasses
import os
from numbers import Integral
from typing import Any

import numpy as np
from jaxtyping import Array

from credo.errors import CredoError
from credo.inference.engine import fit
from credo.inference.ensemble import Ensemble
from credo.inference.registry import method_from
from credo.model.checks import check_pair
from credo.networks.prior_function import PriorFunction
from credo.posterior import Mixture, Posterior, Samples, mix
from credo.predictive import check_inputs


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
        >>> model = credo.Model(credo.networks.MLP(hidden=(8,)), credo.Categorical(3))
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
    check_inputs(check_pair(data)[0], record.input_shape)
    model = posterior.model
    if isinstance(model.network, PriorFunction):  # the fit puts it around the network again
        model = dataclasses.replace(model, network=model.network.network)
    more = dataclasses.replace(method, size=size - method.size, first=method.first + method.size)
    new = fit(
        model, data, more, key, temperature=record.temperature, checkpoint=checkpoint,
        keep_checkpoint=keep_checkpoint, progress=progress,
    )  # fmt: skip
    old = [posterior, new]
    histories = (posterior.record.history, new.record.history)
    joined = {n: np.concatenate([histories[0][n], histories[1][n]]) for n in histories[1]}
    options = {**record.options, "size": size}
    seconds = record.seconds + new.record.seconds
    whole: Samples | Mixture = mix(old)
    record = dataclasses.replace(record, options=options, history=joined, seconds=seconds)
    return dataclasses.replace(whole, record=record)
