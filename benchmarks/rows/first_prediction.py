"""From the start of a process to the first prediction of a model that was trained and saved."""

import tempfile
from pathlib import Path

from harness.row import Row

from rows._fresh import fresh

CREDO = """
import sys, numpy, credo
row = numpy.full((1, 4), 0.5, "f")
print(credo.predict(credo.load(sys.argv[1]), row, num_draws=100).probs.sum())
"""
PYTORCH = """
import sys, torch
from torch import nn
network = nn.Sequential(nn.Linear(4, 50), nn.ReLU(), nn.Dropout(0.2), nn.Linear(50, 3))
network.load_state_dict(torch.load(sys.argv[1], weights_only=True))
row = torch.full((1, 4), 0.5)
with torch.inference_mode():
    draws = [torch.softmax(network.train()(row), dim=1) for _ in range(100)]
print((sum(draws) / 100).sum().item())
"""


def credo(cold: bool = False):
    import numpy as np

    import credo

    folder = tempfile.TemporaryDirectory()
    path = str(Path(folder.name) / "model.safetensors")
    random = np.random.default_rng(0)
    x = random.normal(size=(150, 4)).astype(np.float32)
    model = credo.Model(credo.networks.MLP(hidden=(50,)), credo.likelihoods.Categorical(3))
    method = credo.Dropout(num_steps=1)
    credo.save(credo.fit(model, (x, random.integers(3, size=150)), method, progress=False), path)

    def repetition():
        if not cold:
            return fresh(CREDO, path, CREDO_CACHE=folder.name)()
        with tempfile.TemporaryDirectory() as empty:
            return fresh(CREDO, path, CREDO_CACHE=empty)()

    return repetition


def pytorch():
    import torch
    from torch import nn

    folder = tempfile.TemporaryDirectory()
    path = str(Path(folder.name) / "model.pt")
    network = nn.Sequential(nn.Linear(4, 50), nn.ReLU(), nn.Dropout(0.2), nn.Linear(50, 3))
    torch.save(network.state_dict(), path)
    run = fresh(PYTORCH, path)
    return lambda: run() if folder else None  # the folder lives as long as the repetition


ROW = Row(
    title="Process start to first prediction: 4-50-3, MC dropout, 100 draws, one row",
    sides={"credo": credo, "credo, nothing cached": lambda: credo(cold=True), "PyTorch": pytorch},
    unit="ms",
    tolerance=1e-3,
    note=(
        "A new process imports the library, loads the saved model and predicts one row. credo's "
        "compiled programs are on disk from an earlier process, or not."
    ),
)
