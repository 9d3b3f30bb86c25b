"""What the tests of inference share."""

import jax
import pytest


@pytest.fixture(scope="module")
def quick_compilation():
    """Compile without optimisation, for tests that run many small programs once."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
