"""The model one gets without choosing: for the estimators, the command line and the report."""

import math

from credo.errors import CredoError
from credo.model.likelihoods import Bernoulli, Categorical, Likelihood, Normal
from credo.model.model import Model
from credo.model.priors import NormalPrior, Prior
from credo.networks import MLP, Network

DEFAULT_NETWORK = MLP(hidden=(50,))


def default_model(
    num_classes: int | None,
    network: Network | None = None,
    prior: Prior | None = None,
    num_targets: int = 1,
    noise: float | None = None,
) -> Model:
    """A classifier of `num_classes`, or (None) a regression on standardized targets.

    `noise` is the known standard deviation of a regression's targets around the function, in the
    units of the targets that the model is fitted to; None lets it be learned.
    Two classes share one logit, which has no redundant direction for a sampler to wander along.
    """
    likelihood: Likelihood
    if num_classes is None:
        likelihood = Normal("learned" if noise is None else float(noise), num_targets)
    elif noise is not None:
        raise CredoError("known noise is for quantities, and the target is a class; leave it out")
    else:
        likelihood = Bernoulli() if num_classes == 2 else Categorical(num_classes)
    return Model(network or DEFAULT_NETWORK, likelihood, prior or NormalPrior(1.0))


def standardized_noise(noise: float | None, factor: float) -> float | None:
    """Known noise in units of targets that were divided by `factor`; None where it is learned."""
    if noise is None:
        return None
    if not 0 < noise < math.inf:
        raise CredoError(f"the known noise must be a positive standard deviation, got {noise}")
    return float(noise) / factor
