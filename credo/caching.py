"""Where credo keeps things between runs: compiled programs and downloaded data."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

_PROGRAMS: list[Any] = []  # every function that credo compiles


def jit(function: Callable | None = None, **options: Any) -> Any:
    """`jax.jit` for functions of credo, whose programs can be dropped without touching others'."""
    if function is None:
        return functools.partial(jit, **options)
    compiled = jax.jit(function, **options)
    _PROGRAMS.append(compiled)
    return compiled


def cache_folder() -> Path:
    """CREDO_CACHE, else the user's cache folder for credo."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("CREDO_CACHE") or Path(base) / "credo")


def enable_compilation_cache() -> None:
    """Keep compiled programs on disk, and not too many in memory; called before every run."""
    _use_folder()
    forget_programs()


@functools.cache
def _use_folder() -> None:
    """A second process then starts without compiling; a folder that the user chose stays."""
    if jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]
        jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "xla"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def forget_programs(most: float = 0.5) -> bool:
    """Drop credo's compiled programs in memory where this share of Linux's memory maps is in use.

    Each program takes some ten maps. A process that compiles thousands, for as many shapes, would
    reach the system's limit (65,530 as a rule), where the compiler ends in a segmentation fault.
    Programs of other libraries and of the user stay; those of credo that are needed again come
    from the disk.
    """
    limit = _most_maps()
    if limit is None:
        return False
    with open("/proc/self/maps", "rb") as maps:
        full = sum(chunk.count(b"\n") for chunk in iter(lambda: maps.read(1 << 20), b""))
    if full > most * limit:
        for program in _PROGRAMS:
            program.clear_cache()
    return full > most * limit


@functools.cache
def _most_maps() -> int | None:
    try:
        return int(Path("/proc/sys/vm/max_map_count").read_text())
    except (OSError, ValueError):  # another system: nothing known about a limit
        return None
