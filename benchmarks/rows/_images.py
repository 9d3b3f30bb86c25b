"""What the rows on images share: random images, the 784-500-500-10 network, PyTorch's training."""

from itertools import pairwise

import numpy as np

WIDTHS = (784, 500, 500, 10)
WEIGHTS = sum(a * b for a, b in pairwise(WIDTHS))
LEARNING_RATE = 1e-3


def images(rows: int, shape: tuple[int, ...] = (784,)):
    """Images in [0, 1] with labels that a network can learn, so that losses fall."""
    random = np.random.default_rng(0)
    x = random.random((rows, *shape), np.float32)
    score = (x.reshape(rows, -1) - 0.5) @ random.normal(size=(784, 10))
    return x, score.argmax(axis=1)


def images_on_device(rows: int, shape: tuple[int, ...] = (784,)):
    """The same as JAX's arrays: PyTorch's tensors are made before its clock starts, too."""
    import jax.numpy as jnp

    x, y = images(rows, shape)
    return jnp.asarray(x), jnp.asarray(y)


def weights(widths: tuple[int, ...] = WIDTHS):
    """He et al. 2015, as (inputs, outputs) matrices: the same for all sides."""
    random = np.random.default_rng(1)
    shapes = pairwise(widths)
    return [random.normal(size=s).astype(np.float32) * (2 / s[0]) ** 0.5 for s in shapes]


def torch_mlp(dropout: float | None = None, widths: tuple[int, ...] = WIDTHS):
    """PyTorch's network with `weights()` in it."""
    import torch
    from torch import nn

    layers = []
    for weight in weights(widths):
        linear = nn.Linear(*weight.shape)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(weight.T))
            linear.bias.zero_()
        between = [nn.ReLU()] if dropout is None else [nn.ReLU(), nn.Dropout(dropout)]
        layers += [*(between if layers else []), linear]
    return nn.Sequential(*layers)


def torch_training(network, x, y, steps: int, batch_size: int, compile: bool):
    """A repetition: `steps` of fused Adam on random batches from the same start.

    The weight decay is that of credo's N(0, 1) prior on a loss that is a mean over the data.
    Returns the mean loss over the run.
    """
    import torch

    x, y = torch.from_numpy(x), torch.from_numpy(y)
    settings = {"lr": LEARNING_RATE, "weight_decay": 1 / len(x), "fused": True}
    start = {name: value.clone() for name, value in network.state_dict().items()}
    forward = torch.compile(network) if compile else network

    def repetition():
        network.load_state_dict(start)
        optimizer = torch.optim.Adam(network.parameters(), **settings)
        losses = []
        for _ in range(steps):
            rows = torch.randint(len(x), (batch_size,))
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(forward(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return torch.stack(losses).mean()

    return repetition
