"""A step of concrete dropout, whose rates are learned, against one with fixed rates."""

from harness.row import Row

from rows._images import LEARNING_RATE, WIDTHS, images_on_device

ROWS, BATCH, STEPS = 10_000, 128, 400


def credo(name):
    import credo

    data = images_on_device(ROWS)
    model = credo.Model(credo.networks.MLP(hidden=WIDTHS[1:-1]), credo.likelihoods.Categorical(10))
    method = credo.METHODS[name](
        learning_rate=LEARNING_RATE, num_steps=STEPS, batch_size=BATCH, schedule="constant"
    )

    def repetition():
        credo.fit(model, data, method, progress=False)

    return repetition


ROW = Row(
    title="Concrete dropout step: 784-500-500-10, batch 128",
    sides={
        "credo": lambda: credo("concrete-dropout"),
        "credo, Bernoulli dropout": lambda: credo("dropout"),
    },
    work=STEPS,
    unit="ms a step",
    targets={"credo, Bernoulli dropout": 1 / 1.5},
    note="Both through credo.fit. A ratio of 0.67 is a cost of 1.5 Bernoulli steps.",
)
