"""Steps of four chains of SGHMC with noise on 650,000 weights."""

from rows import _langevin as langevin

ROW = langevin.langevin_row(
    "SGHMC",
    4,
    {
        "credo": langevin.credo_sghmc,
        "BlackJAX": langevin.blackjax_sghmc,
        "posteriors": langevin.posteriors_sghmc,
    },
    note=(
        "credo runs its chains side by side, a core each; the peers one after another, each "
        "with both cores. BlackJAX's kernel takes ten gradients on one batch per call; with "
        "one it would leave its gradient unused."
    ),
)
