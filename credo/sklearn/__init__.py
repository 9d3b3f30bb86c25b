"""scikit-learn estimators: Bayesian networks in pipelines, searches and cross-validation.

Every inference method of credo is one value of `method`, and its fields are parameters of the
estimator: `method__rate` in a grid search is the field `rate` of `credo.Dropout`.
"""

from credo.sklearn.classifier import BayesianClassifier, ClassUncertainty
from credo.sklearn.regressor import BayesianRegressor, ValueUncertainty

__all__ = ["BayesianClassifier", "BayesianRegressor", "ClassUncertainty", "ValueUncertainty"]
