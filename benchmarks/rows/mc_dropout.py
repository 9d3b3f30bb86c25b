"""Monte-Carlo dropout: the predictive distribution of 1,000 images from 100 draws."""

from harness.row import Row

from rows._images import images, torch_mlp, weights

ROWS, DRAWS, RATE = 1000, 100, 0.5


def credo():
    import dataclasses

    import jax
    import numpy as np

    import credo

    x, y = images(ROWS)
    model = credo.Model(credo.networks.MLP(hidden=(500, 500)), credo.likelihoods.Categorical(10))
    posterior = credo.fit(model, (x, y), credo.Dropout(rate=RATE, num_steps=1), progress=False)
    layers = [{"w": w, "b": np.zeros(w.shape[1], np.float32)} for w in weights()]
    network = {f"dense{index}": layer for index, layer in enumerate(layers)}
    params = jax.tree.map(jax.numpy.asarray, {"network": network, "likelihood": {}})
    posterior = dataclasses.replace(posterior, params=params)
    return lambda: credo.predict(posterior, x, num_draws=DRAWS).probs.max(axis=1).mean()


def pytorch(compile=False):
    """Dropout left on, as one does: a pass of all rows for each draw, every row its own mask."""
    import torch

    network = torch_mlp(RATE).train()
    forward = torch.compile(network) if compile else network
    x = torch.from_numpy(images(ROWS)[0])

    @torch.inference_mode()
    def repetition():
        probs = sum(torch.softmax(forward(x), dim=1) for _ in range(DRAWS)) / DRAWS
        return probs.amax(dim=1).mean()

    return repetition


ROW = Row(
    title="MC dropout: 100 draws × 1,000 images, 784-500-500-10",
    sides={"credo": credo, "PyTorch": pytorch, "torch.compile": lambda: pytorch(compile=True)},
    unit="ms",
    targets={"PyTorch": 5.0, "torch.compile": 3.5},
    tolerance=0.15,  # masks shared by all rows: over keys, credo's number varies by 4.5 %
    note=(
        "p = 0.5 on both hidden layers, the same weights; the mean probability of the likeliest "
        "class is compared. PyTorch: model.train() under inference_mode, one pass a draw."
    ),
)
