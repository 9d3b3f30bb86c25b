"""Where chains run: a thread per core on a CPU, one program elsewhere, a mesh of many devices.

A chain's own small products use one core well, so on a CPU every chain is a program of its own in
a pool of threads. On an accelerator all chains are one program with a leading axis; where there are
several, that axis is divided among them.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from credo.engine.algorithm import stack, unstack

Advance = Callable[[Array, Any], Any]  # (key, chain) -> chain, a compiled program


class Threads:
    """Chains as separate programs, as many at a time as there are cores."""

    def __init__(self, keys: list[Array], chains: list[Any]) -> None:
        self.keys, self.chains = keys, chains
        self.pool = ThreadPoolExecutor(min(len(chains), os.cpu_count() or 1))

    def advance(self, program: Advance) -> None:
        # JAX's precision is set per thread where `with` set it: hand it on to the workers.
        double = jax.config.jax_enable_x64  # type: ignore[attr-defined]

        def run(key: Array, chain: Any) -> Any:
            with jax.enable_x64(double):
                return jax.block_until_ready(program(key, chain))

        if len(self.chains) == 1:
            self.chains = [run(self.keys[0], self.chains[0])]
        else:
            self.chains = list(self.pool.map(run, self.keys, self.chains))

    def stacked(self) -> Any:
        return stack(self.chains)

    def set(self, stacked: Any) -> None:
        # Chains give their arrays away when they advance: none may be shared.
        self.chains = [jax.tree.map(jnp.copy, c) for c in unstack(stacked, len(self.chains))]

    def close(self) -> None:
        self.pool.shutdown()


class OneProgram:
    """Chains as one program with a leading axis, divided over the devices that there are."""

    def __init__(self, keys: list[Array], chains: list[Any], devices: list[Any]) -> None:
        self.keys, self.chains = jnp.stack(keys), stack(chains)
        self.sharding = None
        if len(devices) > 1 and len(keys) % len(devices) == 0:
            mesh = jax.sharding.Mesh(devices, ("chains",))
            self.sharding = jax.NamedSharding(mesh, jax.P("chains"))
            self.keys = jax.device_put(self.keys, self.sharding)
            self.set(self.chains)

    def advance(self, program: Advance) -> None:
        self.chains = jax.block_until_ready(jax.vmap(program)(self.keys, self.chains))

    def stacked(self) -> Any:
        return self.chains

    def set(self, stacked: Any) -> None:
        self.chains = stacked
        if self.sharding is not None:
            self.chains = jax.device_put(stacked, self.sharding)

    def close(self) -> None: ...


def place(keys: list[Array], chains: list[Any], kind: str | None = None) -> Threads | OneProgram:
    """Chains where this machine runs them best, or as `kind` says: "threads" or "program"."""
    on_cpu = jax.default_backend() == "cpu"
    if (kind or ("threads" if on_cpu else "program")) == "threads":
        return Threads(keys, chains)
    return OneProgram(keys, chains, jax.local_devices())
