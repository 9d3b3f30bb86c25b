"""Methods that start from a network that is trained already."""

import time
from dataclasses import asdict, replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from credo.caching import enable_compilation_cache
from credo.data.units import Units
from credo.errors import CredoError
from credo.inference.normal.curvature import Curvature
from credo.inference.normal.laplace import Laplace, Layers, Structure, approximate, check_network
from credo.model import Batch, Model, Target, check_data, check_pair
from credo.networks import Params
from credo.posterior import Mixture, NoisyNetwork, Posterior, Record, Samples


def laplace(
    trained: Posterior | tuple[Model, Params],
    data: Any,
    structure: Structure = "kron",
    *,
    layers: Layers = "last",
    curvature: Curvature = "ggn",
    num_weights: int = 100,
    tune_prior: bool = True,
    linearized: bool = True,
    temperature: float | None = None,
) -> Posterior:
    """A Laplace approximation around a trained network, without training it any further.

    Args:
        trained: what `credo.fit` gave with one set of weights (`credo.MAP`, dropout, …), or a pair
            of a model and its parameters, any pytree, wherever they were trained: those of the
            network alone, or {"network": …, "likelihood": …} where the likelihood has its own, as
            `Normal()` has {"log_scale": …}.
        data: the training data, a pair of x and y: the curvature is a sum over them.
        temperature: by default that of the fit.

    The other arguments are the fields of `credo.Laplace`.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.default_model(3, credo.networks.MLP(hidden=(16,)))
        >>> trained = credo.fit(model, data.train, credo.MAP(num_steps=200))
        >>> posterior = credo.laplace(trained, data.train)
        >>> credo.predict(posterior, data.test.x).probs.shape[1]
        3
    """
    enable_compilation_cache()
    began = time.perf_counter()
    method = Laplace(structure, layers, curvature, num_weights, tune_prior, linearized)
    model, params = _model_and_params(trained)
    check_network(method, model)
    units = Units() if isinstance(trained, tuple) else trained.record.units
    x, y = check_pair(data)
    batch = check_data(model, (units.inputs_of(x), units.targets_of(y)))
    _check_rows(trained, model, params, batch)
    before = Record(batch.x.shape[1:]) if isinstance(trained, tuple) else trained.record
    temperature = before.temperature if temperature is None else temperature
    target = Target(model, len(batch.x), batch.x.shape[1:], temperature)
    posterior = approximate(method, target, params, batch)
    chosen = ("structure", "layers", "curvature", "num_weights", "tune_prior", "linearized")
    options = {name: value for name, value in asdict(method).items() if name in chosen}
    record = Record(
        target.input_shape, units, "laplace", options,
        before.seconds + time.perf_counter() - began, posterior.record.history,
        target.temperature, num_data=len(batch.x), origin=before.origin,
    )  # fmt: skip
    return replace(posterior, record=record)  # type: ignore[type-var]


def _model_and_params(trained: Any) -> tuple[Model, Params]:
    """The model and one set of parameters, {"network": …, "likelihood": …}."""
    if isinstance(trained, tuple):
        return _checked_pair(trained)
    if not isinstance(trained, Posterior) or trained.model is None:
        raise CredoError(
            f"laplace needs what credo.fit gave, or a pair (model, params), got {_kind(trained)}"
        )
    if isinstance(trained, Mixture):
        raise CredoError(
            f"laplace needs one set of weights, got a mixture of {trained.num_members}; pass one "
            "of them, posterior.member(i), or fit credo.Ensemble('laplace')"
        )
    if isinstance(trained, Samples):
        if trained.num_draws != 1:
            raise CredoError(
                f"laplace needs one set of weights, got {trained.num_draws} draws; fit with "
                "credo.MAP, or pass (model, params)"
            )
        return trained.model, jax.tree.map(lambda leaf: leaf[0, 0], trained.draws)
    if isinstance(trained, NoisyNetwork):
        return trained.model, trained.params
    return trained.model, trained.mean  # type: ignore[attr-defined]


def _checked_pair(pair: tuple) -> tuple[Model, Params]:
    if len(pair) != 2 or not isinstance(pair[0], Model):
        got = ", ".join(_kind(part) for part in pair)
        raise CredoError(f"laplace needs a pair (model, params), in this order, got ({got})")
    model, params = pair
    own = model.likelihood.init()
    if not (isinstance(params, dict) and set(params) == {"network", "likelihood"}):
        params = {"network": params, "likelihood": {}}
    if set(params["likelihood"]) != set(own):
        raise CredoError(
            f"laplace: {type(model.likelihood).__name__} has parameters {sorted(own)} of its own, "
            f"got {sorted(params['likelihood'])}; pass (model, {{'network': params, 'likelihood': "
            f"{{{', '.join(f'{name!r}: …' for name in sorted(own))}}}}})"
        )
    return model, jax.tree.map(_floating, params)


def _check_rows(trained: Any, model: Model, params: Params, data: Batch) -> None:
    """Raise where the data are not of the shape that the network takes."""
    got = data.x.shape[1:]
    expected = () if isinstance(trained, tuple) else tuple(trained.record.input_shape)
    if expected and got != expected:
        raise CredoError(
            f"laplace: the model was fitted on rows of shape {expected}, got {got}; give the data "
            "it was trained on, with the same features in the same order"
        )
    try:
        jax.eval_shape(model.outputs, params, data.x)
    except CredoError:
        raise
    except Exception as error:
        raise CredoError(
            f"laplace: the network cannot be applied with these parameters to rows of shape {got}: "
            f"{error}; pass the parameters it was trained with, and its training data"
        ) from error


def _kind(thing: Any) -> str:
    return type(thing).__name__


def _floating(leaf: Any) -> Array:
    return jnp.asarray(leaf, jnp.result_type(float))
