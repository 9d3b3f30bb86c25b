"""Laplace of the last layer of a trained network: both libraries' default."""

from harness.row import Row

from rows._laplace import credo_fit, credo_images, torch_fit, torch_images

ROWS = 10_000


def credo():
    fit = credo_fit(*credo_images(ROWS), "kron", "last")

    def repetition():
        fitted = fit()
        return lambda: float(fitted.record.history["log_evidence"][0, 0])

    return repetition


def laplace_torch():
    fit = torch_fit(*torch_images(ROWS), "classification", "last_layer", "kron")

    def repetition():
        fitted = fit()
        return lambda: float(fitted.log_marginal_likelihood())

    return repetition


ROW = Row(
    title="Laplace, last layer: 784-500-500-10, 10,000 images",
    sides={"credo": credo, "laplace-torch": laplace_torch},
    unit="ms",
    targets={"laplace-torch": 3.0},
    tolerance=0.2,
    note=(
        "Kronecker factors of the last layer, the default of both, as in the row above. The log "
        "evidence is compared."
    ),
)
