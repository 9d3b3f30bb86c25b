"""Laplace with all correlations of a small network."""

from harness.row import Row

from rows._laplace import NOISE, credo_fit, credo_table, torch_fit, torch_table


def credo():
    fit = credo_fit(*credo_table(), "full", "all")

    def repetition():
        fitted = fit()
        return lambda: float(fitted.record.history["log_evidence"][0, 0])

    return repetition


def laplace_torch():
    fit = torch_fit(*torch_table(), "regression", "all", "full", sigma_noise=NOISE)

    def repetition():
        fitted = fit()
        return lambda: float(fitted.log_marginal_likelihood())

    return repetition


ROW = Row(
    title="Laplace, full: 8-50-1, 10,000 rows",
    sides={"credo": credo, "laplace-torch": laplace_torch},
    unit="ms",
    targets={"laplace-torch": 3.0},
    tolerance=0.01,
    note="The dense Gauss-Newton matrix of 501 weights, and its Cholesky factor.",
)
