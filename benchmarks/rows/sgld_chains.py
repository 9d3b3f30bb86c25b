"""Steps of four chains of SGLD with noise on 650,000 weights."""

from rows import _langevin as langevin

ROW = langevin.langevin_row(
    "SGLD",
    4,
    {
        "credo": langevin.credo_sgld,
        "BlackJAX": langevin.blackjax_sgld,
        "posteriors": langevin.posteriors_sgld,
    },
    note=(
        "credo runs its chains side by side, a core each; the peers one after another, each "
        "with both cores."
    ),
)
