"""Closed-form prediction with a last-layer Laplace approximation."""

from harness.row import Row

from rows._images import images
from rows._laplace import credo_fit, credo_images, torch_fit, torch_images

ROWS = 1000


def credo(layers="last"):
    import credo

    posterior = credo_fit(*credo_images(ROWS), "kron", layers)()
    x = images(ROWS)[0]
    return lambda: credo.probit_predict(posterior, x).probs.max(axis=1).mean()


def laplace_torch():
    import torch

    fitted = torch_fit(*torch_images(ROWS), "classification", "last_layer", "kron")()
    x = torch.from_numpy(images(ROWS)[0])

    @torch.no_grad()
    def repetition():
        return fitted(x, link_approx="probit").amax(dim=1).mean()

    return repetition


ROW = Row(
    title="Laplace prediction: 1,000 images, last layer, probit",
    sides={
        "credo": credo,
        "credo, all layers": lambda: credo("all"),
        "laplace-torch": laplace_torch,
    },
    unit="ms",
    targets={"laplace-torch": 3.0},
    note=(
        "Kronecker factors, the linearised network, probit approximation. For all layers "
        "laplace-torch would hold the Jacobian of every image, 26 GB: credo's is beside it."
    ),
)
