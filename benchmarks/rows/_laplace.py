"""What the rows on Laplace approximations share: the same weights and data for both libraries."""

from itertools import pairwise

import numpy as np

from rows._images import WIDTHS, images, images_on_device, torch_mlp, weights

BATCH = 1000  # of laplace-torch's loader: slower below, and no faster above
TABLE_ROWS, TABLE_WIDTHS = 10_000, (8, 50, 1)
NOISE = 0.3


def credo_images(rows: int):
    """A model, its parameters, and data."""
    import credo

    network = credo.networks.MLP(hidden=WIDTHS[1:-1])
    model = credo.Model(network, credo.likelihoods.Categorical(WIDTHS[-1]))
    return (model, as_params(weights())), images_on_device(rows)


def torch_images(rows: int):
    """PyTorch's network with the same weights, and a loader of the same data."""
    return torch_mlp(), torch_loader(*images(rows))


def table():
    """A regression on 8 columns."""
    random = np.random.default_rng(0)
    x = random.normal(size=(TABLE_ROWS, TABLE_WIDTHS[0])).astype(np.float32)
    return x, np.sin(x[:, :1]) + NOISE * random.normal(size=(TABLE_ROWS, 1)).astype(np.float32)


def table_weights():
    random = np.random.default_rng(1)
    shapes = pairwise(TABLE_WIDTHS)
    return [random.normal(size=s).astype(np.float32) * s[0] ** -0.5 for s in shapes]


def credo_table():
    import credo

    network = credo.networks.MLP(hidden=TABLE_WIDTHS[1:-1], activation="tanh")
    model = credo.Model(network, credo.likelihoods.Normal(NOISE))
    return (model, as_params(table_weights())), table()


def torch_table():
    import torch
    from torch import nn

    first, second = (nn.Linear(*w.shape) for w in table_weights())
    for layer, weight in zip((first, second), table_weights(), strict=True):
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(weight.T))
            layer.bias.zero_()
    return nn.Sequential(first, nn.Tanh(), second), torch_loader(*table())


def as_params(matrices):
    layers = [{"w": w, "b": np.zeros(w.shape[1], np.float32)} for w in matrices]
    network = {f"dense{index}": layer for index, layer in enumerate(layers)}
    return {"network": network, "likelihood": {}}


def torch_loader(x, y):
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    tensors = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    return DataLoader(tensors, batch_size=BATCH)


def torch_fit(network, loader, task: str, subset: str, structure: str, **options):
    """A function that fits a Laplace approximation with laplace-torch's default back-end."""
    from laplace import Laplace

    def fit():
        fitted = Laplace(
            network, task, subset_of_weights=subset, hessian_structure=structure,
            prior_precision=1.0, **options,
        )  # fmt: skip
        fitted.fit(loader)
        return fitted

    return fit


def credo_fit(trained, data, structure: str, layers: str):
    import credo

    def fit():
        return credo.laplace(trained, data, structure, layers=layers, tune_prior=False)

    return fit
