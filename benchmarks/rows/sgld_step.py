"""A step of SGLD with noise on 650,000 weights."""

from rows import _langevin as langevin

ROW = langevin.langevin_row(
    "SGLD",
    1,
    {
        "credo": langevin.credo_sgld,
        "BlackJAX": langevin.blackjax_sgld,
        "posteriors": langevin.posteriors_sgld,
    },
    note=("credo through credo.fit; BlackJAX in one compiled scan; posteriors in a loop."),
)
