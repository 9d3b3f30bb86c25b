"""What the rows of ensembles share: an epoch of ten members on data of MNIST's size."""

from harness.row import Row

from rows._images import LEARNING_RATE, images, images_on_device, torch_mlp, torch_training

ROWS, BATCH, MEMBERS = 60_000, 128, 10
STEPS = ROWS // BATCH


def credo(widths):
    import credo

    data = images_on_device(ROWS)
    model = credo.Model(credo.networks.MLP(hidden=widths[1:-1]), credo.likelihoods.Categorical(10))
    member = credo.MAP(
        learning_rate=LEARNING_RATE, num_steps=STEPS, batch_size=BATCH, schedule="constant"
    )
    method = credo.Ensemble(member, MEMBERS)

    def repetition():
        return credo.fit(model, data, method, progress=False).record.history["nll"].mean()

    return repetition


def pytorch(widths):
    one = torch_training(torch_mlp(widths=widths), *images(ROWS), STEPS, BATCH, compile=False)
    return lambda: sum(one() for _ in range(MEMBERS)) / MEMBERS


def ensemble_row(widths, targets):
    named = "-".join(map(str, widths))
    return Row(
        title=f"Ensemble training: an epoch of ten {named}, 60,000 rows",
        sides={"credo": lambda: credo(widths), "PyTorch": lambda: pytorch(widths)},
        unit="s an epoch",
        targets=targets,
        tolerance=0.1,
        note=(
            "Batches of 128. credo: credo.fit with Ensemble(MAP()), members side by side, a core "
            "each. PyTorch: one member after another, fused Adam, both cores."
        ),
    )
