"""Kronecker-factored Laplace of a trained network: curvature over 10,000 images."""

from harness.row import Row

from rows._laplace import credo_fit, credo_images, torch_fit, torch_images

ROWS = 10_000


def credo():
    fit = credo_fit(*credo_images(ROWS), "kron", "all")

    def repetition():
        fitted = fit()
        return lambda: float(fitted.record.history["log_evidence"][0, 0])

    return repetition


def laplace_torch():
    fit = torch_fit(*torch_images(ROWS), "classification", "all", "kron")

    def repetition():
        fitted = fit()
        return lambda: float(fitted.log_marginal_likelihood())

    return repetition


ROW = Row(
    title="Laplace, Kronecker factors: 784-500-500-10, 10,000 images",
    sides={"credo": credo, "laplace-torch": laplace_torch},
    unit="s",
    targets={"laplace-torch": 3.0},
    tolerance=0.2,  # laplace-torch has a block of its own for each bias
    note=(
        "The Gauss-Newton curvature, exact over the 10 classes, with eigenvectors; the same "
        "weights, prior N(0, 1). laplace-torch: its default back-end (curvlinops), batches of "
        "1,000. The log evidence is compared."
    ),
)
