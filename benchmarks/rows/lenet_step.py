"""A training step of LeNet at batch 64, with the choice of its batch."""

from harness.row import Row

from rows._images import LEARNING_RATE, images, images_on_device, torch_training

ROWS, BATCH, STEPS = 10_000, 64, 300
# Multiply-adds of one image: two convolutions, two dense layers.
FIRST, REST = 24 * 24 * 25 * 20, 8 * 8 * 500 * 50 + 800 * 500 + 500 * 10


def credo():
    import credo

    data = images_on_device(ROWS, (28, 28, 1))
    model = credo.Model(credo.networks.LeNet(), credo.likelihoods.Categorical(10))
    method = credo.MAP(
        learning_rate=LEARNING_RATE, num_steps=STEPS, batch_size=BATCH, schedule="constant"
    )

    def repetition():
        return credo.fit(model, data, method, progress=False).record.history["nll"].mean()

    return repetition


def pytorch(channels_last=False, compile=False):
    import torch
    from torch import nn

    network = nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10),
    )  # fmt: skip
    if channels_last:
        network = network.to(memory_format=torch.channels_last)
    x, y = images(ROWS, (1, 28, 28))
    return torch_training(network, x, y, STEPS, BATCH, compile)


ROW = Row(
    title="LeNet training step: batch 64",
    sides={
        "credo": credo,
        "PyTorch": pytorch,
        "PyTorch, channels last": lambda: pytorch(channels_last=True),
        "torch.compile": lambda: pytorch(compile=True),
    },
    work=STEPS,
    unit="ms a step",
    targets={"PyTorch": 1.0, "PyTorch, channels last": 1.0},
    flops=2 * BATCH * (3 * (FIRST + REST) - FIRST),
    tolerance=0.1,
    note=(
        "20 and 50 kernels of 5 × 5, each pooled by 2, then 800-500-10. As in the row of the MLP; "
        "PyTorch as one writes it, and in the image layout that was fastest for it."
    ),
)
