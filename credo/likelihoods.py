"""Likelihoods by their public name: `credo.likelihoods.Normal()`."""

from credo.model.likelihoods import (
    Bernoulli,
    BernoulliArray,
    Categorical,
    Likelihood,
    MultivariateNormal,
    NegativeBinomial,
    Normal,
    NormalMixture,
    Ordinal,
    Poisson,
    StudentT,
)

__all__ = [
    "Bernoulli",
    "BernoulliArray",
    "Categorical",
    "Likelihood",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "NormalMixture",
    "Ordinal",
    "Poisson",
    "StudentT",
]
