"""The samplers on any log density of any pytree, for people who bring their own model."""

import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from credo.data.source import resident
from credo.errors import CredoError
from credo.inference.density import Density
from credo.inference.method import Method
from credo.inference.registry import METHODS, as_method, name_of
from credo.inference.sampling.trees import size
from credo.inference.verbs.fit import infer
from credo.keys import as_key
from credo.posterior import Draws

SAMPLERS = ("metropolis", "mala", "sgld", "hmc", "nuts", "sghmc", "constant-sgd")


def sample(
    log_density: Callable[..., Array],
    init: Any,
    method: Method | str,
    key: int | Array = 0,
    *,
    data: Any = None,
    checkpoint: str | os.PathLike | None = None,
    progress: bool | None = None,
) -> Draws:
    """Draw from a density known up to a constant.

    Args:
        log_density: position → log density; any JAX function of a pytree. With `data`, a function
            of position and batch that estimates the log density of all data without bias.
        init: where every chain starts, or a function key → position for a start of each chain's
            own, which makes R̂ worth more.
        method: a sampler or its name: Metropolis, MALA, SGLD, HMC, NUTS, SGHMC; with data
            ConstantSGD too.
        data: a pytree of arrays whose first axis are the rows that the batches are drawn from.

    Returns: draws, every leaf of shape (chain, draw, *position), for `credo.diagnose`
    and `to_arviz()`.

    Example:
        >>> import jax.numpy as jnp
        >>> normal = lambda x: -0.5 * jnp.sum(x**2)
        >>> drawn = credo.sample(normal, jnp.zeros(3), credo.HMC(num_leapfrog=5, num_chains=2))
        >>> drawn.draws.shape
        (2, 100, 3)
    """
    target = Density(log_density, _num_rows(data), data is not None)
    chosen: Any = as_method(method)
    if name_of(chosen) in METHODS and name_of(chosen) not in SAMPLERS:
        raise CredoError(
            f"{name_of(chosen)} is no sampler of log densities; use one of "
            f"{', '.join(METHODS[name].__name__ for name in SAMPLERS)}"
        )
    plan = chosen.plan(_num_rows(data))
    chain_keys = jax.random.split(jax.random.fold_in(as_key(key), 2**31 - 1), plan.num_chains)
    positions = [init(chain_key) if callable(init) else init for chain_key in chain_keys]
    starts = [{"position": jax.tree.map(_as_float, position)} for position in positions]
    for chain, start in enumerate(starts):
        _check_start(target, start, data, chain)
    chosen = chosen.for_density(size(starts[0]))
    rows = () if data is None else jax.tree.map(jnp.asarray, data)
    return infer(
        target, resident(rows), rows, chosen, key, starts, facts={"num_data": _num_rows(data)},
        checkpoint=checkpoint, progress=progress,
    )  # fmt: skip


def _as_float(leaf: Any) -> Array:
    leaf = jnp.asarray(leaf)
    return leaf if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf.astype(float)


def _num_rows(data: Any) -> int:
    if data is None:
        return 1
    counts = {len(leaf) for leaf in jax.tree.leaves(data)}
    if len(counts) != 1:
        raise CredoError(f"data has arrays of {sorted(counts)} rows; they must match")
    return counts.pop()


def _check_start(target: Density, start: Any, data: Any, chain: int) -> None:
    value = target.log_joint(start, data)
    if jnp.shape(value) != ():
        raise CredoError(
            f"log_density gave an array of shape {jnp.shape(value)}; it must give one number: "
            "sum the terms"
        )
    if not bool(jnp.isfinite(value)):
        raise CredoError(f"log_density is {value} where chain {chain} starts; choose another init")
