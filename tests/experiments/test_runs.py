"""Every experiment from end to end, so small that its figures mean nothing."""

import dataclasses
import functools
import re

import pytest

from credo.data import load
from credo.data.dataset import Dataset, Split
from credo.experiments import (
    bayesian_convnet,
    bnn_posteriors,
    landscape,
    lenet_anchors,
    lenet_ensemble,
    mnist,
    sparse_dropout,
    weight_decay,
)
from credo.experiments.registry import EXPERIMENTS, experiment_named
from credo.networks import MLP

TINY = {
    "defaults": {"sets": ("tables/labor", "uci/yacht"), "splits": 1, "max_rows": 40},
    "dropout-accuracy": {"seeds": 2, "epochs": 1, "per_class": 5, "num_draws": 2},
    "training-log": {"seeds": 1, "epochs": 2},
    "keep-probabilities": {"seeds": 1, "epochs": 1},
    "weight-decay": {"seeds": 1, "num_steps": 3, "num_draws": 2},
    "dropout-functions": {"num_steps": 3, "num_draws": 2},
    "uncertainty-histograms": {"num_images": 20, "num_draws": 3, "epochs": 1},
    "bayesian-convnet": {"num_images": 200, "num_steps": 2, "num_draws": 2},
    "uci-dropout": {
        "sets": ("yacht",), "splits": 2, "num_steps": 3, "num_draws": 2,
        "rates": (0.1,), "prior_scales": (1.0,),
    },
    "uci-ensemble": {
        "sets": ("yacht",), "splits": 2, "size": 2, "num_steps": 3, "num_draws": 2,
        "prior_scales": (1.0,),
    },
    "lenet-anchors": {
        "sets": ("mnist",), "num_images": 200, "num_steps": 2, "variational_steps": 2,
        "num_draws": 2,
    },
    "lenet-ensemble": {
        "sets": ("fashion-mnist",), "num_images": 200, "num_epochs": (0.1,), "size": 2,
        "rates": (0.1,), "num_draws": 5,
    },
    "sgld-tuning": {"rates": (0.1,), "num_steps": 30, "num_chains": 2},
    "stream": {
        "labels": 30, "batch": 10, "size": 2, "num_steps": 3, "update_steps": 2, "hidden": 4,
        "seeds": 2,
    },
    "sparse-dropout": {"num_images": 200, "num_steps": 2, "hidden": (4,)},
    "sgd-to-mcmc": {"num_samples": 100, "num_steps": 20},
    "landscape": {
        "num_images": 100, "num_members": 3, "num_steps": 4, "tunnel_steps": 2, "num_rows": 30,
        "num_points": 3,
    },
    "bnn-regression": {"hidden": 3, "num_samples": 5, "num_leapfrog": 2, "num_steps": 5},
    "bnn-posteriors": {
        "num_images": 20, "num_test": 30, "hidden": 3, "num_samples": 5, "num_leapfrog": 2,
        "ensemble_size": 2, "num_steps": 5, "temperatures": (1.0,),
    },
}  # fmt: skip
WITHOUT_DATA = ("weight-decay", "dropout-functions", "sgd-to-mcmc", "sgld-tuning", "stream")

pytestmark = pytest.mark.usefixtures("quick_compilation")


@functools.cache
def few_images(name: str, data_dir) -> Dataset:
    """Real images, but not all of them: 12,000 have at least 1,000 of every class."""
    full = load(name, data_dir=data_dir)
    parts = {"train": (full.train, 12000), "test": (full.test, 200)}
    few = {name: Split(*(array[:count] for array in part)) for name, (part, count) in parts.items()}
    return dataclasses.replace(full, **few)


@pytest.fixture
def small(monkeypatch):
    """Networks and data that take no time: what is tested is the experiment around them."""
    monkeypatch.setattr(mnist, "MLP", lambda hidden: MLP(hidden=(8, 8)))
    for module in (bayesian_convnet, lenet_anchors, lenet_ensemble):
        monkeypatch.setattr(module, "LeNet", lambda: MLP(hidden=(8,)))
    monkeypatch.setattr(landscape, "LeNet", lambda channels, hidden: MLP(hidden=(8,)))
    reading = (
        mnist, bayesian_convnet, bnn_posteriors, landscape, lenet_anchors, lenet_ensemble,
        sparse_dropout,
    )  # fmt: skip
    for module in reading:
        monkeypatch.setattr(module, "load", few_images)
    monkeypatch.setattr(weight_decay, "SCALES", tuple(weight_decay.PANELS))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_runs_and_makes_its_page(name, small, request, tmp_path):
    data_dir = None if name in WITHOUT_DATA else request.getfixturevalue("data_dir")
    page = experiment_named(name)(**TINY[name]).run(data_dir)
    assert page.name == name and page.patterns
    written = page.write(tmp_path).read_text("utf-8")
    pictures = re.findall(r"\(([^()]*\.png)\)", written)
    assert len(pictures) == len(page.figures)
    assert all((tmp_path / picture).stat().st_size > 1000 for picture in pictures)
    for _, rows in page.tables:
        assert len({len(row) for row in rows}) == 1 and len(rows) > 1
        assert not any("|" in cell or "nan" in cell.lower() for row in rows for cell in row)
