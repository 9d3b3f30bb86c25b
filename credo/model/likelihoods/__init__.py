"""Likelihoods: how network outputs become distributions over targets. One file each."""

from credo.model.likelihoods.bernoulli_array import BernoulliArray, BernoulliArrayPredictive
from credo.model.likelihoods.categorical import Bernoulli, Categorical
from credo.model.likelihoods.likelihood import Likelihood
from credo.model.likelihoods.multivariate_normal import (
    MultivariateNormal,
    MultivariateNormalPredictive,
)
from credo.model.likelihoods.negative_binomial import NegativeBinomial, NegativeBinomialPredictive
from credo.model.likelihoods.normal import Normal, NormalPredictive
from credo.model.likelihoods.normal_mixture import NormalMixture, NormalMixturePredictive
from credo.model.likelihoods.ordinal import Ordinal
from credo.model.likelihoods.poisson import Poisson, PoissonPredictive
from credo.model.likelihoods.student_t import StudentT, StudentTPredictive

__all__ = [
    "Bernoulli",
    "BernoulliArray",
    "BernoulliArrayPredictive",
    "Categorical",
    "Likelihood",
    "MultivariateNormal",
    "MultivariateNormalPredictive",
    "NegativeBinomial",
    "NegativeBinomialPredictive",
    "Normal",
    "NormalMixture",
    "NormalMixturePredictive",
    "NormalPredictive",
    "Ordinal",
    "Poisson",
    "PoissonPredictive",
    "StudentT",
    "StudentTPredictive",
]
