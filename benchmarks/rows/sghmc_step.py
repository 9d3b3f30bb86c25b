"""A step of SGHMC with noise on 650,000 weights."""

from rows import _langevin as langevin

ROW = langevin.langevin_row(
    "SGHMC",
    1,
    {
        "credo": langevin.credo_sghmc,
        "BlackJAX": langevin.blackjax_sghmc,
        "posteriors": langevin.posteriors_sghmc,
    },
    note=(
        "credo through credo.fit; BlackJAX in one compiled scan; posteriors in a loop. "
        "BlackJAX's kernel takes ten gradients on one batch per call; with one it would leave "
        "its gradient unused."
    ),
)
