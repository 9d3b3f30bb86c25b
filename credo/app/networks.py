"""Which network, and which noise around it, on the command line."""

from typing import Annotated, Literal

from tyro.conf import arg

from credo.networks import MLP, LeNet, Network

NetworkName = Literal["mlp", "lenet"]
Hidden = Annotated[tuple[int, ...] | None, arg(metavar="INT ...", help_behavior_hint="")]
# Not --noise: that is a hyper-parameter of sgld and sghmc.
TargetNoise = Annotated[float | None, arg(metavar="FLOAT", help_behavior_hint="")]


def chosen_network(name: NetworkName, hidden: tuple[int, ...] | None) -> Network | None:
    """The network that the flags describe; None leaves the choice to `credo.default_model`."""
    if name == "lenet":
        return LeNet() if hidden is None else LeNet(hidden=hidden)
    return None if hidden is None else MLP(hidden=hidden)
