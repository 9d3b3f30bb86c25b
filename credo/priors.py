"""Priors by their public name: `credo.priors.NormalPrior(0.5)`."""

from credo.model.priors import FanInPrior, LayerPrior, NormalPrior, Prior, WeightPrior

__all__ = ["FanInPrior", "LayerPrior", "NormalPrior", "Prior", "WeightPrior"]
