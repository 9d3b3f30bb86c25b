"""Posteriors as files: arrays in safetensors, everything else as JSON. Loading never runs code."""

import dataclasses
import os
from typing import Any

import jax
import numpy as np

from credo import files
from credo.errors import CredoError
from credo.model import (
    Bernoulli,
    Categorical,
    FanInPrior,
    LayerPrior,
    Model,
    Normal,
    NormalInputScale,
    NormalLearntScale,
    NormalPrior,
)
from credo.networks import MLP, LeNet, Network
from credo.posterior.dense import DenseNormal
from credo.posterior.noisy import NoisyNetwork
from credo.posterior.normal import NormalWeights
from credo.posterior.record import Record
from credo.posterior.samples import Samples

FORMAT = 1
Posterior = Samples | NoisyNetwork | NormalWeights | DenseNormal

PARTS = {
    part.__name__: part
    for part in (
        MLP, LeNet, Bernoulli, Categorical, Normal, NormalInputScale, NormalLearntScale,
        FanInPrior, LayerPrior, NormalPrior,
    )
}  # fmt: skip


def save(posterior: Posterior, path: str | os.PathLike) -> None:
    """Write a posterior as one safetensors file, whole or not at all."""
    record = posterior.record
    if posterior.model is None:
        raise CredoError(
            "draws of a bare log density cannot be saved as a model; use to_arviz(), or numpy.savez"
        )
    metadata = {
        "format": FORMAT,
        "posterior": type(posterior).__name__,
        "model": {
            field.name: _describe(field.name, getattr(posterior.model, field.name))
            for field in dataclasses.fields(posterior.model)
        },
        "record": {
            "input_shape": record.input_shape,
            "method": record.method,
            "options": record.options,
            "seconds": record.seconds,
            "extra": record.extra,
        },
    }
    arrays = files.flatten({"history": record.history})
    if isinstance(posterior, Samples):
        arrays |= files.flatten({"draws": posterior.draws})
        if posterior.weights is not None:
            arrays["weights"] = np.asarray(posterior.weights)
    elif isinstance(posterior, DenseNormal):
        arrays |= files.flatten({"mean": posterior.mean, "factor": posterior.factor})
    elif isinstance(posterior, NormalWeights):
        arrays |= files.flatten({"mean": posterior.mean, "std": posterior.std})
    else:
        metadata |= {"kind": posterior.kind, "channelwise": posterior.channelwise}
        arrays |= files.flatten({"params": posterior.params, "rates": posterior.rates})
    files.save_arrays(path, arrays, metadata)


def load(path: str | os.PathLike, network: Network | None = None) -> Posterior:
    """Read a posterior; a network of your own (not MLP or LeNet) must be passed as `network`.

    Example:
        >>> posterior = credo.load("digits.safetensors")  # doctest: +SKIP
    """
    arrays, metadata = files.load_arrays(path)
    if metadata.get("format") != FORMAT:
        raise CredoError(
            f"{path} has format {metadata.get('format')}, this credo reads format {FORMAT}; "
            "update credo or save the model anew"
        )
    record = _record(metadata["record"], arrays)
    model = _model(metadata["model"], network, path)
    template = jax.eval_shape(lambda: model.init(jax.random.key(0), record.input_shape))
    if metadata["posterior"] == "Samples":
        weights = None if "weights" not in arrays else jax.numpy.asarray(arrays["weights"])
        return Samples(model, _fill(template, arrays, "draws/"), record, weights)
    if metadata["posterior"] == "DenseNormal":
        factor = jax.numpy.asarray(arrays["factor"])
        return DenseNormal(model, _fill(template, arrays, "mean/"), factor, record)
    if metadata["posterior"] == "NormalWeights":
        mean, std = (_fill(template, arrays, prefix) for prefix in ("mean/", "std/"))
        return NormalWeights(model, mean, std, record)
    if metadata["posterior"] != "NoisyNetwork":
        raise CredoError(
            f"{path} holds a posterior of type {metadata['posterior']}, which this credo lacks; "
            "update credo"
        )
    stored_rates = {n: a for n, a in arrays.items() if n.startswith("rates/")}
    rates = {n.removeprefix("rates/"): jax.numpy.asarray(a) for n, a in stored_rates.items()}
    params = _fill(template, arrays, "params/")
    return NoisyNetwork(model, params, rates, metadata["kind"], metadata["channelwise"], record)


def _fill(template: Any, arrays: dict[str, np.ndarray], prefix: str) -> Any:
    filled = files.unflatten(template, arrays, prefix)
    for leaf, array in zip(jax.tree.leaves(template), jax.tree.leaves(filled), strict=True):
        if array.shape[array.ndim - leaf.ndim :] != leaf.shape:
            raise CredoError(
                f"a weight in the file has shape {array.shape}, the network expects {leaf.shape}; "
                "pass the network the file was saved from"
            )
    return jax.tree.map(jax.numpy.asarray, filled)


def _record(stored: dict, arrays: dict[str, np.ndarray]) -> Record:
    history = {n.removeprefix("history/"): a for n, a in arrays.items() if n.startswith("history/")}
    return Record(**{**stored, "input_shape": tuple(stored["input_shape"])}, history=history)


def _describe(role: str, part: Any) -> dict:
    if type(part) not in PARTS.values():
        if role != "network":
            raise CredoError(
                f"cannot save a {role} of your own ({type(part).__name__}): a file holds no code; "
                f"use one of credo's: {', '.join(PARTS)}"
            )
        return {"type": "custom", "name": type(part).__name__}
    fields = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    return {"type": type(part).__name__, "fields": fields}


def _model(stored: dict, network: Network | None, path: str | os.PathLike) -> Model:
    parts = {name: _build(part) for name, part in stored.items()}
    if network is not None:
        parts["network"] = network
    if parts["network"] is None:
        raise CredoError(
            f"{path} holds a network of your own ({stored['network']['name']}), whose code is not "
            "in the file; pass it: credo.load(path, network=...)"
        )
    return Model(**parts)


def _build(stored: dict) -> Any:
    if stored["type"] == "custom":
        return None
    if stored["type"] not in PARTS:
        raise CredoError(f"the file needs {stored['type']}, which this credo lacks; update credo")
    fields = {name: _tupled(value) for name, value in stored["fields"].items()}
    return PARTS[stored["type"]](**fields)


def _tupled(value: Any) -> Any:
    return tuple(_tupled(item) for item in value) if isinstance(value, list) else value
