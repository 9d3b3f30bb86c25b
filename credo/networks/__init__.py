"""Networks: MLP, LeNet, and adapters for networks written elsewhere."""

from credo.networks.adapters import Equinox, Functions
from credo.networks.lenet import LeNet
from credo.networks.mlp import MLP
from credo.networks.network import Network, Noise, Params, no_noise, site_shapes
from credo.networks.prior_function import PriorFunction
from credo.networks.tabular import TabularNetwork
from credo.networks.weights import FlipoutWeight, NormalWeight, conv, linear, max_pool

__all__ = [
    "MLP",
    "Equinox",
    "FlipoutWeight",
    "Functions",
    "LeNet",
    "Network",
    "Noise",
    "NormalWeight",
    "Params",
    "PriorFunction",
    "TabularNetwork",
    "conv",
    "linear",
    "max_pool",
    "no_noise",
    "site_shapes",
]
