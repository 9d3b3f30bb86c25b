"""Where credo keeps things between runs: compiled programs and downloaded data."""

import functools
import os
from pathlib import Path

import jax


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
    """Drop the compiled programs in memory where they fill this share of what Linux allows.

    A fit and a prediction with new settings take some 270 memory maps. A process that tries a few
    hundred settings would reach the system's limit (65,530 as a rule), where the compiler ends in
    a segmentation fault. Programs that are needed again come from the disk.
    """
    limit = _most_maps()
    if limit is None:
        return False
    with open("/proc/self/maps", "rb") as maps:
        full = sum(chunk.count(b"\n") for chunk in iter(lambda: maps.read(1 << 20), b""))
    if full > most * limit:
        jax.clear_caches()
    return full > most * limit


@functools.cache
def _most_maps() -> int | None:
    try:
        return int(Path("/proc/sys/vm/max_map_count").read_text())
    except (OSError, ValueError):  # another system: nothing known about a limit
        return None
