"""The model one gets without choosing: for the estimators, the command line and the report."""

from credo.model.likelihoods import Bernoulli, Categorical, Likelihood, NormalLearntScale
from credo.model.model import Model
from credo.model.priors import NormalPrior, Prior
from credo.networks import MLP, Network


def default_model(
    num_classes: int | None,
    network: Network | None = None,
    prior: Prior | None = None,
    num_targets: int = 1,
) -> Model:
    """A classifier of `num_classes`, or (None) a regression on standardised targets.

    Two classes share one logit, which has no redundant direction for a sampler to wander along.
    """
    likelihood: Likelihood
    if num_classes is None:
        likelihood = NormalLearntScale(num_targets)
    else:
        likelihood = Bernoulli() if num_classes == 2 else Categorical(num_classes)
    return Model(network or MLP(hidden=(50,)), likelihood, prior or NormalPrior(1.0))
