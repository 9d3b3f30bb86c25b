"""What the methods with noisy units share: where noise enters, and the penalty it implies."""

from collections.abc import Callable, Iterable
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array

from credo.errors import CredoError
from credo.model import Target
from credo.networks import Noise, Params, site_shapes
from credo.networks.fed_weights import fed_weights
from credo.posterior.noisy import multiplier_shape

Where = Literal["all", "dense"]


def noise_sites(target: Target, params: Params, where: Where, with_input: bool) -> dict[str, tuple]:
    """The sites that get noise, in order, with the shape of their units.

    `dense` leaves out the outputs of convolutions: noise after inner-product layers only.
    """
    sites = site_shapes(target.model.network, params["network"], target.input_shape)
    if not sites:
        raise CredoError(
            f"{type(target.model.network).__name__} names no noise sites, so unit noise has "
            "nowhere to act; give an Equinox module eqx.nn.Dropout layers, write a network class "
            "whose apply(params, x, noise) calls noise(site, units), or choose a method that needs "
            "no sites"
        )
    first = input_site(target)

    def is_wanted(site: str, shape: tuple) -> bool:
        return with_input if site == first else where == "all" or len(shape) == 1

    return {site: shape for site, shape in sites.items() if is_wanted(site, shape)}


def input_site(target: Target) -> str | None:
    """The site where the raw inputs enter, if the network has one."""
    return getattr(target.model.network, "input_site", None)


def row_noise(key: Array, draw: dict[str, Callable], channelwise: bool) -> Noise:
    """Noise drawn afresh for every row; `draw[site](key, shape)` gives a site's multipliers."""
    order = {site: index for index, site in enumerate(draw)}

    def noise(site: str, units: Array) -> Array:
        if site not in draw:
            return units
        shape = (units.shape[0], *multiplier_shape(units.shape[1:], channelwise))
        site_key = jax.random.fold_in(key, order[site])
        if len(shape) == 2:
            return units * draw[site](site_key, shape).astype(units.dtype)
        # Convolutions lay out their units with the rows last: drawn so, nothing is transposed.
        rows_last = draw[site](site_key, (shape[-1], *shape[1:-1], shape[0]))
        return units * rows_last.astype(units.dtype).swapaxes(0, -1)

    return noise


def penalty(target: Target, params: Params, second_moment: dict[str, Any]) -> Array:
    """Σ (E[z²] − 1) W² / 2s² over the weights that a noisy site feeds.

    The noise makes a weight W z with E[z] = 1, so the prior's penalty (W − m)² / 2s² grows by this
    term. For inverted dropout E[z²] = 1 / (1 − p), for N(1, α) it is 1 + α. Weights that several
    sites feed get the mean of their second moments.
    """
    scales = jax.tree.leaves(target.model.prior_scales(params)["network"])
    weights = jax.tree.leaves(params["network"])
    fed = fed_leaves(target, params, second_moment)
    total = jnp.zeros(())
    for number, (scale, weight) in enumerate(zip(scales, weights, strict=True)):
        moments = [moment for site, moment in second_moment.items() if number in fed[site]]
        if moments:
            excess = sum(moments) / len(moments) - 1.0
            total += 0.5 * excess * jnp.sum(jnp.square(weight / scale))
    return total


def fed_leaves(target: Target, params: Params, sites: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """The parameter arrays that each site feeds, by their number among the network's leaves.

    A site with the name of a layer feeds its weights `w`; for others the network is traced.
    """
    network = params["network"]
    numbers = jax.tree.unflatten(jax.tree.structure(network), range(len(jax.tree.leaves(network))))
    layers = numbers if isinstance(numbers, dict) else {}
    named: dict[str, tuple[int, ...]] = {
        site: (layers[site]["w"],)
        for site in sites
        if isinstance(layers.get(site), dict) and isinstance(layers[site].get("w"), int)
    }
    if all(site in named for site in sites):
        return named
    return fed_weights(target.model.network, network, target.input_shape) | named
