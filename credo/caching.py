"""Where credo keeps things between runs: compiled programs and downloaded data."""

import functools
import os
from pathlib import Path

import jax


def cache_folder() -> Path:
    """CREDO_CACHE, else the user's cache folder for credo."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("CREDO_CACHE") or Path(base) / "credo")


@functools.cache
def enable_compilation_cache() -> None:
    """Keep compiled programs on disk, so that a second process starts without compiling.

    Leaves the setting alone where the user has chosen a folder already.
    """
    if jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]
        jax.config.update("jax_compilation_cache_dir", str(cache_folder() / "xla"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
