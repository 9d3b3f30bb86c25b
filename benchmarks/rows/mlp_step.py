"""A training step of 784-500-500-10 at batch 128, with the choice of its batch."""

from harness.row import Row

from rows._images import (
    LEARNING_RATE,
    WEIGHTS,
    WIDTHS,
    images,
    images_on_device,
    torch_mlp,
    torch_training,
)

ROWS, BATCH, STEPS = 10_000, 128, 1_000


def credo(steps=STEPS):
    import credo

    data = images_on_device(ROWS)
    model = credo.Model(credo.networks.MLP(hidden=WIDTHS[1:-1]), credo.likelihoods.Categorical(10))
    method = credo.MAP(
        learning_rate=LEARNING_RATE, num_steps=steps, batch_size=BATCH, schedule="constant"
    )

    def repetition():
        return credo.fit(model, data, method, progress=False).record.history["nll"].mean()

    return repetition


def pytorch(compile=False):
    return torch_training(torch_mlp(), *images(ROWS), STEPS, BATCH, compile)


ROW = Row(
    title="MLP training step: 784-500-500-10, batch 128",
    sides={"credo": credo, "PyTorch": pytorch, "torch.compile": lambda: pytorch(compile=True)},
    work=STEPS,
    unit="ms a step",
    targets={"PyTorch": 1.3},
    # Forward, and two products backward, except that the inputs need no gradient.
    flops=2 * BATCH * (3 * WEIGHTS - WIDTHS[0] * WIDTHS[1]),
    share_target=0.75,
    tolerance=0.1,
    note=(
        "10,000 rows. credo: credo.fit with MAP (Adam), all of it, divided by the number of steps. "
        "PyTorch: fused Adam with the same weight decay, a random batch each step."
    ),
)
