"""Undo what permutations of hidden units hide: match the units of one network to another's.

Permuting the units of a hidden layer, with the rows and columns that belong to them, leaves the
function as it is. Weight matching looks for the permutations that maximise ⟨θ_ref, π(θ)⟩, one layer
at a time (a linear assignment problem), until none improves.

Reference: Ainsworth, Hayase & Srinivasa, Git Re-Basin: Merging Models modulo Permutation
Symmetries, ICLR 2023.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from credo.errors import CredoError
from credo.model import Model
from credo.networks import MLP, LeNet, Params

MOST_SWEEPS = 50
Permutations = dict[str, Int[np.ndarray, " units"]]
Matrices = dict[str, np.ndarray]


def permute(model: Model, params: Params, permutations: Permutations) -> Params:
    """Reorder hidden units: unit i of a layer becomes what unit `permutations[layer][i]` was.

    Example:
        >>> model = credo.Model(credo.networks.MLP(hidden=(3,)), credo.likelihoods.Categorical(2))
        >>> params = model.init(jax.random.key(0), (4,))
        >>> swapped = permute(model, params, {"dense0": np.array([2, 0, 1])})
        >>> bool(swapped["network"]["dense0"]["w"][0, 0] == params["network"]["dense0"]["w"][0, 2])
        True
    """
    names = _layers(model, params)
    for name, order in permutations.items():
        units = params["network"][name]["b"].shape[0] if name in names[:-1] else 0
        if not np.array_equal(np.sort(order), np.arange(units)):
            raise CredoError(
                f"permutations must name hidden layers ({', '.join(names[:-1])}), each with an "
                f"order of all its units, got {name!r} with {np.asarray(order).tolist()}"
            )
    network = {name: dict(layer) for name, layer in params["network"].items()}
    for name, following in itertools.pairwise(names):
        if name not in permutations:
            continue
        order = np.asarray(permutations[name])
        network[name] = {kind: leaf[..., order] for kind, leaf in network[name].items()}
        weight = jnp.asarray(network[following]["w"])
        # Where an image was flattened, every position has its own copy of each channel.
        grouped = weight.reshape(-1, len(order), weight.shape[-1])
        network[following]["w"] = grouped[:, order].reshape(weight.shape)
    return {**params, "network": network}


def random_permutations(seed: int, model: Model, params: Params) -> Permutations:
    """A uniformly random order of the units of every hidden layer."""
    rng = np.random.default_rng(seed)
    return {
        name: rng.permutation(params["network"][name]["b"].shape[0])
        for name in _layers(model, params)[:-1]
    }


def align(model: Model, reference: Params, params: Params) -> tuple[Params, Permutations]:
    """`params` with its hidden units in the order that matches `reference` best, and that order.

    The first pass, from the input on, looks at incoming weights only: outgoing ones are still
    scrambled by the layers to come. It finds the order of an exact copy at once.
    """
    names = _layers(model, params)
    shapes = [jax.tree.map(np.shape, each["network"]) for each in (reference, params)]
    if shapes[0] != shapes[1]:
        raise CredoError(f"networks of one shape can be matched, got {shapes[0]} and {shapes[1]}")
    ours, theirs = _matrices(names, params), _matrices(names, reference)
    orders = {name: np.arange(ours[name].shape[-1]) for name in names}
    for index, name in enumerate(names[:-1]):
        orders[name] = _matched(_incoming(names, index, ours, theirs, orders))
    for _ in range(MOST_SWEEPS):
        before = {name: order.copy() for name, order in orders.items()}
        for index, name in enumerate(names[:-1]):
            gain = _incoming(names, index, ours, theirs, orders)
            gain += _outgoing(names, index, ours, theirs, orders)
            orders[name] = _matched(gain)
        if all(np.array_equal(orders[name], before[name]) for name in names):
            break
    found = {name: orders[name] for name in names[:-1]}
    return permute(model, params, found), found


def _layers(model: Model, params: Params) -> list[str]:
    """The names of the layers from input to output."""
    if not isinstance(model.network, MLP | LeNet):
        raise CredoError(
            f"units can be matched in MLP and LeNet only, got {type(model.network).__name__}"
        )
    present = set(params["network"])
    numbered = [f"{kind}{index}" for kind in ("conv", "dense") for index in range(len(present))]
    return [name for name in numbered if name in present]


def _matrices(names: list[str], params: Params) -> Matrices:
    """Every layer as (copies, inputs, units): its kernel, and its biases as one more input.

    The inputs of a layer are the units of the one before it, each in as many copies as the kernel
    or the flattened image has positions.
    """
    network = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params["network"])
    matrices, inputs = {}, None
    for name in names:
        weight = network[name]["w"]
        units = weight.shape[-1]
        matrices[name] = weight.reshape(-1, inputs or weight.shape[-2], units)
        matrices[f"{name} bias"] = network[name]["b"]
        inputs = units
    return matrices


def _incoming(
    names: list[str], index: int, ours: Matrices, theirs: Matrices, orders: Permutations
) -> np.ndarray:
    """Inner products of the weights into each unit of theirs (rows) and of ours (columns)."""
    name = names[index]
    weight = ours[name] if index == 0 else ours[name][:, orders[names[index - 1]]]
    gain = np.einsum("cij,cik->jk", theirs[name], weight, optimize=True)
    return gain + np.outer(theirs[f"{name} bias"], ours[f"{name} bias"])


def _outgoing(
    names: list[str], index: int, ours: Matrices, theirs: Matrices, orders: Permutations
) -> np.ndarray:
    """The same of the weights out of them."""
    following = names[index + 1]
    weight = ours[following][:, :, orders[following]]
    return np.einsum("cji,cki->jk", theirs[following], weight, optimize=True)


def _matched(gain: np.ndarray) -> np.ndarray:
    """For every row the column it is paired with, so that the sum over pairs is largest."""
    from scipy.optimize import linear_sum_assignment

    return linear_sum_assignment(gain, maximize=True)[1]
