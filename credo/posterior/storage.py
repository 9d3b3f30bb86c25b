"""Posteriors as files: arrays in safetensors, everything else as JSON. Loading never runs code."""

import dataclasses
import os
from typing import Any, get_args

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
from credo.networks.prior_function import PriorFunction
from credo.posterior.dense import DenseNormal
from credo.posterior.kronecker import KroneckerNormal
from credo.posterior.low_rank import LowRankNormal
from credo.posterior.mixture import Mixture
from credo.posterior.noisy import NoisyNetwork
from credo.posterior.normal import NormalWeights
from credo.posterior.record import Record
from credo.posterior.samples import Samples

FORMAT = 2
Posterior = (
    Samples | NoisyNetwork | NormalWeights | DenseNormal | KroneckerNormal | LowRankNormal | Mixture
)
POSTERIORS: dict[str, Any] = {cls.__name__: cls for cls in get_args(Posterior)}
LIKE_WEIGHTS = ("draws", "params", "mean", "std")  # fields with the network's own structure

PARTS = {
    part.__name__: part
    for part in (
        MLP, LeNet, PriorFunction, Bernoulli, Categorical, Normal, NormalInputScale,
        NormalLearntScale, FanInPrior, LayerPrior, NormalPrior,
    )
}  # fmt: skip


def save(posterior: Posterior, path: str | os.PathLike) -> None:
    """Write a posterior as one safetensors file, whole or not at all."""
    record = posterior.record
    if posterior.model is None:
        raise CredoError(
            "draws of a bare log density cannot be saved as a model; use to_arviz(), or numpy.savez"
        )
    held, described = _describe_posterior(posterior)
    metadata = {
        "format": FORMAT,
        "model": {
            field.name: _describe(field.name, getattr(posterior.model, field.name))
            for field in dataclasses.fields(posterior.model)
        },
        "record": {
            "input_shape": record.input_shape,
            "method": record.method,
            "options": record.options,
            "seconds": record.seconds,
            "temperature": record.temperature,
            "num_warmup": record.num_warmup,
            "thin": record.thin,
            "num_data": record.num_data,
            "num_updates": record.num_updates,
            "extra": record.extra,
        },
        **described,
    }
    arrays = files.flatten({"history": record.history, **held})
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
    return _assemble(metadata, arrays, template, model, record)


def _describe_posterior(posterior: Posterior) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields that hold arrays, and type, plain fields and posteriors within as JSON."""
    arrays: dict[str, Any] = {}
    plain: dict[str, Any] = {}
    for field in dataclasses.fields(posterior):
        value = getattr(posterior, field.name)
        if field.name in ("model", "record"):
            continue
        if isinstance(value, bool | int | float | str):
            plain[field.name] = value
        elif isinstance(value, Posterior):
            arrays[field.name], plain[field.name] = _describe_posterior(value)
        else:
            arrays[field.name] = value
    return arrays, {"posterior": type(posterior).__name__, "fields": plain}


def _assemble(described: dict, arrays: dict, template: Any, model: Model, record: Record) -> Any:
    """The posterior that `_describe_posterior` took apart."""
    cls = POSTERIORS.get(described["posterior"])
    if cls is None:
        raise CredoError(
            f"the file holds a posterior of type {described['posterior']}, which this credo lacks; "
            "update credo"
        )
    fields: dict[str, Any] = {"model": model, "record": record}
    for field in dataclasses.fields(cls):
        name = field.name
        value = described["fields"].get(name)
        if isinstance(value, dict):
            inner = {n.removeprefix(f"{name}/"): a for n, a in arrays.items()}
            fields[name] = _assemble(value, inner, template, model, Record(record.input_shape))
        elif name not in fields and value is None:
            like_weights = name in LIKE_WEIGHTS
            fields[name] = (
                _fill(template, arrays, f"{name}/") if like_weights else _part(arrays, name)
            )
        elif value is not None:
            fields[name] = value
    return cls(**fields)


def _part(arrays: dict[str, np.ndarray], name: str) -> Any:
    """What was saved as `name`: an array, nested dictionaries of them, or None."""
    if name in arrays:
        return jax.numpy.asarray(arrays[name])
    inner = {n.removeprefix(f"{name}/"): a for n, a in arrays.items() if n.startswith(f"{name}/")}
    heads = dict.fromkeys(n.partition("/")[0] for n in inner)
    return {head: _part(inner, head) for head in heads} or None


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
    if "network" in fields:
        fields["network"] = _describe("network", fields["network"])
    return {"type": type(part).__name__, "fields": fields}


def _model(stored: dict, network: Network | None, path: str | os.PathLike) -> Model:
    parts = {name: _build(part) for name, part in stored.items()}
    if network is not None:
        parts["network"] = network
    if parts["network"] is None:
        raise CredoError(
            f"{path} holds a network of your own ({_custom_name(stored['network'])}), whose code "
            "is not in the file; pass it: credo.load(path, network=...)"
        )
    return Model(**parts)


def _build(stored: dict) -> Any:
    if stored["type"] == "custom":
        return None
    if stored["type"] not in PARTS:
        raise CredoError(f"the file needs {stored['type']}, which this credo lacks; update credo")
    fields = {name: _tupled(value) for name, value in stored["fields"].items()}
    if "network" in fields:
        fields["network"] = _build(fields["network"])
        if fields["network"] is None:  # code of the user's, within a network of ours
            return None
    return PARTS[stored["type"]](**fields)


def _tupled(value: Any) -> Any:
    return tuple(_tupled(item) for item in value) if isinstance(value, list) else value


def _custom_name(stored: dict) -> str:
    return stored.get("name") or _custom_name(stored["fields"]["network"])
