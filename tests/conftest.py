"""What every test shares: a quiet CPU, a cache of its own, real data where it is."""

import os
import tempfile
from pathlib import Path

import pytest

from tests.shapes import check_shapes_of

os.environ["JAX_PLATFORMS"] = "cpu"
if "PYTEST_XDIST_WORKER" not in os.environ:  # workers inherit the folder of the process they serve
    _cache = tempfile.TemporaryDirectory(prefix="credo-tests-", ignore_cleanup_errors=True)
    os.environ["CREDO_CACHE"] = _cache.name  # the user's own cache stays untouched

check_shapes_of("credo")  # before anything imports it


@pytest.fixture(scope="module", autouse=True)
def few_programs():
    """The programs of a thousand tests are more than a process may have."""
    from credo.caching import forget_programs

    yield
    forget_programs()


@pytest.fixture(scope="module")
def float64():
    """Double precision for a whole module: known answers are compared to more than 7 digits."""
    import jax

    # The global switch, not `with jax.enable_x64(True)`: a generator's context is not the test's.
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


@pytest.fixture(scope="module")
def quick_compilation():
    """Compile without optimisation, for tests that run many small programs once."""
    import jax

    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data sets, named by CREDO_DATA."""
    folder = os.environ.get("CREDO_DATA")
    if not folder:
        pytest.skip("CREDO_DATA is not set: real-data tests skipped")
    if not Path(folder).is_dir():
        pytest.fail(f"CREDO_DATA is {folder!r}, which is no folder: correct or unset it")
    return Path(folder)
