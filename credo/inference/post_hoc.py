"""Methods that start from a network that is trained already."""

from dataclasses import asdict, replace
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from credo.caching import enable_compilation_cache
from credo.errors import CredoError
from credo.inference.curvature import Curvature
from credo.inference.engine import check_data
from credo.inference.laplace import Laplace, Layers, Structure, approximate, check_network
from credo.model import Model, Target
from credo.networks import Params
from credo.posterior import Posterior, Record


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
    temperature: float = 1.0,
) -> Posterior:
    """A Laplace approximation around a trained network, without training it any further.

    Args:
        trained: what `credo.fit` gave with one set of weights (`credo.MAP`, dropout, …), or a pair
            of a model and its parameters, any pytree, wherever they were trained.
        data: the training data, a pair of x and y: the curvature is a sum over them.

    The other arguments are the fields of `credo.Laplace`.

    Example:
        >>> data = credo.data.load("iris")
        >>> model = credo.Model(credo.networks.MLP(hidden=(16,)), credo.Categorical(3))
        >>> trained = credo.fit(model, data.train, credo.MAP(num_steps=200))
        >>> posterior = credo.laplace(trained, data.train)
        >>> credo.predict(posterior, data.test.x).probs.shape[1]
        3
    """
    enable_compilation_cache()
    method = Laplace(structure, layers, curvature, num_weights, tune_prior, linearized)
    model, params = _model_and_params(trained)
    check_network(method, model)
    batch = check_data(model, data)
    target = Target(model, len(batch.x), batch.x.shape[1:], temperature)
    posterior = approximate(method, target, params, batch)
    chosen = ("structure", "layers", "curvature", "num_weights", "tune_prior", "linearized")
    options = {name: value for name, value in asdict(method).items() if name in chosen}
    record = Record(target.input_shape, "laplace", options, history=posterior.record.history)
    return replace(posterior, record=record)


def _model_and_params(trained: Any) -> tuple[Model, Params]:
    """The model and one set of parameters, {"network": …, "likelihood": …}."""
    if isinstance(trained, tuple):
        model, params = trained
        if not (isinstance(params, dict) and set(params) == {"network", "likelihood"}):
            params = {"network": params, "likelihood": model.likelihood.init()}
        return model, jax.tree.map(_floating, params)
    if hasattr(trained, "draws"):
        if trained.num_draws != 1:
            raise CredoError(
                f"laplace needs one set of weights, got {trained.num_draws} draws; fit with "
                "credo.MAP, or pass (model, params)"
            )
        return trained.model, jax.tree.map(lambda leaf: leaf[0, 0], trained.draws)
    return trained.model, trained.params if hasattr(trained, "params") else trained.mean


def _floating(leaf: Any) -> Array:
    return jnp.asarray(leaf, jnp.result_type(float))
