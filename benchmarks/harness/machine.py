"""What a reader must know of the machine and the versions; nothing that names the machine."""

import os
import platform
from importlib import metadata
from pathlib import Path

PACKAGES = (
    "credo-bayes", "jax", "equinox", "torch", "blackjax", "numpyro", "posteriors", "laplace-torch",
    "bayesian-torch", "blitz-bayesian-pytorch",
)  # fmt: skip


def describe() -> dict[str, str]:
    return {
        "processor": _processor(),
        "cores": str(_cores()),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "versions": ", ".join(f"{name} {_version(name)}" for name in PACKAGES),
    }


def load_average() -> float:
    """How many processes wanted a core over the last minute: timings want this near 0."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def _cores() -> int:
    usable = getattr(os, "sched_getaffinity", None)  # fewer than cpu_count in a container
    return len(usable(0)) if usable else os.cpu_count() or 1


def _processor() -> str:
    return _line("/proc/cpuinfo", "model name") or platform.processor() or "unknown"


def _memory() -> str:
    kilobytes = _line("/proc/meminfo", "MemTotal").removesuffix(" kB")
    return f"{int(kilobytes) / 2**20:.0f} GB" if kilobytes else "unknown"


def _line(path: str, field: str) -> str:
    """The value of a `field : value` line of a file of the system, or nothing."""
    if not Path(path).exists():
        return ""
    pairs = [line.partition(":") for line in Path(path).read_text().splitlines()]
    return next((value.strip() for name, _, value in pairs if name.strip() == field), "")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "(not installed)"
