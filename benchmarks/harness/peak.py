"""The machine's matrix-multiply peak: a large float32 product, in each backend."""

import numpy as np

SIZE = 2048
REPEATS = 3  # in one repetition, long enough to be timed well
FLOPS = 2.0 * REPEATS * SIZE**3


def _matrix() -> np.ndarray:
    return np.random.default_rng(0).random((SIZE, SIZE), np.float32)


def xla():
    import jax

    matrix = jax.device_put(_matrix())
    product = jax.jit(lambda a: a @ a)
    return lambda: [product(matrix).block_until_ready() for _ in range(REPEATS)] and None


def torch():
    import torch

    matrix = torch.from_numpy(_matrix())
    return lambda: [matrix @ matrix for _ in range(REPEATS)] and None


SIDES = {"peak in XLA": xla, "peak in PyTorch": torch}
