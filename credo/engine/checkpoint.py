"""Checkpoints: a run in flight as one file, so that a kill loses seconds, not hours."""

import hashlib
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from credo import files
from credo.errors import CredoError


@dataclass
class Checkpoint:
    """Where a run is saved, how often, and the fingerprint of the run it belongs to."""

    path: Path | None
    every_seconds: float = 0.0
    fingerprint: str = ""
    due: float = 0.0

    @staticmethod
    def open(path: Any, every_seconds: float, settings: Any, source: str) -> "Checkpoint":
        """A checkpoint of the run that has these settings, a pytree, and this source."""
        if path is None:
            return Checkpoint(None)
        files.check_writable(path)
        leaves, structure = jax.tree.flatten(settings)
        # A function's address is new in every process; the run it belongs to is not.
        description = re.sub(r" at 0x[0-9a-f]+", "", repr(structure))
        digest = hashlib.sha256(f"{description} {source}".encode())
        for leaf in leaves:
            digest.update(np.asarray(leaf).tobytes())
        due = time.monotonic() + every_seconds
        return Checkpoint(Path(path), every_seconds, digest.hexdigest(), due)

    def load(self, chains: Any) -> tuple[Any, int]:
        """The saved chains and their step, or the given fresh ones and 0."""
        if self.path is None or not self.path.exists():
            return chains, 0
        try:
            arrays, metadata = files.load_arrays(self.path)
        except CredoError as error:
            raise CredoError(
                f"the checkpoint {os.fspath(self.path)} cannot be read; delete it to start afresh "
                f"({error})"
            ) from error
        if metadata.get("fingerprint") != self.fingerprint:
            raise CredoError(
                f"the checkpoint {os.fspath(self.path)} belongs to another run (its method, "
                "settings, data or seed differ); delete it to start afresh, or name another file"
            )
        return jax.tree.map(jnp.asarray, files.unflatten(chains, arrays)), metadata["step"]

    def save(self, stacked: Any, step: int, now: bool) -> None:
        """Write the run as it stands if that is due, or at once; `stacked()` gives its arrays."""
        if self.path is not None and (now or time.monotonic() >= self.due):
            began = time.monotonic()
            metadata = {"fingerprint": self.fingerprint, "step": step}
            files.save_arrays(self.path, files.flatten(stacked()), metadata)
            spent = time.monotonic() - began
            # Saving may take no more than a twentieth of the time, however large the run.
            self.due = time.monotonic() + max(self.every_seconds, 20 * spent)

    def remove(self) -> None:
        if self.path is not None:
            self.path.unlink(missing_ok=True)
