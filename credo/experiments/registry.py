"""Every experiment by the name it has on the command line. A new experiment adds one line here."""

import difflib
import importlib
from pathlib import Path
from typing import Protocol

from credo.errors import CredoError
from credo.experiments.page import Page

# Modules and classes are named, not imported: one experiment does not pay for all the others.
EXPERIMENTS: dict[str, str] = {
    "dropout-accuracy": "dropout_accuracy.DropoutAccuracy",
    "training-log": "training_log.TrainingLog",
    "keep-probabilities": "keep_probabilities.KeepProbabilities",
    "weight-decay": "weight_decay.WeightDecay",
    "dropout-functions": "dropout_functions.DropoutFunctions",
    "uncertainty-histograms": "uncertainty_histograms.UncertaintyHistograms",
    "bayesian-convnet": "bayesian_convnet.BayesianConvnet",
    "defaults": "defaults.Defaults",
    "uci-dropout": "uci_dropout.UciDropout",
    "uci-ensemble": "uci_ensemble.UciEnsemble",
    "lenet-anchors": "lenet_anchors.LeNetAnchors",
    "lenet-ensemble": "lenet_ensemble.LeNetEnsemble",
    "sgld-tuning": "sgld_tuning.SgldTuning",
    "stream": "stream.Stream",
    "sparse-dropout": "sparse_dropout.SparseDropout",
    "sgd-to-mcmc": "sgd_to_mcmc.SgdToMcmc",
    "landscape": "landscape.Landscape",
    "bnn-posteriors": "bnn_posteriors.BnnPosteriors",
    "bnn-regression": "bnn_regression.BnnRegression",
}


class Experiment(Protocol):
    """A frozen dataclass whose fields are its settings."""

    def run(self, data_dir: str | Path | None = None) -> Page: ...


def experiment_named(name: str) -> type[Experiment]:
    """The class of a registered experiment."""
    if name not in EXPERIMENTS:
        close = difflib.get_close_matches(name, EXPERIMENTS, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise CredoError(f"unknown experiment {name!r}; known: {', '.join(EXPERIMENTS)}{hint}")
    module, cls = EXPERIMENTS[name].split(".")
    return getattr(importlib.import_module(f"credo.experiments.{module}"), cls)
