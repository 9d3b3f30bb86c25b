"""Which weights the noise at a site multiplies, found by following the units through the network.

Networks of credo name a site after the layer it feeds. A network written elsewhere does not, so its
program is read: from each site on, the first product of the noisy units with a parameter array
(a matrix product or a convolution) is the layer that the site feeds.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
from jaxtyping import Array

from credo.networks.network import Network, Params

PRODUCTS = ("dot_general", "conv_general_dilated")
LAYOUTS = (
    "broadcast_in_dim", "concatenate", "convert_element_type", "copy", "optimization_barrier",
    "reshape", "rev", "slice", "squeeze", "transpose",
)  # fmt: skip
"""What leaves a parameter array the same numbers, some of them, or with others behind."""


class Origin(NamedTuple):
    """Where a value of the program comes from."""

    sites: frozenset[str] = frozenset()
    """Sites whose noise it carries, not yet multiplied by weights."""
    leaf: int | None = None
    """The parameter array that it is."""


def fed_weights(
    network: Network, params: Params, input_shape: tuple[int, ...]
) -> dict[str, tuple[int, ...]]:
    """For every site, the numbers of the leaves of `params` that it feeds; traced, not run."""

    def marked(params: Params, x: Array) -> Array:
        return network.apply(params, x, lambda site, units: checkpoint_name(units, site))

    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), params)
    row = jax.ShapeDtypeStruct((1, *input_shape), np.float32)
    program = jax.make_jaxpr(marked)(shapes, row)
    leaves = [Origin(leaf=number) for number in range(len(jax.tree.leaves(params)))]
    found: dict[str, set[int]] = {}
    _follow(program.jaxpr, [*leaves, Origin()], found)
    return {site: tuple(sorted(numbers)) for site, numbers in found.items()}


def _follow(program: Jaxpr, inputs: list[Origin], found: dict[str, set[int]]) -> list[Origin]:
    """The origins of the outputs of a program; notes in `found` what each site feeds."""
    origins: dict[Any, Origin] = dict(zip(program.invars, inputs, strict=True))
    known = lambda atom: (  # noqa: E731
        Origin() if isinstance(atom, Literal) else origins.get(atom, Origin())
    )
    for step in program.eqns:
        outputs = _outputs(step, [known(atom) for atom in step.invars], found)
        origins.update(zip(step.outvars, outputs, strict=True))
    return [known(atom) for atom in program.outvars]


def _outputs(step: Any, inputs: list[Origin], found: dict[str, set[int]]) -> list[Origin]:
    name = step.primitive.name
    sites = frozenset().union(*(origin.sites for origin in inputs))
    inner = [program for value in step.params.values() for program in _programs(value)]
    if inner:
        return _inner_outputs(step, inner, inputs, found)
    if name == "name":
        site = step.params["name"]
        found.setdefault(site, set())
        return [Origin(sites | {site})]
    if name in PRODUCTS and any(origin.leaf is not None for origin in inputs):
        for site in sites:
            found[site] |= {origin.leaf for origin in inputs if origin.leaf is not None}
        return [Origin()]
    leaf = inputs[0].leaf if name in LAYOUTS else None
    return [Origin(sites, leaf)] * len(step.outvars)


def _inner_outputs(
    step: Any, inner: list[Jaxpr], inputs: list[Origin], found: dict[str, set[int]]
) -> list[Origin]:
    """Follow the units into functions, branches and loops, which take the last of the inputs."""
    outputs = [Origin()] * len(step.outvars)
    for program in inner:
        taken = inputs[len(inputs) - len(program.invars) :]
        ends = _follow(program, taken, found)
        if step.primitive.name == "scan":  # noise of one pass may meet the weights of the next
            first = step.params["num_consts"]
            last = first + step.params["num_carry"]
            carried = [_joined(*pair) for pair in zip(taken[first:last], ends)]
            ends = _follow(program, [*taken[:first], *carried, *taken[last:]], found)
        if len(ends) == len(outputs):  # not the condition of a loop
            outputs = [_joined(*pair) for pair in zip(outputs, ends)]
    return outputs


def _joined(one: Origin, other: Origin) -> Origin:
    return Origin(one.sites | other.sites, one.leaf if other.leaf is None else other.leaf)


def _programs(value: Any) -> list[Jaxpr]:
    if isinstance(value, ClosedJaxpr):
        return [value.jaxpr]
    if isinstance(value, Jaxpr):
        return [value]
    return [p for each in value for p in _programs(each)] if isinstance(value, tuple) else []
